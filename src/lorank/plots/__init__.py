"""Figures of models, searches and comparisons; they need matplotlib (`pip install 'lorank[plot]'`)."""

from lorank.plots.figures import *  # noqa: F403
