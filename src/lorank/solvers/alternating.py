"""The default solver of factored problems: reweighted alternating least squares in the balanced frame, with momentum.

With H fixed, every row of W is a small ridge regression. Three things make it fast:

- Balance. The regularizer is taken at the balanced factors of the same X (`linalg.balance`), so that no sweep is spent
  on moving weight from one factor to the other. At the true rank this alone turns a hundred sweeps into ten.
- Multipliers as the ridge. The gradient of the regularizer is W M with a k x k matrix M; freezing M gives the step
  (H_i^T H_i + M) w_i = H_i^T o_i, a Newton step but for one direction. For NNFN in the balanced frame
  M = lam diag(1 - theta sigma_j / ||sigma||): each direction is shrunk as much as its weight deserves.
- Momentum. Each sweep starts from the last point moved on by (n - 1) / (n + 2) of the last change (Nesterov), and from
  the point itself after a sweep that did not decrease F.

From a random start the first sweeps have at least the ridge of a strongly weighted problem, half as strong each time:
with few entries for each unknown they would otherwise fit rows by wild values of a factor that means nothing yet, which
no later sweep undoes.

F never increases: a sweep that would raise it is done again without momentum, and then with the regularizer's
majorizer, for which a decrease is a theorem. Where directions die, so that columns of the factors come to depend on
each other, rounding takes over before the theorem does: small singular values are lost in the Grams, and F seems to
rise while it falls. Then the factors are turned into their balanced frame, and from there on singular values are
accurate to rounding (`linalg.accurate_balance`). The solver stalls only when that does not help either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lorank.linalg import Factors, Frame, accurate_balance, balance, effective_rank
from lorank.problems import FactoredProblem
from lorank.regularizers import Factored
from lorank.solvers.base import Solver
from lorank.solvers.half_steps import half_step
from lorank.types import Array

# A lower bound on the ridge that falls below this is dropped.
LEAST_BOUND = 0.1
# A part of F that counts as nothing where a solver has stalled.
ROUNDING = 1e-12


@dataclass(frozen=True)
class AlternatingState:
    """`factors` in whatever frame the sweeps left them, the ones before, and sweeps since momentum was last reset.

    `min_ridge` is a lower bound on the ridge of the next sweep, as a part of the largest singular value times the
    density of the data: of the size of the largest singular value of the observed matrix with 0 elsewhere. `accurate`
    is True once sweeps take singular values to full accuracy.
    """

    factors: Factors
    previous: Factors
    objective: float
    rank: int
    sweeps: int = 0
    min_ridge: float = 0.0
    accurate: bool = False
    stalled: bool = False


class Alternating(Solver):
    """Reweighted alternating least squares; see the module's description.

    Each sweep costs O(nnz k^2 + (m + n) k^3) and O((m + n) k) memory besides the data.
    """

    requires: ClassVar[tuple[str, ...]] = ("value", "multipliers", "majorizer")
    any_loss = True
    distributes: ClassVar[bool] = True
    unobserved: ClassVar[bool] = True
    shares: ClassVar[bool] = True
    coupling: ClassVar[tuple[str, ...]] = ("energy", "covariance", "directions")
    # The left factor given the right one; a subclass may have another way.
    half_step = staticmethod(half_step)

    def init(self, problem: FactoredProblem, start: Factors | None, seed: int | None) -> AlternatingState:
        factors = start if start is not None else problem.random_start(seed)
        objective = problem.objective(factors) if start is not None else np.inf
        min_ridge = 1.0 if start is None else 0.0
        return AlternatingState(factors, factors, float(objective), problem.rank, min_ridge=min_ridge)

    def step(self, problem: FactoredProblem, state: AlternatingState) -> AlternatingState:
        momentum = max(state.sweeps - 1, 0) / (state.sweeps + 2)
        lower = state.min_ridge / 2 if state.min_ridge > 2 * LEAST_BOUND else 0.0
        if momentum > 0:
            # Not by a name: the sweep lets go of each side of the point as soon as it has a better one.
            following = self._sweep(
                problem, state.factors.extrapolated(state.previous, momentum), False, state.min_ridge, state.accurate
            )
            if following.objective <= state.objective:
                return replace(following, previous=state.factors, sweeps=state.sweeps + 1, min_ridge=lower)
        sweeps = 1 if momentum > 0 else state.sweeps + 1
        swept = self._guarded_sweep(problem, state)
        if swept is None:
            turned, sweeps = _turned(problem, state), 1
            swept = self._guarded_sweep(problem, turned)
            if swept is None:
                gained = turned.objective < state.objective - ROUNDING * abs(state.objective)
                return replace(turned if gained else state, stalled=True)
        return replace(swept, sweeps=sweeps, min_ridge=lower)

    def finish(self, problem: FactoredProblem, state: AlternatingState) -> Factors:
        """The balanced factors, strongest direction first."""
        return _in_frame(state.factors, problem.frame(state.factors))

    def _guarded_sweep(self, problem: FactoredProblem, state: AlternatingState) -> AlternatingState | None:
        """A sweep without momentum, by the multipliers or else the majorizer; None if both would raise F."""
        for cautious in (False, True):
            following = self._sweep(problem, state.factors, cautious, state.min_ridge, state.accurate)
            # `not >` lets a NaN through: the loop ends it as diverged.
            if not following.objective > state.objective:
                return replace(following, previous=state.factors)
        return None

    def _sweep(
        self, problem: FactoredProblem, factors: Factors, cautious: bool, min_ridge: float, accurate: bool
    ) -> AlternatingState:
        balanced = accurate_balance if accurate else balance
        least = min_ridge * problem.density
        gram_right = problem.prior_gram(factors.transposed(), transposed=True)
        frame = balanced(problem.prior_gram(factors), gram_right)
        ridge, pull = _ridge_and_pull(problem.factored, frame, frame.for_left, cautious, least)
        left, _ = self.half_step(problem, factors, ridge, pull, transposed=False)
        factors = replace(factors, left=left)

        gram_left = problem.prior_gram(factors)
        frame = balanced(gram_left, gram_right)
        ridge, pull = _ridge_and_pull(problem.factored, frame, frame.for_right, cautious, least)
        right, loss = self.half_step(problem, factors.transposed(), ridge, pull, transposed=True)
        factors = problem.recentred(replace(factors, right=right))

        # Recentring moves biases only, which no Gram has in it.
        frame = balanced(gram_left, problem.prior_gram(factors.transposed(), transposed=True))
        objective = loss + problem.penalty(factors, frame)
        return AlternatingState(factors, factors, objective, effective_rank(frame.sigma), accurate=accurate)


def _turned(problem: FactoredProblem, state: AlternatingState) -> AlternatingState:
    """The same point in its balanced frame, with F to full accuracy."""
    factors = state.factors
    grams = problem.prior_gram(factors), problem.prior_gram(factors.transposed(), transposed=True)
    frame = accurate_balance(*grams)
    factors = _in_frame(factors, frame)
    objective = problem.loss(factors) + problem.penalty(factors, frame)
    return replace(state, factors=factors, previous=factors, objective=objective, accurate=True)


def _in_frame(factors: Factors, frame: Frame) -> Factors:
    """The same X by the factors W A and H A^-T, strongest direction first."""
    return factors.turned(frame.A[:, ::-1], frame.inverse_transposed[:, ::-1])


def _ridge_and_pull(
    regularizer: Factored, frame: Frame, to_factor: Callable[[Array], Array], cautious: bool, least: float
) -> tuple[Array, Array | None]:
    """Ridge and pull of the row systems, from the regularizer in the balanced frame.

    No ridge is under `least` times the largest singular value.
    """
    gram = frame.gram
    if cautious:
        ridge, pull = regularizer.majorizer(gram, gram)
        return to_factor(ridge), to_factor(pull)
    multiplier, _ = regularizer.multipliers(gram, gram)
    # A direction that costs nothing (rank one under NNFN) comes out as a zero of either sign: no ridge is below it.
    np.fill_diagonal(multiplier, np.maximum(multiplier.diagonal(), least * frame.sigma.max()))
    return to_factor(multiplier), None
