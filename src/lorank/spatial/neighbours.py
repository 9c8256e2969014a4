"""Kriging from the nearest measured places, for every place and time at once, and the kernel that suits it.

With all places, kriging costs places^3 at every time whose gaps differ; the nearest sixteen that have a value screen
off the others, and cost as little anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from lorank.kernels import Workers, krige_lines
from lorank.side_information.kernel import SMOOTHNESS, spread
from lorank.spatial.drift import Places
from lorank.types import Array

# Neighbours with a value that are used, and those among which they are looked for.
COUNT, AROUND = 16, 64
# The kernel is chosen at so many places and times.
CHOSEN_PLACES, CHOSEN_TIMES = 250, 40
# Length in units of the typical distance between places, nugget, and stretch of covariates in the same unit, to begin
# with.
START = (0.5, 0.2, 0.1)


@dataclass(frozen=True)
class FieldKernel:
    """Covariance of a field at one time: kernel(distance / length) + nugget for what a value has for itself.

    The distance has the covariates as further coordinates, multiplied by stretch (p,), in 1000 km per deviation;
    `variance` is that of the field, which the kriged values do not depend on.
    """

    kernel: str
    length: float
    nugget: float
    stretch: Array
    variance: float = 1.0

    def scaled(self, places: Places) -> Array:
        """Coordinates (m, 3 + p) in units of the length."""
        return places.stretched(self.length, self.stretch)


def krige_nearest(
    values: Array,
    known: Array,
    targets: Array,
    kernel: FieldKernel,
    own: Array | None = None,
    workers: Workers | None = None,
) -> tuple[Array, Array]:
    """Mean and variance (p, n) of a field at targets (p, d), from values (m, n), NaN missing, at points known (m, d).

    Points are in units of the kernel's length. own (p,) is the place of each target among the known, -1 for none: its
    own values are not used. The variance is in units of the field's.
    """
    look = min(AROUND + 1, len(known))
    nearest = np.asarray(cKDTree(known).query(targets, k=look)[1], np.int64).reshape(len(targets), look)
    if own is not None:
        # Its own place goes behind all others and is left out.
        mine = nearest == own[:, None]
        nearest = np.take_along_axis(nearest, np.argsort(mine, axis=1, kind="stable"), axis=1)
        nearest[np.take_along_axis(mine, np.argsort(mine, axis=1, kind="stable"), axis=1)] = -1
    nearest = np.ascontiguousarray(nearest[:, :AROUND])
    mean, variance = np.empty((len(targets), values.shape[1])), np.empty((len(targets), values.shape[1]))
    values, known, targets = (np.ascontiguousarray(part, np.float64) for part in (values, known, targets))
    smoothness, nugget = SMOOTHNESS[kernel.kernel], max(kernel.nugget, 1e-6)
    (workers or Workers()).run_evenly(
        krige_lines, len(targets), values, known, targets, nearest, smoothness, nugget, COUNT, mean, variance,
        work_per_line=1000.0 * values.shape[1],
    )  # fmt: skip
    return mean, variance


def choose_kernel(z: Array, places: Places, kernel: str, unit: float, workers: Workers | None = None) -> FieldKernel:
    """The kernel by which each measured value is best predicted from those around it, by its logarithmic score.

    z (m, n) is a field of mean 0, NaN missing. unit is a typical distance between places.
    """
    measured = np.flatnonzero(~np.isnan(z).all(axis=1))
    values, here = z[measured], places[measured]
    counts = (~np.isnan(values)).sum(axis=0)
    full = np.flatnonzero(counts >= min(counts.max(), max(3, np.median(counts[counts > 0]) / 2)))
    times = full[np.unique(np.linspace(0, full.size - 1, CHOSEN_TIMES).astype(int))]
    values = values[:, times]
    judged = spread(here.points, CHOSEN_PLACES) if len(here) > CHOSEN_PLACES else np.arange(len(here))
    p = places.covariates.shape[1]
    start = np.log(np.r_[START[0] * unit, START[1], np.full(p, START[2] * unit)])
    pool = workers or Workers()

    def built(theta: Array) -> FieldKernel:
        length, nugget = np.exp(theta[:2])
        return FieldKernel(kernel, float(length), float(nugget), np.exp(theta[2:]))

    def misses(theta: Array) -> tuple[Array, Array]:
        field = built(theta)
        x = field.scaled(here)
        mean, variance = krige_nearest(values, x, x[judged], field, judged, pool)
        miss = mean - values[judged]
        seen = ~np.isnan(miss)
        return miss[seen], variance[seen] + field.nugget

    def score(theta: Array) -> float:
        if np.abs(theta - start).max() > 7:
            return np.inf
        miss, variance = misses(theta)
        prior = 0.5 * np.sum((theta - start) ** 2)
        return float(
            np.log(variance).sum() + miss.size * np.log(max(float(np.mean(miss**2 / variance)), 1e-300)) + prior
        )

    if measured.size < 3 or not np.nanmax(np.abs(values)) > 0:
        return built(start)
    simplex = np.vstack([start, start + np.eye(start.size)])
    found = minimize(
        score, start, method="Nelder-Mead",
        options={"initial_simplex": simplex, "maxfev": 35 + 12 * p, "xatol": 0.1, "fatol": 1.0},
    )  # fmt: skip
    miss, variance = misses(found.x)
    field = built(found.x)
    return FieldKernel(kernel, field.length, field.nugget, field.stretch, float(np.mean(miss**2 / variance)))
