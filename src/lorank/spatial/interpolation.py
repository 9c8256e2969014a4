"""Kriging of a few numbers of each place (its month means, its scale) to places that have none of their own."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from lorank.side_information.kernel import EXACT_LIMIT, spread
from lorank.types import Array

# What is tried: lengths in units of the typical distance between places, nuggets in units of the variance.
LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
NUGGETS = (0.001, 0.01, 0.1, 0.5)
# A linear drift across the area needs some places to be fitted to.
DRIFT_FROM = 12


def typical_distance(points: Array) -> float:
    """Median distance between two of the points (m, d); 1 if there is only one."""
    some = points[:: max(1, len(points) // 500)]
    apart = cdist(some, some)[np.triu_indices(len(some), 1)]
    return float(np.median(apart)) if apart.size else 1.0


def interpolate(points: Array, values: Array, others: Array) -> Array:
    """Values (o, q) at other points (o, d), from values (m, q) at points (m, d).

    A linear drift, plus kriging of what it leaves with an exponential kernel, whose length and nugget are those with
    the least error when each place is predicted from the rest: of that there is a closed form,
    r_i = (K^-1 y)_i / (K^-1)_ii.
    """
    if len(points) > EXACT_LIMIT:
        some = spread(points, EXACT_LIMIT)
        points, values = points[some], values[some]
    drift, drift_others = _drift(points), _drift(others)
    if len(points) < DRIFT_FROM:
        drift, drift_others = drift[:, :1], drift_others[:, :1]
    slopes = np.linalg.lstsq(drift, values, rcond=None)[0]
    rest = values - drift @ slopes
    size = rest.std(axis=0)
    if len(points) < 3 or not (size > 0).any():
        return drift_others @ slopes
    unit = typical_distance(points)
    apart = cdist(points, points) / unit
    found = (np.inf, 1.0, np.zeros_like(rest))
    for length in LENGTHS:
        shape = np.exp(-apart / length)
        for nugget in NUGGETS:
            inverse = scipy.linalg.inv(shape + nugget * np.eye(len(points)))
            weights = inverse @ rest
            error = float(np.mean((weights / np.diagonal(inverse)[:, None] / np.where(size > 0, size, 1)) ** 2))
            if error < found[0]:
                found = (error, length, weights)
    return drift_others @ slopes + np.exp(-cdist(others, points) / (unit * found[1])) @ found[2]


def _drift(points: Array) -> Array:
    return np.column_stack([np.ones(len(points)), points])
