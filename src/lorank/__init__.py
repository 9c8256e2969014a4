"""Learn low-rank matrices from the entries that were seen."""
