"""Algorithm 1 of the paper, for every spectral regularizer: proximal gradient on X, which is never formed.

    Z = Y - P_Omega(Y - O),   X = prox(Z)

X is kept as U diag(sigma) V^T and Z as low rank + sparse, so that a step costs O(nnz r + (m + n) r^2). Only singular
values above the regularizer's threshold are computed, by the power method from the last subspace. The step is 1, since
the gradient of the loss is 1-Lipschitz; a graph, whose gradient gamma L Y is of low rank too, makes it
1 / (1 + gamma ||L||). With few observations a step is short: it moves X by no more than what Omega
shows of it. Three ways to go on from it:

- sweeps (the default). The prox gives a subgradient for nothing: with z the singular values of Z and x those of X,
  the weights w = z - x are the slopes of the regularizer at x. It is concave in sigma, so its tangent bounds it, and

      sum_i w_i sigma_i(W H^T) <= 1/2 (<W diag(w), W> + <H diag(w), H>)   for ascending w,

  with equality at W = U sqrt(S), H = V sqrt(S): one sweep of ridge regressions over W and H decreases F, and moves
  the factors as far as the data lets them. It costs O(nnz r^2 + (m + n) r^3) and saves some twenty steps.
- momentum: Y = X + (t - 1) / (t + 2) (X - X_before), restarted when F would rise.
- none: Algorithm 1 as printed.

F never increases: a step that would raise it is done again from X itself and with a more exact SVD. Without a start,
the weight is lowered to its value first (continuation), one step for each halving of the threshold, so that directions
enter in the order of their strength and none that only looked strong while the others were missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lorank.linalg import Factors, SparsePlusLowRank, balance, truncated_svd
from lorank.problems import Problem, SpectralPoint, SpectralProblem
from lorank.regularizers import Spectral
from lorank.solvers.base import Solver
from lorank.solvers.half_steps import half_step
from lorank.types import Array

# Relative accuracy of the singular values: first try, and when F did not fall.
COARSE, FINE = 1e-2, 1e-7
# Passes of the power method: from a warm subspace one is enough, and a step that raises F is repeated with more.
PASSES = {COARSE: 1, FINE: 20}
# The least ridge of a sweep, as a part of the regularizer's threshold.
HOLD = 0.1
# Halvings of the weight on the way down to its value: a threshold of 1e-12 of the strongest direction shrinks nothing.
MOST_HALVINGS = 40
# Directions of the random subspace that the first SVD starts from.
FIRST = 4


@dataclass(frozen=True)
class ProximalState:
    """The point now and one iteration before, and `subspace`, from which the next SVD starts."""

    point: SpectralPoint
    before: SpectralPoint
    subspace: Array
    objective: float
    iteration: int = 0
    sweeps: int = 0
    stalled: bool = False

    @property
    def rank(self) -> int:
        return int(np.count_nonzero(self.point.sigma))

    @property
    def factors(self) -> Factors:
        return self.point.factors


class ProximalGradient(Solver):
    """Proximal gradient with low rank + sparse iterates; see the module's description.

    Parameters
    ----------
    accelerate : "sweeps", "momentum" or "none"
    """

    requires = ("value", "prox", "threshold")
    coupling = ("energy",)
    held = (8.0, 12.0)

    def __init__(self, accelerate: Literal["sweeps", "momentum", "none"] = "sweeps") -> None:
        self.accelerate = accelerate

    def init(self, problem: Problem, start: Factors | None, seed: int | None) -> ProximalState:
        n, dtype = problem.observations.shape[1], problem.observations.dtype
        point = problem.start_point(start)
        rng = np.random.default_rng(seed)
        subspace = np.hstack([point.V, rng.standard_normal((n, min(FIRST, n))).astype(dtype)])
        subspace = np.linalg.qr(subspace)[0].astype(dtype)
        state = ProximalState(point, point, subspace, problem.point_objective(point))
        return state if start is not None else self._continued(problem, state)

    def _continued(self, problem: Problem, state: ProximalState) -> ProximalState:
        """Continuation: a step for each weight, from one that leaves one direction down to the problem's own."""
        regularizer = problem.spectral
        least = regularizer.threshold(1.0)
        if not 0 < least < np.inf:
            return state
        Z = gradient_step(problem, state, 0.0)
        rng = np.random.default_rng(state.iteration)
        strongest = float(truncated_svd(Z, state.subspace, np.inf, 1, rng, COARSE).sigma[0])
        least = max(least, strongest * 2.0**-MOST_HALVINGS)
        for threshold in least * 2.0 ** np.arange(np.floor(np.log2(max(strongest / least, 1.0))), 0, -1):
            heavier = replace(regularizer, lam=_weight_of_threshold(regularizer, float(threshold)))
            state = self._iterate(problem.with_regularizer(heavier), state, 0.0, COARSE)
            state = replace(state, iteration=state.iteration + 1)
        return replace(state, objective=problem.point_objective(state.point))

    def step(self, problem: Problem, state: ProximalState) -> ProximalState:
        momentum = max(state.sweeps - 1, 0) / (state.sweeps + 2) if self.accelerate == "momentum" else 0.0
        tries = [(momentum, COARSE)] if momentum > 0 else []
        for beta, tol in [*tries, (0.0, COARSE), (0.0, FINE)]:
            following = self._iterate(problem, state, beta, tol)
            # `not >` lets a NaN through: the loop ends it as diverged.
            if not following.objective > state.objective:
                sweeps = state.sweeps + 1 if beta == momentum else 1
                return replace(following, sweeps=sweeps, iteration=state.iteration + 1)
        return replace(state, stalled=True)

    def _iterate(self, problem: Problem, state: ProximalState, beta: float, tol: float) -> ProximalState:
        regularizer = problem.spectral
        step = 1 / problem.lipschitz
        Z = gradient_step(problem, state, beta)
        rng = np.random.default_rng(state.iteration)
        found = truncated_svd(Z, state.subspace, regularizer.threshold(step), problem.rank, rng, tol, PASSES[tol])
        z = found.sigma.astype(np.float64)
        sigma = regularizer.prox(z, step)
        if tol > FINE and not sigma.any():
            # Zero is a point to stop at: a value just above the threshold must not look as if it were below.
            return self._iterate(problem, replace(state, subspace=found.subspace), beta, FINE)
        alive = max(1, int(np.count_nonzero(sigma)))
        U, sigma, V = found.U[:, :alive], sigma[:alive], found.V[:, :alive]
        point, objective = problem.fitted_point(U, sigma, V, state.point.bias)
        if self.accelerate == "sweeps" and np.isfinite(objective) and sigma.any():
            slopes = (z[:alive] - sigma) / step
            point, objective = swept(problem, point, objective, slopes, regularizer.threshold(1.0))
        return ProximalState(point, state.point, found.subspace, objective)


def gradient_step(problem: SpectralProblem, state: ProximalState, beta: float) -> SparsePlusLowRank:
    """Z = Y - P_Omega(Y - O) at Y = X + beta (X - X_before)."""
    now, before = state.point, state.before
    dtype = now.U.dtype
    U, V, entries = now.U * now.sigma.astype(dtype), now.V, now.entries
    if beta > 0:
        U = np.hstack([dtype.type(1 + beta) * U, -dtype.type(beta) * (before.U * before.sigma.astype(dtype))])
        V = np.hstack([V, before.V])
        entries = entries + dtype.type(beta) * (entries - before.entries)
    return problem.gradient_step(U, V, entries, now.bias)


def swept(
    problem: Problem, point: SpectralPoint, objective: float, slopes: Array, threshold: float
) -> tuple[SpectralPoint, float]:
    """The point after one sweep over both factors, and F there; the point itself if F would rise.

    The ridge of the sweep are the regularizer's slopes.
    """
    factors = point.factors
    k = factors.k
    # Where the regularizer has no slope, rows seen less than k times are held near the place where they are.
    ridge = np.maximum(slopes, HOLD * threshold)
    forces = np.diag(ridge), np.diag(ridge - slopes)
    left, _ = half_step(problem, factors, *forces)
    factors = replace(factors, left=left)
    right, _ = half_step(problem, factors.transposed(), *forces, transposed=True)
    factors = problem.recentred(replace(factors, right=right))
    if not factors.is_finite():
        return point, objective
    frame = balance(problem.gram(factors.left, k), problem.gram(factors.right, k))
    sigma = frame.sigma[::-1]
    if not sigma[-1] > 1e-8 * sigma[0]:
        return point, objective  # A direction is dying: the prox alone decides that.
    root = np.sqrt(sigma)
    U = factors.W @ (frame.A[:, ::-1] / root).astype(factors.dtype)
    V = factors.H @ (frame.inverse_transposed[:, ::-1] / root).astype(factors.dtype)
    bias = point.bias
    if problem.biased:
        bias = np.concatenate([[factors.offset], factors.row_bias, factors.col_bias]).astype(np.float64)
    following = problem.point(U, sigma, V, bias)
    reached = problem.point_objective(following)
    return (following, reached) if reached < objective else (point, objective)


def _weight_of_threshold(regularizer: Spectral, threshold: float) -> float:
    """The lam under which the regularizer's threshold is this, to a hundredth; it grows with lam."""
    low = high = float(regularizer.lam)
    factor, steps = 4.0, 0
    while factor * high < np.inf and replace(regularizer, lam=high).threshold(1.0) < threshold:
        low, high = high, factor * high
        steps += 1
        factor = factor if steps < 16 else min(factor**2, 1e60)  # from 1e-300 it is a long way by fours
    while high > 1.01 * low:
        # In units of a power of two, so that neither the product nor its root is rounded otherwise or underflows.
        unit = 2.0 ** (math.frexp(high)[1] - 1)
        middle = math.sqrt((low / unit) * (high / unit)) * unit
        low, high = (middle, high) if replace(regularizer, lam=middle).threshold(1.0) < threshold else (low, middle)
    return high
