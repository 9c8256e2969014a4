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

from lorank import kernels
from lorank.errors import InputError
from lorank.linalg import Factors, Frame, balance, pad
from lorank.losses import SQUARED, Loss
from lorank.observations import Lines, Observations
from lorank.regularizers import Factored, Spectral
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.side_information.base import Added, Whitened
from lorank.types import Array

_NOTHING = np.zeros((0, 0))
# Names the random numbers of starts among those of the same seed.
START_STREAM = 1


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
    pointwise : Loss
        Of an entry; squared by default.
    row_graph, col_graph : GraphLaplacian or KernelPrior, optional
        What is known of rows or columns beforehand: gamma/2 tr(X^T L X) is added, or the regularizer is taken at the
        whitened factor. Not together with biases.
    """

    observations: Observations
    regularizer: Spectral | Factored
    rank: int
    bias_weight: float | None = None
    n_jobs: int | None = None
    pointwise: Loss = SQUARED
    row_graph: GraphLaplacian | KernelPrior | None = None
    col_graph: GraphLaplacian | KernelPrior | None = None
    workers: kernels.Workers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.coupled and (self.biased or not self.squared):
            raise InputError(
                "Biases do not go with a graph or a kernel prior, nor losses other than the squared one: take level "
                "and season off the data first."
            )
        object.__setattr__(self, "workers", kernels.Workers(self.n_jobs))

    def with_regularizer(self, regularizer: Any) -> Problem:
        """The same problem under another regularizer, on the same threads."""
        other = replace(self, regularizer=regularizer)
        object.__setattr__(other, "workers", self.workers)
        if "_terms" in vars(self):  # graphs are bound once
            vars(other)["_terms"] = self._terms
        return other

    @property
    def biased(self) -> bool:
        return self.bias_weight is not None

    @property
    def coupled(self) -> bool:
        """Whether lines depend on each other, through a graph or a kernel."""
        return self.row_graph is not None or self.col_graph is not None

    @cached_property
    def _terms(self) -> tuple[Any, Any]:
        rows, cols = (
            None if graph is None else graph.bind(self.fractions(transposed))
            for graph, transposed in ((self.row_graph, False), (self.col_graph, True))
        )
        return rows, cols

    def added(self, transposed: bool) -> Added | None:
        """The term that the rows (columns when transposed) add to the objective, if there is one."""
        term = self._terms[transposed]
        return term if hasattr(term, "energy") else None

    def whitened(self, transposed: bool) -> Whitened | None:
        """The prior under which the left (right when transposed) factor is whitened, if there is one."""
        term = self._terms[transposed]
        return term if hasattr(term, "latent") else None

    def fractions(self, transposed: bool) -> Array:
        """How much of each row (column when transposed) was observed."""
        return self.counts(transposed) / self.observations.shape[not transposed]

    @cached_property
    def mean(self) -> float:
        """Mean of the observed values."""
        return float(self.observations.values.mean(dtype=np.float64))

    @cached_property
    def density(self) -> float:
        """The part of the entries that were seen."""
        m, n = self.observations.shape
        return float(self.counts(False).sum(dtype=np.int64)) / (m * n)

    def random_start(self, seed: int | None) -> Factors:
        """Factors of independent normal entries, in half the scale of the data; zero where nothing was seen."""
        # A stream of its own: data drawn with the same seed must not come out as the start.
        rng = np.random.default_rng(None if seed is None else [START_STREAM, seed])
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

    @property
    def squared(self) -> bool:
        """Whether the loss is the squared one, which needs no working values."""
        return self.pointwise == SQUARED

    def _working(self, factors: Factors, transposed: bool) -> Lines:
        """The lines with the values on which least squares is a step for the loss; see `lorank.losses`."""
        lines = self.lines(transposed)
        if self.squared:
            return lines
        x = factors.predict(lines.expanded, lines.indices, self.workers)
        slope = self.pointwise.derivative(x, lines.values) / x.dtype.type(self.pointwise.curvature)
        return replace(lines, values=x - slope)

    def gram(self, padded: Array, k: int) -> Array:
        """F^T F (k x k, float64) of a padded factor; the same bits for any number of threads."""
        blocks = -(-len(padded) // kernels.GRAM_BLOCK)
        out = np.zeros((blocks, padded.shape[1], padded.shape[1]), padded.dtype)
        self.workers.run_evenly(
            kernels.gram_blocks, blocks, padded, k, out, work_per_line=kernels.GRAM_BLOCK * k * k / 2
        )
        return out.sum(axis=0, dtype=np.float64)[:k, :k]

    def solve_left(
        self, factors: Factors, ridge: Array, pull: Array | None = None, transposed: bool = False
    ) -> tuple[Array, float]:
        """The left factor (and its biases) that solves the ridge regressions on the right one; and the loss there.

        Row i: (H_i^T H_i + ridge) w_i = H_i^T o_i + w_i^old pull. With `transposed`, factors are those of X^T.
        """
        k, dtype = factors.k, factors.dtype
        curvature = self.pointwise.curvature
        full = np.zeros((k + self.biased, k + self.biased), dtype)
        full[:k, :k] = ridge / curvature
        if self.bias_weight is not None:
            full[k, k] = self.bias_weight / curvature
        drag = _NOTHING.astype(dtype) if pull is None else factors.W @ (pull / curvature).astype(dtype)
        out, loss = self.solve_lines(factors, full, drag, transposed)
        return out, float(loss.sum()) if self.squared else self._loss_of(replace(factors, left=out), transposed)

    def solve_lines(self, factors: Factors, ridge: Array, drag: Array, transposed: bool) -> tuple[Array, Array]:
        """Every line's regression, and its loss. Where lines are kept elsewhere, this is what is done there."""
        lines = self._working(factors, transposed)
        return solve_lines(lines, factors.right, factors.k, self.biased, factors.offset, ridge, drag, self.workers)

    def gradient_left(self, factors: Factors, transposed: bool = False) -> tuple[Array, float]:
        """Gradient of the loss by the left factor (padded, its bias in column k), and the loss."""
        lines = self._working(factors, transposed)
        k, dtype = factors.k, factors.dtype
        out, loss = kernels.aligned_zeros(factors.left.shape, dtype), np.empty(len(factors.left))
        entries = (lines.pointers, lines.indices, lines.values)
        args = (*entries, factors.right, factors.left, k, self.biased, dtype.type(factors.offset), out, loss)
        self.workers.run(kernels.gradient_lines, lines.pointers, *args, work_per_entry=2 * k)
        if self.squared:
            return out, float(loss.sum())
        out *= dtype.type(self.pointwise.curvature)
        return out, self._loss_of(factors, transposed)

    def gradients(self, factors: Factors) -> tuple[Array, Array]:
        """Gradients of the loss by both factors, padded, as `gradient_left` has them, from one pass over the data."""
        # The pass adds up the lines of the other side, of which there should be fewer.
        transposed = len(factors.right) > len(factors.left)
        view = factors.transposed() if transposed else factors
        lines = self._working(view, transposed)
        args = (lines.pointers, lines.indices, lines.values, view.right, view.left, view.k, self.biased, view.offset)
        left, right, _ = kernels.gradient_both(*args, self.workers)
        if not self.squared:
            left *= left.dtype.type(self.pointwise.curvature)
            right *= right.dtype.type(self.pointwise.curvature)
        return (right, left) if transposed else (left, right)

    def frame(self, factors: Factors) -> Frame:
        """The balanced frame of the factors."""
        return balance(self.prior_gram(factors), self.prior_gram(factors.transposed(), transposed=True))

    def prior_gram(self, factors: Factors, transposed: bool = False) -> Array:
        """The left factor's Gram as the regularizer sees it: W^T W, or W^T K^-1 W under a kernel prior."""
        prior = self.whitened(transposed)
        return self.gram(factors.left, factors.k) if prior is None else prior.gram(factors.W)

    def penalty(self, factors: Factors, frame: Frame) -> float:
        """Regularizer at the balanced factors of the same X, plus the graphs' terms and the biases' ridge."""
        assert isinstance(self.regularizer, Factored)
        value = float(self.regularizer.value(frame.gram, frame.gram))
        return value + self.bias_penalty(factors) + self.graph_penalty(factors)

    def graph_penalty(self, factors: Factors) -> float:
        """gamma/2 tr(X^T L X) of the rows' graph, plus that of the columns'."""
        total = 0.0
        for side, transposed in ((factors, False), (factors.transposed(), True)):
            term = self.added(transposed)
            if term is not None:
                total += term.energy(side.W, self.gram(side.right, side.k))
        return total

    # Spectral problems with graphs: the gradient of the graphs' terms is of low rank, like X itself.

    @property
    def lipschitz(self) -> float:
        """A Lipschitz constant of the gradient of the smooth part: 1 of the loss, gamma ||L|| of each graph."""
        terms = (self.added(transposed) for transposed in (False, True))
        return 1.0 + sum(term.weight * term.norm for term in terms if term is not None)

    def graph_descent(self, U: Array, V: Array, step: float) -> tuple[Array, Array]:
        """Factors of Y - step (gamma L Y + Y gamma' L') for Y = U V^T, with the graphs that there are."""
        rows, cols = self.added(False), self.added(True)
        step = U.dtype.type(step)
        down = U - step * rows.dot(U).astype(U.dtype) if rows is not None else U
        if cols is None:
            return down, V
        return np.hstack([down, -step * U]), np.hstack([V, cols.dot(V).astype(V.dtype)])

    def spectral_graph(self, U: Array, sigma: Array, V: Array) -> float:
        """The graphs' terms at X = U diag(sigma) V^T."""
        return self.graph_penalty(Factors.of(U * sigma.astype(U.dtype), V)) if self.coupled and sigma.size else 0.0

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
        """The sum of the losses over the observed entries; 1/2 that of squared residuals by default."""
        return self._loss_of(factors, transposed=False)

    def _loss_of(self, factors: Factors, transposed: bool) -> float:
        view = factors.transposed() if transposed else factors
        observations = self.observations
        x = view.predict(observations.rows, observations.cols, self.workers)
        return self.pointwise.value(x, observations.values)

    def error(self, factors: Factors, held_out: Observations) -> float:
        """The error on other observations: root mean square, or what the loss says instead."""
        x = factors.predict(held_out.rows, held_out.cols, self.workers)
        return self.pointwise.error(x, held_out.values)

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
    out, loss = kernels.aligned_zeros((count, right.shape[1]), right.dtype), np.empty(count)
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
