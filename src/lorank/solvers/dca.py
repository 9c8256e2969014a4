"""DCA with ADMM inside, for a nuclear norm minus something convex, such as truncated l1-2.

The part that is subtracted is replaced by its tangent at X, G = U diag(w) V^T, which leaves a convex problem

    min over X of 1/2 ||P_Omega(X - O)||^2 + lam ||X||_* - lam <G, X>.

ADMM splits it into X, which is cheap entry by entry, and Y = X, which is a soft threshold of singular values. Where
nothing was seen the dual variable cancels, and what is thresholded there is just Y + lam G / rho. So all of it is low
rank + sparse, and takes O((m + n) r + nnz) memory where the published solver holds m x n arrays. A few ADMM steps for
each tangent are enough, as the next one goes on from the same dual variable. F never increases: a tangent for which
ADMM does not lower F is followed by a proximal step, which does.

Where X has fewer singular values than cost nothing (t + 1 under truncated l1-2: t by themselves, and a tail of one),
the subtracted part has a kink and more than one tangent. Most of them make X look stationary although F falls to first
order along the residual, X = 0 under a large lam being the plainest case. The tangent is taken there that has the
strongest directions of the residual in it: under the others a stop would be one of the method, not of F.

A graph ties entries to each other, and X would no longer be cheap. Then each tangent is followed by a proximal step on
loss and graph together and a sweep over both factors (`solvers.proximal`), which solves the coupled system.

Ma, Lou, Huang, "Truncated l1-2 models for sparse recovery and rank minimization", SIAM J. Imaging Sci. 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, cast

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors, SparsePlusLowRank, truncated_svd
from lorank.problems import Problem
from lorank.regularizers import Spectral
from lorank.solvers.base import Solver
from lorank.solvers.proximal import COARSE, ProximalGradient, ProximalState, gradient_step, swept
from lorank.types import Array


class DifferenceOfConvex(Protocol):
    """lam times (the nuclear norm minus something convex), as DCA takes it apart."""

    @property
    def lam(self) -> float:
        """The weight."""

    def convex_part(self) -> Spectral:
        """lam times the nuclear norm."""

    def subgradient_weights(self, sigma: Array) -> Array:
        """Weights w that make U diag(w) V^T a subgradient of what is subtracted, lam left out."""


@dataclass(frozen=True)
class DCAState(ProximalState):
    """An iterate, and the dual variable of ADMM on Omega."""

    dual: Array = field(default_factory=lambda: np.zeros(0))


class DCA(Solver):
    """Difference-of-convex algorithm with ADMM inside; see the module's description.

    Parameters
    ----------
    inner : int
        ADMM steps for each tangent.
    rho : float
        Weight of ADMM's coupling of X and Y.
    """

    requires = ("value", "convex_part", "subgradient_weights")
    coupling = ("energy",)
    held = (9.5, 17.0)

    def __init__(self, inner: int = 10, rho: float = 0.3) -> None:
        self.inner = inner
        self.rho = rho

    def check(self, problem: Problem) -> None:
        super().check(problem)
        t = getattr(problem.regularizer, "t", 0)
        if t >= problem.rank:
            raise InputError(
                f"t must be less than the rank, or nothing is penalised; t is {t} and the rank is {problem.rank}."
            )

    def init(self, problem: Problem, start: Factors | None, seed: int | None) -> DCAState:
        convex = problem.with_regularizer(_parts(problem).convex_part())
        state = ProximalGradient().init(convex, start, seed)
        dual = np.zeros(problem.observations.nnz, problem.observations.dtype)
        return DCAState(**{**vars(state), "objective": problem.point_objective(state.point)}, dual=dual)

    def step(self, problem: Problem, state: DCAState) -> DCAState:
        regularizer = _parts(problem)
        U, weights, V = _subgradient(problem, state)
        tangent = U * (regularizer.lam * weights).astype(U.dtype), V
        pull = problem.entries(U, regularizer.lam * weights, V)
        best, trial = state, state
        for _ in range(0 if problem.coupled else self.inner):
            trial = self._couple(problem, trial, tangent, pull)
            if not trial.objective > best.objective:
                best = trial
        if best is state:
            best = _proximal(problem, state, tangent)
        if problem.coupled:
            # The tangent's slopes: those of the nuclear norm, less what is subtracted.
            slopes = regularizer.lam * (1 - regularizer.subgradient_weights(best.point.sigma))
            point, objective = swept(problem, best.point, best.objective, slopes, regularizer.lam)
            best = replace(best, point=point, objective=objective)
        if best.objective > state.objective:
            return replace(state, stalled=True)
        return replace(best, iteration=state.iteration + 1)

    def _couple(self, problem: Problem, state: DCAState, tangent: tuple[Array, Array], pull: Array) -> DCAState:
        """One ADMM step: X entry by entry, Y by a soft threshold, the dual by their difference."""
        rho = problem.observations.dtype.type(self.rho)
        Y = state.point
        target = problem.observations.values - problem.bias_entries(Y.bias)
        weights = problem.observations.weights
        weights = rho.dtype.type(1) if weights is None else weights
        X = (weights * target + pull + rho * (Y.entries - state.dual)) / (weights + rho)
        # What is thresholded: X + dual on Omega, Y + lam G / rho elsewhere.
        Z = problem.plus_sparse(
            np.hstack([Y.U * Y.sigma.astype(rho.dtype), tangent[0] / rho]),
            np.hstack([Y.V, tangent[1]]),
            X + state.dual - Y.entries - pull / rho,
        )
        following = _thresholded(problem, state, Z, self.rho)
        return replace(following, dual=X + state.dual - following.point.entries)


def _parts(problem: Problem) -> DifferenceOfConvex:
    return cast(DifferenceOfConvex, problem.regularizer)


def _subgradient(problem: Problem, state: DCAState) -> tuple[Array, Array, Array]:
    """U, w and V of a subgradient U diag(w) V^T of what is subtracted, along which F falls wherever it can.

    Where singular values that cost nothing are 0, there is more than one: any orthonormal u, v beside the singular
    vectors of X will do. Those of the strongest directions of the residual are taken.
    """
    weights_of, point = _parts(problem).subgradient_weights, state.point
    alive = state.rank
    U, sigma, V = point.U[:, :alive], point.sigma[:alive], point.V[:, :alive]
    # What would cost nothing more shows by the weights of values that are next to nothing, each far below the last.
    faint = (sigma.max(initial=0.0) or 1.0) * 10.0 ** (-6.0 * np.arange(2, 2 + problem.rank - alive))
    free = int(np.count_nonzero(weights_of(np.concatenate([sigma, faint]))[alive:] > 0.5))
    weights = weights_of(sigma)
    if free == 0:
        return U, weights, V
    rest = _Beside(gradient_step(problem, state, 0.0), U, V)
    found = truncated_svd(rest, state.subspace, 0.0, free, np.random.default_rng(state.iteration), COARSE)
    ones = np.ones(len(found.sigma))
    return np.hstack([U, found.U]), np.concatenate([weights, ones]), np.hstack([V, found.V])


@dataclass(frozen=True)
class _Beside:
    """(I - U U^T) Z (I - V V^T): what Z has beside the singular vectors U and V."""

    Z: SparsePlusLowRank
    U: Array
    V: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.Z.shape

    def dot(self, B: Array) -> Array:
        image = self.Z.dot(B - self.V @ (self.V.T @ B))
        return image - self.U @ (self.U.T @ image)

    def transposed_dot(self, B: Array) -> Array:
        image = self.Z.transposed_dot(B - self.U @ (self.U.T @ B))
        return image - self.V @ (self.V.T @ image)


def _proximal(problem: Problem, state: DCAState, tangent: tuple[Array, Array]) -> DCAState:
    """A proximal step on the linearised problem, under which F falls; the dual begins anew."""
    rho = problem.lipschitz
    Z = gradient_step(problem, state, 0.0)
    left = np.hstack([Z.U, tangent[0] / Z.U.dtype.type(rho)])
    following = _thresholded(problem, state, replace(Z, U=left, V=np.hstack([Z.V, tangent[1]])), rho)
    return replace(following, dual=np.zeros_like(state.dual))


def _thresholded(problem: Problem, state: DCAState, Z: SparsePlusLowRank, rho: float) -> DCAState:
    """The soft threshold lam / rho of Z as the next state."""
    convex = _parts(problem).convex_part()
    rng = np.random.default_rng(state.iteration)
    threshold = convex.threshold(1 / rho)
    found = truncated_svd(Z, state.subspace, threshold, problem.rank, rng, COARSE, max_passes=2)
    sigma = convex.prox(found.sigma.astype(np.float64), 1 / rho)
    alive = max(1, int(np.count_nonzero(sigma)))
    point, objective = problem.fitted_point(found.U[:, :alive], sigma[:alive], found.V[:, :alive], state.point.bias)
    return replace(state, point=point, subspace=found.subspace, objective=objective)
