"""The pieces by which a grid is filled: regression of each cell, smoothing of what it leaves, gaps to judge on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from lorank.types import Array

# Part of the times that get the gaps of other times to be judged on, and how often others are taken: errors at one time
# are alike, so that a few times do not tell how large errors are.
HIDDEN, REPEATS = 0.15, 3
# Smoothing reaches so many widths.
REACH = 3.0


@dataclass(frozen=True)
class Regression:
    """Regressors (n, p), the prior of a cell's coefficients: centre (p,) and precision (p, p), and the noise's
    variance."""

    regressors: Array
    centre: Array
    precision: Array
    noise: float

    def predict(self, x: Array) -> Array:
        """All values (c, n) of cells x (c, n), NaN missing."""
        R, p = self.regressors, self.regressors.shape[1]
        seen = (~np.isnan(x)).astype(np.float64)
        products = (R[:, :, None] * R[:, None, :]).reshape(len(R), -1)
        normal = (seen @ products).reshape(-1, p, p) / self.noise + self.precision
        off = np.where(seen > 0, x - R @ self.centre, 0.0)
        coefficients = self.centre + np.linalg.solve(normal, (off @ R / self.noise)[:, :, None])[:, :, 0]
        return np.asarray(coefficients @ R.T)


@dataclass(frozen=True)
class Smoothing:
    """Gaussian weights over cells and times, of widths in cells and times; shrinkage counts as much as so much that
    was seen."""

    cells: float
    times: float
    shrinkage: float

    @property
    def widths(self) -> tuple[float, float, float]:
        return self.times, self.cells, self.cells

    def apply(self, residual: Array) -> tuple[Array, Array]:
        """Smoothed residual (n, y, x), NaN missing, and how well it is known, from 0 to 1."""
        if self.cells == 0 and self.times == 0:
            return np.zeros_like(residual), np.zeros_like(residual)
        seen = ~np.isnan(residual)
        weight = gaussian_filter(seen.astype(np.float32), self.widths, mode="constant", truncate=REACH)
        total = gaussian_filter(
            np.where(seen, residual, 0).astype(np.float32), self.widths, mode="constant", truncate=REACH
        )
        # In units of the weight that a single value has.
        alone = 1.0
        for width in self.widths:
            alone *= 1 / max(np.sqrt(2 * np.pi) * width, 1.0)
        below = np.maximum(weight, 0) + max(self.shrinkage * alone, 1e-9)
        return total / below, weight / below


def lend_gaps(values: Array, rng: np.random.Generator) -> list[Array]:
    """Pairs (k, 2) of times of values (n, y, x), one that is judged and one whose gaps it gets, for each repeat."""
    gaps = np.isnan(values)
    missing = gaps.mean(axis=(1, 2)) - gaps.all(axis=0).mean()
    lenders = np.flatnonzero(missing > 0)
    if not lenders.size:
        return [np.empty((0, 2), int)]
    # Clear times: in a time with few values there is little to hide.
    clear = rng.permutation(np.argsort(missing, kind="stable")[: max(1, len(values) // 2)])
    count = max(1, round(HIDDEN * len(values)))
    judged = [clear[start : start + count] for start in range(0, min(REPEATS * count, clear.size), count)]
    return [np.column_stack([times, rng.choice(lenders, times.size)]) for times in judged]


def hide_gaps(values: Array, pairs: Array) -> Array:
    """Which values (n, y, x) of the grid or of a part of it are hidden by the gaps that were lent."""
    gaps = np.isnan(values)
    hidden = np.zeros_like(gaps)
    for judged, lender in pairs:
        hidden[judged] = ~gaps[judged] & gaps[lender]
    return hidden
