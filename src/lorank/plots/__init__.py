"""Figures of models, searches, comparisons and maps; they need matplotlib (`pip install 'lorank[plot]'`)."""

from lorank.plots.figures import (
    COLOURS,
    draw_convergence,
    draw_error_against_time,
    draw_model,
    draw_residuals,
    draw_shrinkage,
    draw_spectra,
    figure,
    shrinkage_examples,
)
from lorank.plots.maps import map, save_map, write_page
from lorank.plots.tables import draw_coverage, draw_filled, draw_missing

__all__ = [
    "COLOURS",
    "draw_convergence",
    "draw_coverage",
    "draw_error_against_time",
    "draw_filled",
    "draw_missing",
    "draw_model",
    "draw_residuals",
    "draw_shrinkage",
    "draw_spectra",
    "figure",
    "map",
    "save_map",
    "shrinkage_examples",
    "write_page",
]
