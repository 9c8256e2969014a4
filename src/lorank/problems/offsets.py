"""Offsets of rows and columns by empirical Bayes.

    v_ij = mu + a_i + b_j + noise,   a_i ~ N(0, va),   b_j ~ N(0, vb),   noise ~ N(0, s2)

Variational with independent a and b: given b, row i has precision n_i / s2 + 1 / va; variances follow from means and
variances, va = sum(a_i^2) / sum(1 - var a_i / va), s2 = mean((v - mu - a_i - b_j)^2 + var a_i + var b_j). That va is
MacKay's (Neural Computation 4, 1992): it rests where that of EM does, mean(a_i^2 + var a_i), and is there in fewer
rounds, many fewer where rows differ by little more than noise, as on very sparse data. The ridges of the offsets in
least squares are s2 / va and s2 / vb, each its own; they have no unit, so that they are the same whatever the data are
multiplied by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lorank.kernels import Workers, line_sums
from lorank.observations import Observations
from lorank.types import Array

# Rounds at most; they end when s2 changes by less than TOLERANCE of it, and va by less than that of va + s2 / n, n the
# entries of a row on average: a smaller va does nothing. Variances stay above FLOOR of the data's.
ROUNDS, TOLERANCE, FLOOR = 200, 1e-3, 1e-9

# The offsets of one side, rows or, when transposed, columns, given those of the other: a function of (transposed, the
# other side's, level, variance, s2) that gives them, wherever they are kept, and the sums of `half_round`.
Half = Callable[[bool, Any, float, float, float], tuple[Any, Array]]


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

    @property
    def variances(self) -> Offsets:
        """The same without the offsets themselves."""
        return replace(self, a=np.zeros(0), b=np.zeros(0))

    def predict(self, rows: Array, cols: Array) -> Array:
        """mu + a_i + b_j at positions."""
        return self.mu + self.a[rows] + self.b[cols]


def empirical_bayes_offsets(
    observations: Observations,
    rounds: int = ROUNDS,
    tolerance: float = TOLERANCE,
    workers: Workers | None = None,
) -> Offsets:
    """Offsets and their variances; rounds of two passes until va, vb and s2 change by little."""
    pool = workers or Workers()
    sides = observations.by_row, observations.by_col
    counts = [lines.totals().astype(np.float64) for lines in sides]

    def half(transposed: bool, other: Array, level: float, variance: float, s2: float) -> tuple[Array, Array]:
        lines = sides[transposed]
        sums, squares = np.empty(counts[transposed].size), np.empty(counts[transposed].size)
        pool.run(line_sums, lines.pointers, *lines.arrays, other + level, sums, squares, work_per_entry=4)
        return half_round(counts[transposed], sums, squares, variance, s2)

    none = [np.zeros(own.size) for own in counts]
    found, shifts = alternate(half, none, float(counts[0].sum()), rounds, tolerance)
    a, b = (np.where(own > 0, raw - shift, 0) for own, raw, shift in zip(counts, (found.a, found.b), shifts))
    return replace(found, a=a, b=b)


def alternate(
    half: Half,
    none: Sequence[Any],
    entries: float,
    rounds: int = ROUNDS,
    tolerance: float = TOLERANCE,
    near: Offsets | None = None,
) -> tuple[Offsets, tuple[float, float]]:
    """The same wherever lines and offsets are kept: the offsets, and the constants that are to be taken off them.

    none : zero offsets of rows and of columns.
    entries : how many there are, or what they weigh together.
    near : variances to begin with, such as those of some of the entries: rounds are then fewer.
    """
    a, b = none
    mu = half(False, b, 0.0, 1.0, 1.0)[1][0] / entries
    scale = half(False, b, mu, 1.0, 1.0)[1][1] / entries
    if scale <= 1e-12 * mu * mu or scale == 0:
        return Offsets(float(mu), a, b, 0.0, 0.0, 0.0), (0.0, 0.0)
    floor = FLOOR * scale
    first = (scale / 4, scale / 4, scale / 2) if near is None else (near.va, near.vb, near.s2)
    va, vb, s2 = (max(float(variance), floor) for variance in first)
    # Offsets stay as they come; what those of a side have in common, which goes into mu, is a number.
    shift_a = shift_b = 0.0
    for _ in range(rounds):
        before = np.array([va, vb, s2])
        a, (_, _, _, spread_a, size_a, sum_a, seen_a) = half(False, b, mu - shift_b, va, s2)
        va = max(size_a * s2 / spread_a, floor)  # 1 - var a_i / va is n_i var a_i / s2
        b, (_, _, squares, spread_b, size_b, sum_b, seen_b) = half(True, a, mu, vb, s2)
        vb = max(size_b * s2 / spread_b, floor)
        s2 = max((squares + spread_a + spread_b) / entries, floor)
        # At the optimum the offsets of the lines that were seen sum to zero; moving there saves hundreds of rounds.
        shift_a, shift_b = sum_a / seen_a, sum_b / seen_b
        mu += shift_a + shift_b
        size = before + s2 / entries * np.array([seen_a, seen_b, 0])
        if (np.abs(np.array([va, vb, s2]) - before) < tolerance * size).all():
            break
    return Offsets(float(mu), a, b, float(va), float(vb), float(s2)), (float(shift_a), float(shift_b))


def half_round(counts: Array, sums: Array, squares: Array, variance: float, s2: float) -> tuple[Array, Array]:
    """One side's offsets from its lines' counts, and sums and sums of squares of r = v - level - other side's offset.

    With them the sums over the lines of r, of r^2, of squared residuals, of counts times var a_i, of a_i^2 and of a_i,
    and the number of lines with entries: others know nothing of the variance.
    """
    spread = 1 / (counts / s2 + 1 / variance)
    own = spread / s2 * sums
    residual = (squares - 2 * own * sums + counts * own**2).sum()
    about = (own**2).sum(), own.sum(), np.count_nonzero(counts)
    return own, np.array([sums.sum(), squares.sum(), residual, counts @ spread, *about])
