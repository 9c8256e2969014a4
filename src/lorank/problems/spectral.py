"""Arithmetic at X = U diag(sigma) V^T: gradient steps as low rank + sparse, the objective, biases beside it.

No m x n array is formed: a gradient step on the loss changes the observed entries only, and the gradient of a graph's
term is of low rank, like X itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from lorank.linalg import Factors, SparsePlusLowRank
from lorank.problems.base import BaseProblem
from lorank.regularizers import Spectral
from lorank.types import Array


@dataclass(frozen=True)
class SpectralPoint:
    """X = U diag(sigma) V^T, U (m, r), sigma (r,), V (n, r), with biases beside it.

    `entries` are the observed entries of U diag(sigma) V^T, row-major. `bias` holds the offset, the row and the column
    biases in one array of length 1 + m + n, and is empty without biases.
    """

    U: Array
    sigma: Array
    V: Array
    entries: Array
    bias: Array

    @property
    def factors(self) -> Factors:
        """Balanced factors of X."""
        root = np.sqrt(self.sigma).astype(self.U.dtype)
        W, H = self.U * root, self.V * root
        if not self.bias.size:
            return Factors.of(W, H)
        offset, rows, cols = _split(self.bias, len(W))
        return Factors.of(W, H, rows.astype(W.dtype), cols.astype(W.dtype), offset)


@dataclass(frozen=True)
class SpectralProblem(BaseProblem):
    """What solvers need that work on the singular values of X."""

    @property
    def spectral(self) -> Spectral:
        """The regularizer as a function of singular values; `Solver.check` has made sure that it is one."""
        return cast(Spectral, self.regularizer)

    def point(self, U: Array, sigma: Array, V: Array, bias: Array) -> SpectralPoint:
        """X = U diag(sigma) V^T with these biases."""
        return SpectralPoint(U, sigma, V, self.entries(U, sigma, V), bias)

    def fitted_point(self, U: Array, sigma: Array, V: Array, bias: Array) -> tuple[SpectralPoint, float]:
        """X = U diag(sigma) V^T with the biases that go with it, found from these, and F there."""
        entries = self.entries(U, sigma, V)
        point = SpectralPoint(U, sigma, V, entries, self.fitted_bias(bias, entries))
        return point, self.point_objective(point)

    def start_point(self, start: Factors | None) -> SpectralPoint:
        """The thin SVD of given factors, or X = 0."""
        (m, n), dtype = self.observations.shape, self.observations.dtype
        bias = np.zeros(0)
        if self.biased:
            bias = np.zeros(1 + m + n)
            bias[0] = self.mean
        if start is None:
            return self.point(np.zeros((m, 0), dtype), np.zeros(0), np.zeros((n, 0), dtype), bias)
        if self.biased:
            bias = np.concatenate([[start.offset], start.row_bias, start.col_bias])
        (QW, RW), (QH, RH) = np.linalg.qr(start.W), np.linalg.qr(start.H)
        u, sigma, vt = np.linalg.svd(RW @ RH.T)
        return self.point(QW @ u, sigma.astype(np.float64), QH @ vt.T, bias)

    def entries(self, U: Array, sigma: Array, V: Array) -> Array:
        """The observed entries of U diag(sigma) V^T, row-major."""
        observations = self.observations
        if not sigma.size:
            return np.zeros(observations.nnz, observations.dtype)
        scaled = (U * sigma.astype(U.dtype)).astype(U.dtype)
        return Factors.of(scaled, V).predict(observations.rows, observations.cols, self.workers)

    def point_objective(self, point: SpectralPoint) -> float:
        """F at a point."""
        residual = (self.observations.values - point.entries - self.bias_entries(point.bias)).astype(np.float64)
        ridge, graphs = 0.0, 0.0
        if self.biased:
            offset, rows, cols = _split(point.bias, len(point.U))
            ridge = self.ridge_of(rows, cols, offset)
        if self.coupled and point.sigma.size:
            graphs = self.graph_penalty(Factors.of(point.U * point.sigma.astype(point.U.dtype), point.V))
        weights = self.observations.weights
        weighted = residual if weights is None else weights * residual
        return 0.5 * float(weighted @ residual) + float(self.spectral.value(point.sigma)) + ridge + graphs

    @property
    def lipschitz(self) -> float:
        """A Lipschitz constant of the gradient of the smooth part: that of the loss (1), gamma ||L|| of each graph."""
        terms = (self.added(transposed) for transposed in (False, True))
        return self.curvature + sum(term.weight * term.norm for term in terms if term is not None)

    def gradient_step(self, U: Array, V: Array, entries: Array, bias: Array) -> SparsePlusLowRank:
        """Y - step grad(Y) of the smooth part at Y = U V^T, whose observed entries are given; step = 1 / lipschitz."""
        residual = self.observations.values - entries - self.bias_entries(bias)
        if self.observations.weights is not None:
            residual = self.observations.weights * residual
        if self.lipschitz != 1:
            residual = residual.dtype.type(1 / self.lipschitz) * residual
        if self.coupled:
            U, V = self._graph_step(U, V, 1 / self.lipschitz)
        return self.plus_sparse(U, V, residual)

    def plus_sparse(self, U: Array, V: Array, values: Array) -> SparsePlusLowRank:
        """U V^T + S, where S has these values at the observed entries, row-major."""
        seen = self.observations
        by_row, by_col = replace(seen.by_row, values=values), replace(seen.by_col, values=values[seen.by_col_order])
        return SparsePlusLowRank(U, V, by_row, by_col, self.workers)

    def _graph_step(self, U: Array, V: Array, step: float) -> tuple[Array, Array]:
        """Factors of Y - step (gamma L Y + Y gamma' L') for Y = U V^T, with the graphs that there are."""
        rows, cols = self.added(False), self.added(True)
        step = U.dtype.type(step)
        down = U - step * rows.dot(U).astype(U.dtype) if rows is not None else U
        if cols is None:
            return down, V
        return np.hstack([down, -step * U]), np.hstack([V, cols.dot(V).astype(V.dtype)])

    def bias_entries(self, bias: Array) -> Array | int:
        """offset + a_i + b_j at the observed entries, or 0 without biases."""
        if not bias.size:
            return 0
        seen = self.observations
        offset, rows, cols = _split(bias, seen.shape[0])
        return (offset + rows[seen.rows] + cols[seen.cols]).astype(seen.dtype)

    def fitted_bias(self, bias: Array, entries: Array) -> Array:
        """Row biases, then column biases, each the exact minimiser given the rest; then both centred into the offset.

        `entries` are those of X without its biases.
        """
        if not self.biased:
            return bias
        seen = self.observations
        target = seen.values - entries
        weights = 1.0 if seen.weights is None else seen.weights
        offset, rows, cols = _split(bias.copy(), seen.shape[0])
        sides = ((rows, seen.rows, cols, seen.cols), (cols, seen.cols, rows, seen.rows))
        for transposed, (side, index, other, other_index) in zip((False, True), sides):
            sums = np.bincount(index, weights=weights * (target - offset - other[other_index]), minlength=len(side))
            side[:] = sums / (self.counts(transposed) + self.bias_ridge(transposed))
        shift_rows, shift_cols, offset = self.bias_shifts(rows, cols, offset)
        rows, cols = rows - rows.dtype.type(shift_rows), cols - cols.dtype.type(shift_cols)
        return np.concatenate([[offset], rows, cols])


def _split(bias: Array, m: int) -> tuple[float, Array, Array]:
    """Offset, row biases and column biases."""
    return float(bias[0]), bias[1 : 1 + m], bias[1 + m :]
