"""Algorithm 2 of the paper: gradient descent on the factors, as printed, with a guarded step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.linalg import Factors
from lorank.linalg.factors import effective_rank
from lorank.problems import Problem
from lorank.regularizers import Factored
from lorank.solvers.base import Solver

Array = npt.NDArray[Any]

# A step is taken if F falls by at least this part of what the gradient promises (Armijo).
SUFFICIENT = 1e-4
# How the step grows after it was good, and shrinks while it is not.
GROW, SHRINK = 1.5, 0.5
# Halvings before the solver says that it cannot go on.
MOST_HALVINGS = 40


@dataclass(frozen=True)
class GradientState:
    """Factors, F there, and the step length to try next."""

    factors: Factors
    objective: float
    rank: int
    step: float
    stalled: bool = False


class GradientDescent(Solver):
    """W <- W - step grad_W F, H <- H - step grad_H F, both gradients at the same point.

    grad_W = R H + W M with R = P_Omega(W H^T - O) and M the regularizer's multiplier (lam I - c H^T H for NNFN).
    The paper tunes a fixed step; here it is halved until F falls and grows again afterwards.
    An iteration costs O(nnz k + (m + n) k^2).
    """

    requires = ("value", "multipliers")
    any_loss = True

    def init(self, problem: Problem, start: Factors | None, seed: int | None) -> GradientState:
        factors = start if start is not None else problem.random_start(seed)
        # 1 / (largest number of observations on a line) is the scale of the curvature of the loss.
        most = max(int(np.diff(problem.lines(side).pointers).max()) for side in (False, True))
        return GradientState(factors, *_evaluate(problem, factors), step=1.0 / most)

    def step(self, problem: Problem, state: GradientState) -> GradientState:
        left, right, offset = _gradient(problem, state.factors)
        squares = sum(float(np.sum(g.astype(np.float64) ** 2)) for g in (left, right))
        length = state.step
        for _ in range(MOST_HALVINGS):
            now = state.factors
            moved = replace(
                now,
                left=now.left - now.dtype.type(length) * left,
                right=now.right - now.dtype.type(length) * right,
                # The offset is one number for all entries: its curvature is their count. It shrinks with the rest.
                offset=now.offset - min(1.0, length / state.step) * offset / problem.observations.nnz,
            )
            objective, rank = _evaluate(problem, moved)
            if not objective > state.objective - SUFFICIENT * length * squares:
                return GradientState(moved, objective, rank, length * GROW)
            length *= SHRINK
        return replace(state, stalled=True)


def _gradient(problem: Problem, factors: Factors) -> tuple[Array, Array, float]:
    """Gradients of F by both padded factors, and by the offset."""
    assert isinstance(problem.regularizer, Factored)
    k = factors.k
    grams = problem.gram(factors.left, k), problem.gram(factors.right, k)
    multipliers = problem.regularizer.multipliers(*grams)
    sides = []
    for view, multiplier, transposed in zip((factors, factors.transposed()), multipliers, (False, True)):
        slope, _ = problem.gradient_left(view, transposed)
        slope[:, :k] += view.W @ multiplier.astype(view.dtype)
        slope[:, k + problem.biased :] = 0
        sides.append(slope)
    offset = 0.0
    if problem.bias_weight is not None:
        offset = float(sides[0][:, k].sum(dtype=np.float64)) + problem.bias_weight * (factors.offset - problem.mean)
        for slope, side in zip(sides, (factors.left, factors.right)):
            slope[:, k] += side.dtype.type(problem.bias_weight) * side[:, k]
    return sides[0], sides[1], offset


def _evaluate(problem: Problem, factors: Factors) -> tuple[float, int]:
    """F as the paper writes it, at the factors as they are (not balanced), and the rank."""
    assert isinstance(problem.regularizer, Factored)
    grams = problem.gram(factors.left, factors.k), problem.gram(factors.right, factors.k)
    value = problem.regularizer.value(*grams) + problem.bias_penalty(factors)
    sigma = np.sqrt(np.abs(np.linalg.eigvals(grams[0] @ grams[1])))
    return problem.loss(factors) + value, effective_rank(sigma)
