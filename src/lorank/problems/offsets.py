"""Offsets of rows and columns by empirical Bayes.

    v_ij = mu + a_i + b_j + noise,   a_i ~ N(0, va),   b_j ~ N(0, vb),   noise ~ N(0, s2)

Variational EM with independent a and b: given b, row i has precision n_i / s2 + 1 / va; variances follow from
means and variances, va = mean(a_i^2 + var a_i), s2 = mean((v - mu - a_i - b_j)^2 + var a_i + var b_j). The ridges of
the offsets in least squares are s2 / va and s2 / vb, each its own; they have no unit, so that they are the same
whatever the data are multiplied by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lorank.kernels import Workers, line_sums
from lorank.observations import Observations
from lorank.types import Array

# Rounds at most; they end when no variance changes by more than TOLERANCE. Variances stay above FLOOR of the data's.
ROUNDS, TOLERANCE, FLOOR = 200, 1e-3, 1e-9

# Sum and sum of squares of v_ij - other_j over each row, or of v_ij - other_i over each column when transposed.
LineSums = Callable[[bool, Array], tuple[Array, ...]]


@dataclass(frozen=True)
class Offsets:
    """mu, a (m,), b (n,), the variances va, vb of a and b, and s2 of the noise."""

    mu: float
    a: Array
    b: Array
    va: float
    vb: float
    s2: float

    @property
    def ridges(self) -> tuple[float, float]:
        """Ridges of the row and column offsets in least squares, s2 / va and s2 / vb."""
        if self.s2 == 0:  # all values are the same
            return 1.0, 1.0
        return self.s2 / self.va, self.s2 / self.vb

    def predict(self, rows: Array, cols: Array) -> Array:
        """mu + a_i + b_j at positions."""
        return self.mu + self.a[rows] + self.b[cols]


def empirical_bayes_offsets(
    observations: Observations,
    rounds: int = ROUNDS,
    tolerance: float = TOLERANCE,
    workers: Workers | None = None,
) -> Offsets:
    """Offsets and their variances; rounds of two passes until va, vb and s2 change by less than `tolerance`."""
    pool = workers or Workers()
    sides = observations.by_row, observations.by_col

    def sums_of(transposed: bool, other: Array) -> tuple[Array, Array]:
        lines = sides[transposed]
        sums, squares = np.empty(lines.pointers.size - 1), np.empty(lines.pointers.size - 1)
        args = (*lines.arrays, other, sums, squares)
        pool.run(line_sums, lines.pointers, *args, work_per_entry=4)
        return sums, squares

    rows, cols = (lines.totals() for lines in sides)
    return offsets_of_sums(rows, cols, sums_of, rounds, tolerance)


def offsets_of_sums(
    row_counts: Array, col_counts: Array, sums_of: LineSums, rounds: int = ROUNDS, tolerance: float = TOLERANCE
) -> Offsets:
    """The same where entries are summed line by line, wherever they are kept; counts are of entries or weights."""
    counts = [side.astype(np.float64) for side in (row_counts, col_counts)]
    m, n, entries = counts[0].size, counts[1].size, float(counts[0].sum())
    a, b = np.zeros(m), np.zeros(n)
    mu = float(sums_of(False, b)[0].sum()) / entries
    scale = float(sums_of(False, b + mu)[1].sum()) / entries
    if scale <= 1e-12 * mu * mu or scale == 0:
        return Offsets(mu, a, b, 0.0, 0.0, 0.0)
    floor = FLOOR * scale
    seen_a, seen_b = counts[0] > 0, counts[1] > 0
    va, vb, s2 = scale / 4, scale / 4, scale / 2
    for _ in range(rounds):
        before = np.array([va, vb, s2])
        a, spread_a, va, _ = _half(sums_of(False, b + mu), counts[0], va, s2, floor)
        b, spread_b, vb, squares = _half(sums_of(True, a + mu), counts[1], vb, s2, floor)
        s2 = max(float(squares + counts[0] @ spread_a + counts[1] @ spread_b) / entries, floor)
        # At the optimum the offsets of the lines that were seen sum to zero; moving there saves hundreds of rounds.
        shift_a, shift_b = a[seen_a].mean(), b[seen_b].mean()
        a, b, mu = np.where(seen_a, a - shift_a, 0), np.where(seen_b, b - shift_b, 0), float(mu + shift_a + shift_b)
        if np.abs(np.log(np.array([va, vb, s2]) / before)).max() < tolerance:
            break
    return Offsets(mu, a, b, va, vb, s2)


def _half(
    residuals: tuple[Array, ...], counts: Array, variance: float, s2: float, floor: float
) -> tuple[Array, Array, float, float]:
    """Means and variances of one side's offsets, their new variance, and the sum of squared residuals."""
    sums, squares = residuals
    spread = 1 / (counts / s2 + 1 / variance)
    own = spread / s2 * sums
    residual = float((squares - 2 * own * sums + counts * own**2).sum())
    seen = counts > 0  # lines without entries know nothing of the variance
    return own, spread, max(float(np.mean(own[seen] ** 2 + spread[seen])), floor), residual
