"""PALM with iterative reweighting, for group-sparse factors.

An iteration is a reweighted sweep and a proximal one. The reweighted sweep is that of `Alternating`: the norm of a
column is bounded by a quadratic, and every row solves a ridge regression. It moves far, but a column only fades. The
proximal sweep (proximal alternating linearised minimization) kills it: with W = U S^a, H = V S^b,

    W <- prox(W - grad_W / t),   t = ||H||_2^2,

shrinks the norms of columns and sets the small ones to 0 for good, and likewise for H. Columns that are 0 are dropped,
so that later iterations are cheaper. Neither sweep increases F, and no m x n array is formed. With features there are
reweighted sweeps only: norms are then those of C^(-1/2) W, whose prox is not a matter of single columns.

Fan, Ding, Chen, Udell, "Factor group-sparse regularization for efficient low-rank matrix recovery", NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Protocol, cast

import numpy as np

from lorank.linalg import Factors, SparsePlusLowRank, effective_rank, padded_width, truncated_svd
from lorank.problems import FactoredProblem
from lorank.solvers.alternating import Alternating, AlternatingState
from lorank.types import Array


class GroupSparse(Protocol):
    """What the proximal sweep asks of a regularizer beside what the reweighted one does."""

    @property
    def exponents(self) -> tuple[float, float]:
        """(a, b) of the factors W = U S^a and H = V S^b that cost least."""

    def shrink_norms(self, norms: Array, step: float, which: int) -> Array:
        """Norms of the columns of W (which = 0) or H (1) after the prox."""


class PALM(Alternating):
    """Reweighted and proximal sweeps in turn; see the module's description. O(nnz k^2 + (m + n) k^3) an iteration."""

    requires: ClassVar[tuple[str, ...]] = (*Alternating.requires, "exponents", "shrink_norms")
    distributes = False
    shares = False
    coupling = ("directions",)
    held = (8.0, 3.0)

    def init(self, problem: FactoredProblem, start: Factors | None, seed: int | None) -> AlternatingState:
        """Starts at the strongest directions of the data: weak columns die at once, so random ones might all do."""
        if start is not None:
            return super().init(problem, start, seed)
        factors = problem.random_start(seed)
        seen = problem.observations
        centred = seen.with_values(seen.values - seen.values.dtype.type(factors.offset))
        nothing = [np.zeros((lines, 0), seen.dtype) for lines in seen.shape]
        operator = SparsePlusLowRank(nothing[0], nothing[1], centred.by_row, centred.by_col, problem.workers)
        found = truncated_svd(operator, factors.H, 0.0, problem.rank, np.random.default_rng(seed))
        k = len(found.sigma)
        # Unseen entries count as 0 here, so the values are too small by the part that was seen.
        root = np.sqrt(found.sigma * (seen.shape[0] * seen.shape[1] / seen.nnz)).astype(seen.dtype)
        factors.left[:, :k], factors.right[:, :k] = found.U * root, found.V * root
        return AlternatingState(factors, factors, np.inf, problem.rank)

    def step(self, problem: FactoredProblem, state: AlternatingState) -> AlternatingState:
        swept = super().step(problem, state)
        if swept.stalled or not np.isfinite(swept.objective) or problem.featured:
            return swept
        regularizer = cast(GroupSparse, problem.regularizer)
        frame = problem.frame(swept.factors)
        # The same turn for both points keeps their difference, which momentum goes on with.
        turn = [
            basis * frame.sigma ** (exponent - 0.5)
            for basis, exponent in zip((frame.A, frame.inverse_transposed), regularizer.exponents)
        ]
        factors, previous = (_turned(point, *turn) for point in (swept.factors, swept.previous))
        factors = _proximal(problem, factors, which=0)
        factors = _proximal(problem, factors.transposed(), which=1).transposed()
        alive = np.any(factors.W != 0, axis=0) & np.any(factors.H != 0, axis=0)
        if not alive.all():
            # At least one column stays, so that there is something to hold a zero matrix.
            alive[-1] |= not alive.any()
            factors = _columns(factors, alive)
            previous = factors
        frame = problem.frame(factors)
        objective = problem.loss(factors) + problem.penalty(factors, frame)
        if objective > swept.objective:
            return swept
        sweeps = swept.sweeps if alive.all() else 0
        return AlternatingState(factors, previous, objective, effective_rank(frame.sigma), sweeps)


def _proximal(problem: FactoredProblem, factors: Factors, which: int) -> Factors:
    """One proximal gradient step on the left factor; biases stay."""
    regularizer = cast(GroupSparse, problem.regularizer)
    k = factors.k
    slope, _ = problem.gradient_left(factors, transposed=bool(which))
    curvature = problem.curvature * float(np.linalg.eigvalsh(problem.gram(factors.right, k))[-1])
    if not curvature > 0:
        return factors
    moved = factors.W - slope[:, :k] / factors.dtype.type(curvature)
    norms = np.linalg.norm(moved.astype(np.float64), axis=0)
    shrunk = regularizer.shrink_norms(norms, 1 / curvature, which)
    left = factors.left.copy()
    left[:, :k] = moved * np.divide(shrunk, norms, out=np.zeros_like(norms), where=norms > 0)
    return replace(factors, left=left)


def _turned(factors: Factors, for_left: Array, for_right: Array) -> Factors:
    left, right = factors.left.copy(), factors.right.copy()
    left[:, : factors.k] = factors.W @ for_left.astype(factors.dtype)
    right[:, : factors.k] = factors.H @ for_right.astype(factors.dtype)
    return replace(factors, left=left, right=right)


def _columns(factors: Factors, chosen: Array) -> Factors:
    """The factors with these columns alone, padded anew."""
    k = int(np.count_nonzero(chosen))
    sides = []
    for side in (factors.left, factors.right):
        kept = np.zeros((len(side), padded_width(k)), side.dtype)
        kept[:, :k] = side[:, : factors.k][:, chosen]
        kept[:, k] = side[:, factors.k]
        sides.append(kept)
    return replace(factors, left=sides[0], right=sides[1], k=k)
