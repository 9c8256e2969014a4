"""Fitted models: prediction, intervals, recommendations, new rows, model files."""
