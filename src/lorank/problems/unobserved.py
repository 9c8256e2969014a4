"""What was not observed counts a little: each entry that was not observed is a value r0 with a weight w0.

The sum over all m x n entries is never formed. With c_ij the weight of an observed entry and o_ij its value,

    sum_obs c/2 (x - o)^2 + sum_rest w0/2 (x - r0)^2 = sum_obs (c - w0)/2 (x - t)^2 + sum_all w0/2 (x - r0)^2 - const,
    t = (c o - w0 r0) / (c - w0),   const = sum_obs c w0 / (c - w0) / 2 (o - r0)^2,

so that every line solves a regression on its own entries, weighted by c - w0 and with the values t, to which the Gram
of the other side is added once: (w0 H^T H + sum_obs (c - w0) h h^T + ridge) w = w0 r0 sum_all h + sum_obs (c - w0) t h.

Hu, Koren, Volinsky, "Collaborative filtering for implicit feedback datasets", ICDM 2008.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.observations import Lines, Observations
from lorank.types import Array


@dataclass(frozen=True)
class Unobserved:
    """Entries that were not observed are `value` with this `weight`, which is below that of any observed entry."""

    weight: float
    value: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < np.inf or not np.isfinite(self.value):
            raise InputError(
                f"unobserved_weight must be a finite number > 0 and unobserved_value finite; got {self.weight!r} and "
                f"{self.value!r}."
            )

    def check(self, observations: Observations) -> None:
        """Refuse entries that would count less than what was not observed."""
        least = 1.0 if observations.weights is None else float(observations.weights.min(initial=np.inf))
        if not self.weight < least:
            raise InputError(
                f"unobserved_weight must be less than the weight of every observed entry: it is {self.weight:g}, and "
                f"one has {least:g}."
            )

    def beyond(self, lines: Lines) -> Lines:
        """The lines with the weights c - w0 and the values t: what they have beyond the sum over all entries."""
        kind = lines.values.dtype.type
        weights = np.ones_like(lines.values) if lines.weights is None else lines.weights
        excess = weights - kind(self.weight)
        return replace(lines, values=(weights * lines.values - kind(self.weight * self.value)) / excess, weights=excess)

    def constant(self, observations: Observations) -> float:
        """What the sums over observed and over all entries have more than the loss."""
        c = np.ones(1) if observations.weights is None else observations.weights.astype(np.float64)
        squares = (observations.values.astype(np.float64) - self.value) ** 2
        return 0.5 * float(np.sum(c * self.weight / (c - self.weight) * squares))

    def all_entries(self, factors: Factors, left: Array, right: Array) -> float:
        """w0/2 the sum of (x_ij - r0)^2 over all entries, given the Grams W^T W and H^T H.

        x_ij - r0 = <[w_i, a_i + offset - r0, 1], [h_j, 1, b_j]>, so that the sum is the product of two Grams.
        """
        row_bias, col_bias = (side.astype(np.float64) for side in (factors.row_bias, factors.col_bias))
        one = _bordered(left, factors.W, row_bias + (factors.offset - self.value), np.ones_like(row_bias))
        other = _bordered(right, factors.H, np.ones_like(col_bias), col_bias)
        return self.weight / 2 * float(np.sum(one * other))

    def line_gram(self, factors: Factors, right: Array) -> Array:
        """w0 times the Gram (p + 1, p + 1) of [F, r0 - offset - b], F = [H, 1] with biases; lines begin with it."""
        target = self.value - factors.offset - factors.col_bias.astype(np.float64)
        more = (np.ones_like(target), target) if factors.biased else (target,)
        return self.weight * _bordered(right, factors.H, *more)

    def slopes(self, factors: Factors, right: Array) -> Array:
        """w0 sum_j (x_ij - r0) f_j of each line, f_j = [h_j, 1] with biases; (lines, p)."""
        row_bias, col_bias = (side.astype(np.float64) for side in (factors.row_bias, factors.col_bias))
        gram = _bordered(right, factors.H, np.ones_like(col_bias), col_bias)[:, : factors.k + factors.biased]
        x = factors.W.astype(np.float64) @ gram[:-2]
        x += np.outer(row_bias + (factors.offset - self.value), gram[-2]) + gram[-1]
        return self.weight * x


def line_weights(lines: Lines, size: int, unobserved: Unobserved | None) -> Array:
    """What all entries of each line weigh together, of `size` entries those that were not observed too; at least 1."""
    weight = lines.totals().astype(np.float64)
    if unobserved is not None:
        weight += unobserved.weight * (size - np.diff(lines.pointers))
    # A line without entries is regularized as one that has a single one.
    return np.maximum(weight, 1.0)


def frequency_shares(lines: Lines, size: int, power: float, unobserved: Unobserved | None = None) -> Array:
    """How much of the regularizer each line (of `size` entries) bears: (its weight / the mean weight)^power.

    The regularizer is then taken
    at D_r^1/2 X D_c^1/2, D_r and D_c the diagonal matrices of the shares of rows and columns.

    Srebro, Salakhutdinov, "Collaborative filtering in a non-uniform world: learning with the weighted trace norm",
    NeurIPS 2010; Rendle, Krichene, Zhang, Koren, "Revisiting the performance of iALS on item recommendation
    benchmarks", RecSys 2022.
    """
    weight = line_weights(lines, size, unobserved)
    return ((weight / weight.mean()) ** power).astype(lines.values.dtype)


def _bordered(gram: Array, factor: Array, *more: Array) -> Array:
    """The Gram of [factor, more], given that of the factor; in float64."""
    columns = np.column_stack(more)
    beside = factor.T.astype(np.float64) @ columns
    return np.block([[gram, beside], [beside.T, columns.T @ columns]])
