"""A model behind HTTP: predictions, lists, likes and new rows as JSON, a page to look at, numbers for monitoring."""
