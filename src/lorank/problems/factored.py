"""Arithmetic at X = W H^T: half-steps, gradients, the balanced frame, the penalty.

Each call is on the left factor; for the right one it is made with the factors of X^T and `transposed`, which names the
other side of the data. So rows and columns share every line of code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from lorank import kernels
from lorank.linalg import Factors, Frame, balance, diagonal_frame, pad
from lorank.observations import Lines
from lorank.problems.base import BaseProblem
from lorank.regularizers import Factored
from lorank.types import Array

_NOTHING = np.zeros((0, 0))
# Ranks from which lines are improved by conjugate gradients rather than solved.
LARGE_RANK = 32


@dataclass(frozen=True)
class FactoredProblem(BaseProblem):
    """What solvers need that keep X as two thin factors."""

    @property
    def factored(self) -> Factored:
        """The regularizer as a function of two factors; `Solver.check` has made sure that it is one."""
        return cast(Factored, self.regularizer)

    def ridge_regressions(
        self,
        factors: Factors,
        ridge: Array,
        pull: Array | None = None,
        transposed: bool = False,
        expected: Array | None = None,
        beside: Array | None = None,
    ) -> tuple[Array, float]:
        """The left factor (padded, with its biases) that solves the regressions on the right one; and the loss there.

        Row i: (H_i^T C_i H_i + ridge) w_i = H_i^T C_i o_i + w_i^old pull, with ridge and pull k x k and the weights
        C_i = diag(c_ij) of its entries; see `line_terms`.
        """
        full, drag = self.line_terms(factors, ridge, pull, transposed, expected, beside)
        lines = self._working(factors, transposed)
        base, constant = self._base(factors)
        left, loss = kernels.solve_lines(
            *lines.arrays,
            factors.right,
            factors.k,
            self.biased,
            factors.offset,
            full,
            drag,
            self.workers,
            base,
            self.shares(transposed),
        )
        if self.squared:
            return left, float(loss.sum()) - constant
        return left, self._loss_of(replace(factors, left=left), transposed)

    def line_draws(
        self,
        factors: Factors,
        own: Array,
        roots: Array,
        ridge: Array,
        pull: Array,
        size: float,
        name: tuple[int, int],
        transposed: bool,
        lines: Lines,
    ) -> tuple[Array, Array, Array]:
        """Means and draws (padded) of the left factor's lines given the right one, and the loss of each.

        See `kernels.draw_lines`; random numbers are named by a pair of numbers and the line. `lines` are those of the
        problem, with latent values where these take the place of what was observed.
        """
        shared = (factors.right, factors.k, self.biased, factors.offset)
        return kernels.sample_lines(*lines.arrays, *shared, own, roots, ridge, pull, size, (*name, 0, 1), self.workers)

    def improves(self, k: int) -> bool:
        """Whether a half-step at rank k is cheaper by conjugate gradients."""
        return k >= LARGE_RANK and self.squared and not self.biased

    def improved_regressions(
        self,
        factors: Factors,
        ridge: Array,
        pull: Array | None = None,
        transposed: bool = False,
        beside: Array | None = None,
    ) -> tuple[Array, float]:
        """The same as `ridge_regressions`, by some steps of conjugate gradients from the left factor as it is.

        No line's objective rises, and at large ranks this is many times faster (`lorank.kernels.conjugate`).
        """
        k, dtype = factors.k, factors.dtype
        full, drag = self.line_terms(factors, ridge, pull, transposed, beside=beside)
        lines = self._working(factors, transposed)
        base, constant = self._base(factors)
        if base is None and not full.any():
            # Nothing is common to the lines, so that no frame makes their systems better: solve them.
            return self.ridge_regressions(factors, ridge, pull, transposed, beside=beside)
        bordered = np.zeros((k + 1, k + 1)) if base is None else base.astype(np.float64)
        T, inverse, r = diagonal_frame(bordered[:k, :k], full.astype(np.float64), 100 * float(np.finfo(dtype).eps))
        turn = T.astype(dtype)
        left, loss = kernels.improve_lines(
            *lines.arrays,
            pad(factors.H @ turn),
            k,
            r.astype(dtype),
            (1 - r).astype(dtype),
            (bordered[k, :k] @ T).astype(dtype),
            float(bordered[k, k]),
            self.shares(transposed),
            drag @ turn if drag.size else drag,
            pad(factors.W @ inverse.T.astype(dtype)),
            self.workers,
        )
        return pad(left[:, :k] @ turn.T), float(loss.sum()) - constant

    def _base(self, factors: Factors) -> tuple[Array | None, float]:
        """What every line has beside its entries where what was not observed counts, and what the loss has too much."""
        if self.unobserved is None:
            return None, 0.0
        gram = self.unobserved.line_gram(factors, self.gram(factors.right, factors.k))
        return gram.astype(factors.dtype), self._constant

    @cached_property
    def _constant(self) -> float:
        return 0.0 if self.unobserved is None else self.unobserved.constant(self.observations)

    @cached_property
    def _beyond(self) -> tuple[Lines, Lines]:
        """Rows and columns with what they have beyond the sum over all entries."""
        assert self.unobserved is not None
        return self.unobserved.beyond(self.lines(False)), self.unobserved.beyond(self.lines(True))

    def line_terms(
        self,
        factors: Factors,
        ridge: Array,
        pull: Array | None,
        transposed: bool,
        expected: Array | None = None,
        beside: Array | None = None,
    ) -> tuple[Array, Array]:
        """What the kernel adds to each line: the ridge with the bias's beside it, and a pull of its own (or nothing).

        It is w_i^old pull; with features m_i ridge + (w_i^old - m_i) pull, m_i being where they expect the line. Since
        -tr(W^T M) is concave in W, a step towards M never raises the regularizer's bound. New lines may be expected at
        places that are known (lines, p). `beside` is a ridge (k, k) that pulls to zero whatever is expected.
        """
        k, dtype = factors.k, factors.dtype
        curvature = self.pointwise.curvature
        full = self.bordered(ridge, dtype, transposed)
        features = self.features(transposed)
        if features is not None and expected is None:
            expected = features.expected(factors.left[:, : k + self.biased])
        drag = _NOTHING.astype(dtype) if pull is None else factors.W @ (pull / curvature).astype(dtype)
        shares = self.shares(transposed)
        if pull is not None and shares is not None:
            drag *= shares[:, None]
        if expected is not None:
            # While `full` is the ridge of deviations alone.
            old, drag = drag, expected.astype(dtype, copy=False) @ full
            if pull is not None:
                drag[:, :k] += old - expected[:, :k] @ (pull / curvature).astype(dtype)
        if beside is not None:
            full[:k, :k] += (beside / curvature).astype(dtype)
        return full, drag

    def bordered(self, ridge: Array, dtype: npt.DTypeLike, transposed: bool) -> Array:
        """A ridge (k, k) with that of the bias beside it, by the curvature of the loss."""
        k, curvature = len(ridge), self.pointwise.curvature
        full = np.zeros((k + self.biased, k + self.biased), dtype)
        full[:k, :k] = ridge / curvature
        if self.biased:
            full[k, k] = self.bias_ridge(transposed) / curvature
        return full

    def _working(self, factors: Factors, transposed: bool) -> Lines:
        """The lines with the values on which least squares is a step for the loss; see `lorank.losses`."""
        if self.unobserved is not None:
            return self._beyond[transposed]
        lines = self.lines(transposed)
        if self.squared:
            return lines
        x = factors.predict(lines.expanded, lines.indices, self.workers)
        loss = self.loss_at(factors.transposed() if transposed else factors)
        placed = loss.at(*((lines.indices, lines.expanded) if transposed else (lines.expanded, lines.indices)))
        slope = placed.derivative(x, lines.values) / x.dtype.type(loss.curvature)
        return replace(lines, values=x - slope)

    def _loss_of(self, factors: Factors, transposed: bool) -> float:
        return self.loss(factors.transposed() if transposed else factors)

    def gradient_left(self, factors: Factors, transposed: bool = False) -> tuple[Array, float]:
        """Gradient of the loss by the left factor (padded, its bias in column k), and the loss."""
        lines = self._working(factors, transposed)
        k, dtype = factors.k, factors.dtype
        out, loss = kernels.aligned_zeros(factors.left.shape, dtype), np.empty(len(factors.left))
        args = (*lines.arrays, factors.right, factors.left, k, self.biased, dtype.type(factors.offset), out, loss)
        self.workers.run(kernels.gradient_lines, lines.pointers, *args, work_per_entry=2 * k)
        if self.unobserved is not None:
            self._add_unobserved(out, factors)
            return out, self._loss_of(factors, transposed)
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
        args = (*lines.arrays, view.right, view.left, view.k, self.biased, view.offset)
        left, right, _ = kernels.gradient_both(*args, self.workers)
        if self.unobserved is not None:
            self._add_unobserved(left, view)
            self._add_unobserved(right, view.transposed())
        if not self.squared:
            left *= left.dtype.type(self.pointwise.curvature)
            right *= right.dtype.type(self.pointwise.curvature)
        return (right, left) if transposed else (left, right)

    def _add_unobserved(self, slope: Array, factors: Factors) -> None:
        """Add the gradient of w0/2 sum_all (x - r0)^2 by the left factor."""
        assert self.unobserved is not None
        more = self.unobserved.slopes(factors, self.gram(factors.right, factors.k))
        slope[:, : factors.k + factors.biased] += more.astype(slope.dtype)

    def frame(self, factors: Factors) -> Frame:
        """The balanced frame of the factors."""
        return balance(self.prior_gram(factors), self.prior_gram(factors.transposed(), transposed=True))

    def prior_gram(self, factors: Factors, transposed: bool = False) -> Array:
        """The left factor's Gram as the regularizer sees it.

        W^T W, or W^T C^-1 W under a kernel or beside features, or W^T D W with shares D.
        """
        prior, shares = self.whitened(transposed), self.shares(transposed)
        if shares is not None:
            return self.gram(np.sqrt(shares)[:, None] * factors.left, factors.k)
        gram = self.gram(factors.left, factors.k) if prior is None else prior.gram(factors.W)
        features = self.features(transposed)
        return gram if features is None else gram - features.explained(factors.W)

    def penalty(self, factors: Factors, frame: Frame) -> float:
        """Regularizer at the balanced factors of the same X, plus the graphs' terms and the biases' ridge."""
        value = float(self.factored.value(frame.gram, frame.gram))
        return value + self.bias_penalty(factors) + self.graph_penalty(factors)

    def objective(self, factors: Factors) -> float:
        """F at these factors, balanced."""
        return self.loss(factors) + self.penalty(factors, self.frame(factors))

    def recentred(self, factors: Factors) -> Factors:
        """The same X with what the biases have in common moved into the offset, as far as the ridge likes it."""
        if not self.biased:
            return factors
        left, right = factors.left.copy(), factors.right.copy()
        *shifts, offset = self.bias_shifts(factors.row_bias, factors.col_bias, factors.offset)
        for side, shift in zip((left, right), shifts):
            side[:, factors.k] -= side.dtype.type(shift)
        return replace(factors, left=left, right=right, offset=offset)
