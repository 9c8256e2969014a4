"""Choose parameters on held-out entries."""
