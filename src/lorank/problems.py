"""A problem: what was seen, and what is preferred among the matrices that fit it.

    F = 1/2 sum over observed (i, j) of (X_ij - O_ij)^2 + regularizer(X)

and with biases weight/2 (||a||^2 + ||b||^2 + (offset - mean)^2) more. The offset needs its ridge: without one, NNFN at
theta 1 could hide additive biases in one huge direction, which costs it nothing, and run away to infinity.

All arithmetic on observed entries happens here, through the kernels, on as many threads as the problem is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank import kernels
from lorank.linalg import Factors, Frame, balance, pad
from lorank.observations import Lines, Observations
from lorank.regularizers import Factored, Spectral

Array = npt.NDArray[Any]

_NOTHING = np.zeros((0, 0))


@dataclass(frozen=True)
class Problem:
    """Observations and a regularizer.

    Parameters
    ----------
    observations : Observations
    regularizer : Spectral or Factored
    rank : int
        Width k of the factors, or the largest rank of a spectral solver.
    bias_weight : float, optional
        With it, X_ij = offset + a_i + b_j + <w_i, h_j>, and their ridge is added.
    n_jobs : int, optional
        Threads; None for all cores.
    """

    observations: Observations
    regularizer: Spectral | Factored
    rank: int
    bias_weight: float | None = None
    n_jobs: int | None = None
    workers: kernels.Workers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", kernels.Workers(self.n_jobs))

    @property
    def biased(self) -> bool:
        return self.bias_weight is not None

    @cached_property
    def mean(self) -> float:
        """Mean of the observed values."""
        return float(self.observations.values.mean(dtype=np.float64))

    def random_start(self, seed: int | None) -> Factors:
        """Factors of independent normal entries, in half the scale of the data; zero where nothing was seen."""
        rng = np.random.default_rng(seed)
        offset = self.mean if self.biased else 0.0
        scale = 0.5 * np.sqrt((self.spread(offset) or 1.0) / np.sqrt(self.rank))
        left, right = (
            pad((scale * rng.standard_normal((size, self.rank))).astype(self.observations.dtype))
            for size in self.observations.shape
        )
        for side, transposed in ((left, False), (right, True)):
            # Nothing is known of a line that was never seen: it is zero, and stays so.
            side[self.counts(transposed) == 0] = 0
        return Factors(left, right, self.rank, self.biased, offset)

    def spread(self, offset: float) -> float:
        """Mean distance of the observed values from an offset."""
        values = self.observations.values
        return float(np.mean(np.abs(values - values.dtype.type(offset)), dtype=np.float64))

    def counts(self, transposed: bool) -> Array:
        """Entries in each row, or in each column."""
        return np.diff(self.lines(transposed).pointers)

    # Factored problems: the same three calls serve rows and columns, by the factors or their transpose.

    def lines(self, transposed: bool) -> Lines:
        """The rows, or the columns when transposed."""
        return self.observations.by_col if transposed else self.observations.by_row

    def gram(self, padded: Array, k: int) -> Array:
        """F^T F (k x k, float64) of a padded factor; the same bits for any number of threads."""
        blocks = -(-len(padded) // kernels.GRAM_BLOCK)
        out = np.zeros((blocks, padded.shape[1], padded.shape[1]), padded.dtype)
        self.workers.run_evenly(
            kernels.gram_blocks, blocks, padded, k, out, work_per_line=kernels.GRAM_BLOCK * k * k / 2
        )
        lower = np.tril(out.sum(axis=0, dtype=np.float64)[:k, :k])
        return lower + np.tril(lower, -1).T

    def solve_left(
        self, factors: Factors, ridge: Array, pull: Array | None = None, transposed: bool = False
    ) -> tuple[Array, float]:
        """The left factor (and its biases) that solves the ridge regressions on the right one; and the loss there.

        Row i: (H_i^T H_i + ridge) w_i = H_i^T o_i + w_i^old pull. With `transposed`, factors are those of X^T.
        """
        k, dtype = factors.k, factors.dtype
        full = np.zeros((k + self.biased, k + self.biased), dtype)
        full[:k, :k] = ridge
        if self.bias_weight is not None:
            full[k, k] = self.bias_weight
        drag = _NOTHING.astype(dtype) if pull is None else factors.W @ pull.astype(dtype)
        out, loss = self.solve_lines(factors.right, k, factors.offset, full, drag, transposed)
        return out, float(loss.sum())

    def solve_lines(
        self, right: Array, k: int, offset: float, ridge: Array, drag: Array, transposed: bool
    ) -> tuple[Array, Array]:
        """Every line's regression, and its loss. Where lines are kept elsewhere, this is what is done there."""
        return solve_lines(self.lines(transposed), right, k, self.biased, offset, ridge, drag, self.workers)

    def gradient_left(self, factors: Factors, transposed: bool = False) -> tuple[Array, float]:
        """Gradient of the loss by the left factor (padded, its bias in column k), and the loss."""
        lines = self.lines(transposed)
        out, loss = np.empty_like(factors.left), np.empty(len(factors.left))
        dtype = factors.dtype
        args = (
            lines.pointers,
            lines.indices,
            lines.values,
            factors.right,
            factors.left,
            factors.k,
            self.biased,
        )
        self.workers.run(
            kernels.gradient_lines,
            lines.pointers,
            *args,
            dtype.type(factors.offset),
            out,
            loss,
            work_per_entry=2 * factors.k,
        )
        return out, float(loss.sum())

    def frame(self, factors: Factors) -> Frame:
        """The balanced frame of the factors."""
        return balance(self.gram(factors.left, factors.k), self.gram(factors.right, factors.k))

    def penalty(self, factors: Factors, frame: Frame) -> float:
        """Regularizer at the balanced factors of the same X, plus the biases' ridge."""
        assert isinstance(self.regularizer, Factored)
        return self.regularizer.value(frame.gram, frame.gram) + self.bias_penalty(factors)

    def bias_penalty(self, factors: Factors) -> float:
        if self.bias_weight is None:
            return 0.0
        squares = sum(float(np.sum(b.astype(np.float64) ** 2)) for b in (factors.row_bias, factors.col_bias))
        return self.bias_weight / 2 * (squares + (factors.offset - self.mean) ** 2)

    def recentred(self, factors: Factors) -> Factors:
        """The same X with what the biases have in common moved into the offset, as far as the ridge likes it."""
        if not self.biased:
            return factors
        k = factors.k
        left, right = factors.left.copy(), factors.right.copy()
        rows, cols, offset = self.centred_biases(factors.row_bias, factors.col_bias, factors.offset)
        left[:, k], right[:, k] = rows, cols
        return replace(factors, left=left, right=right, offset=offset)

    def centred_biases(self, rows: Array, cols: Array, offset: float) -> tuple[Array, Array, float]:
        """Constants moved from the biases to the offset such that a_i + b_j + offset stays and the ridge is smallest.

        The minimum of sum (a_i - s)^2 + sum (b_j - t)^2 + (offset + s + t - mean)^2 over s and t has, with
        T = offset + s + t - mean, s = mean(a) - T/m and t = mean(b) - T/n.
        """
        m, n = len(rows), len(cols)
        middle_row, middle_col = float(rows.mean(dtype=np.float64)), float(cols.mean(dtype=np.float64))
        T = (offset - self.mean + middle_row + middle_col) / (1 + 1 / m + 1 / n)
        shift_rows, shift_cols = middle_row - T / m, middle_col - T / n
        return rows - rows.dtype.type(shift_rows), cols - cols.dtype.type(shift_cols), self.mean + T

    def loss(self, factors: Factors) -> float:
        """1/2 sum of squared residuals over the observed entries."""
        return 0.5 * squared_error(factors, self.observations, self.workers)

    def rmse(self, factors: Factors, held_out: Any) -> float:
        """Root of the mean squared error on held-out observations."""
        return rmse(factors, held_out, self.workers)

    def objective(self, factors: Factors) -> float:
        """F at these factors, balanced."""
        return self.loss(factors) + self.penalty(factors, self.frame(factors))


def solve_lines(
    lines: Lines,
    right: Array,
    k: int,
    biased: bool,
    offset: float,
    ridge: Array,
    drag: Array,
    workers: kernels.Workers,
) -> tuple[Array, Array]:
    """Regressions of all lines on the padded factor of the other side; the same bits however lines are cut in blocks.

    ridge (p, p) with p = k + biased; drag (lines, k) or empty. Gives the padded factor and the loss of each line.
    """
    count = lines.pointers.size - 1
    out, loss = np.zeros((count, right.shape[1]), right.dtype), np.empty(count)
    args = (lines.pointers, lines.indices, lines.values, right, k, biased, right.dtype.type(offset), ridge, drag)
    workers.run(
        kernels.solve_lines,
        lines.pointers,
        *args,
        out,
        loss,
        work_per_entry=(k + 1) * (k + 2) / 2,
        work_per_line=k**3 / 6 + k**2,
    )
    return out, loss


def squared_error(factors: Factors, observations: Observations, workers: kernels.Workers) -> float:
    """Sum over the observed entries of (X_ij - O_ij)^2."""
    residual = factors.predict(observations.rows, observations.cols, workers) - observations.values
    return float(np.sum(residual.astype(np.float64) ** 2))


def rmse(factors: Factors, observations: Observations, workers: kernels.Workers) -> float:
    """Root of the mean squared error on observations."""
    return float(np.sqrt(squared_error(factors, observations, workers) / observations.nnz))
