"""Tables in and out, and model files."""
