"""Algorithm 2 of the paper: gradient descent on the factors, with a guarded step; both at once or in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lorank.linalg import Factors, effective_rank
from lorank.problems import FactoredProblem
from lorank.solvers.base import Solver
from lorank.types import Array

# A step is taken if F falls by at least this part of what the gradient promises (Armijo).
SUFFICIENT = 1e-4
# How the step grows after it was good, and shrinks while it is not.
GROW, SHRINK = 1.5, 0.5
# Halvings before the solver says that it cannot go on.
MOST_HALVINGS = 40


@dataclass(frozen=True)
class GradientState:
    """Factors, F there, and the step length to try next for each block of them."""

    factors: Factors
    objective: float
    rank: int
    steps: tuple[float, ...]
    stalled: bool = False


class GradientDescent(Solver):
    """W <- W - step grad_W F, H <- H - step grad_H F.

    grad_W = R H + W M with R = P_Omega(W H^T - O) and M the regularizer's multiplier (lam I - c H^T H for NNFN).
    The paper tunes a fixed step; here it is halved until F falls and grows again afterwards.
    An iteration costs O(nnz k + (m + n) k^2).

    Parameters
    ----------
    in_turn : bool
        Move H by its gradient at the W that has moved already, each with a step of its own: alternating gradient
        descent. Otherwise both gradients are those at the same point.
    """

    requires = ("value", "multipliers")
    any_loss = True
    unobserved = True
    coupling = ("directions",)

    def __init__(self, in_turn: bool = False) -> None:
        self.in_turn = in_turn

    def init(self, problem: FactoredProblem, start: Factors | None, seed: int | None) -> GradientState:
        factors = start if start is not None else problem.random_start(seed)
        # 1 / (largest number of observations on a line, weighted) is the scale of the curvature of the loss.
        most = [float(problem.counts(side).max()) for side in (False, True)]
        steps = tuple(1.0 / count for count in (most if self.in_turn else [max(most)]))
        return GradientState(factors, *_evaluate(problem, factors), steps)

    def step(self, problem: FactoredProblem, state: GradientState) -> GradientState:
        stuck = []
        for block, sides in enumerate([(False,), (True,)] if self.in_turn else [(False, True)]):
            state = _descend(problem, state, block, sides)
            stuck.append(state.stalled)
        return replace(state, stalled=all(stuck))


def _descend(problem: FactoredProblem, state: GradientState, block: int, sides: tuple[bool, ...]) -> GradientState:
    """A step of some sides at once: False is W with the offset, True is H. Stalled if no step length is good."""
    now = state.factors
    slopes = _gradients(problem, now, sides)
    offset = 0.0
    if problem.biased and False in sides:
        offset = float(slopes[False][:, now.k].sum(dtype=np.float64))
        offset += problem.offset_ridge * (now.offset - problem.mean)
    if problem.biased:
        for side, slope in slopes.items():
            padded = now.right if side else now.left
            own = problem.deviations(padded[:, now.k : now.k + 1], side)[:, 0]
            slope[:, now.k] += padded.dtype.type(problem.bias_ridge(side)) * own
    squares = sum(float(np.sum(slope.astype(np.float64) ** 2)) for slope in slopes.values())
    length = state.steps[block]
    for _ in range(MOST_HALVINGS):
        amount = now.dtype.type(length)
        moved = replace(
            now,
            left=now.left - amount * slopes[False] if False in sides else now.left,
            right=now.right - amount * slopes[True] if True in sides else now.right,
            # The offset is one number for all entries: its curvature is their count. It shrinks with the rest.
            offset=now.offset - min(1.0, length / state.steps[block]) * offset / problem.counts(False).sum(),
        )
        objective, rank = _evaluate(problem, moved)
        if not objective > state.objective - SUFFICIENT * length * squares:
            steps = tuple(length * GROW if i == block else step for i, step in enumerate(state.steps))
            return GradientState(moved, objective, rank, steps)
        length *= SHRINK
    return replace(state, stalled=True)


def _gradients(problem: FactoredProblem, factors: Factors, sides: tuple[bool, ...]) -> dict[bool, Array]:
    """Gradients of F by some of the padded factors, without what biases pay."""
    k = factors.k
    views = {side: factors.transposed() if side else factors for side in sides}
    if len(sides) == 2:
        slopes = dict(zip((False, True), problem.gradients(factors)))
    else:
        slopes = {side: problem.gradient_left(views[side], side)[0] for side in sides}
    grams = problem.prior_gram(factors), problem.prior_gram(factors.transposed(), transposed=True)
    multipliers = problem.factored.multipliers(*grams)
    for side, slope in slopes.items():
        slope[:, :k] += problem.deviations(views[side].W, side) @ multipliers[side].astype(slope.dtype)
        slope[:, k + problem.biased :] = 0
    return slopes


def _evaluate(problem: FactoredProblem, factors: Factors) -> tuple[float, int]:
    """F as the paper writes it, at the factors as they are (not balanced), and the rank."""
    grams = problem.prior_gram(factors), problem.prior_gram(factors.transposed(), transposed=True)
    value = problem.factored.value(*grams) + problem.bias_penalty(factors)
    sigma = np.sqrt(np.abs(np.linalg.eigvals(grams[0] @ grams[1])))
    return problem.loss(factors) + value, effective_rank(sigma)
