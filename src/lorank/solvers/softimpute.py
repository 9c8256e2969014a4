"""softImpute-ALS: the nuclear norm by alternating ridge regressions on the completed matrix.

Where nothing was seen, X takes the place of the data, so that all rows share one k x k system:

    W <- (R H + W H^T H) (H^T H + lam I)^-1,   R = P_Omega(O - W H^T),

and likewise for H: O(nnz k + (m + n) k^2) for an iteration instead of nnz k^2, on low rank + sparse. It is a majorizer
of the loss, so F never increases; momentum and the balanced frame are those of `Alternating`.

Hastie, Mazumder, Lee, Zadeh, "Matrix completion and low-rank SVD via fast alternating least squares", JMLR 2015.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Protocol, cast

import numpy as np
import scipy.linalg

from lorank.linalg import Factors
from lorank.problems import FactoredProblem
from lorank.regularizers import Factored
from lorank.solvers.alternating import Alternating, AlternatingState
from lorank.solvers.base import Solver
from lorank.types import Array

# The scale of the first factors, as a part of the data's own.
START = 1e-2


class HasFactored(Protocol):
    """A spectral regularizer that is the least value of one of factors."""

    def factored(self) -> Factored:
        """The regularizer of factors."""


class _OnCompleted(Alternating):
    """Sweeps in the balanced frame, with half-steps on the completed matrix."""

    @staticmethod
    def half_step(
        problem: FactoredProblem, factors: Factors, ridge: Array, pull: Array | None = None, transposed: bool = False
    ) -> tuple[Array, float]:
        k = factors.k
        slope, _ = problem.gradient_left(factors, transposed)
        # Weights up to c_max: the loss is below its tangent plus c_max/2 times the squared change, on all entries.
        gram = problem.curvature * problem.gram(factors.right, k)
        target = factors.W.astype(np.float64) @ gram - slope[:, :k]
        left = factors.left.copy()
        left[:, :k] = scipy.linalg.solve(gram + ridge, target.T, assume_a="pos").T
        moved = replace(factors, left=left)
        if problem.biased:
            # Biases have their exact minimiser for the new rows, as in any alternating least squares.
            slope, _ = problem.gradient_left(moved, transposed)
            own = problem.bias_ridge(transposed)
            left[:, k] -= (slope[:, k] + own * left[:, k]) / (problem.counts(transposed) + own)
        # Only the second half's loss is asked for.
        return left, problem.loss(moved.transposed()) if transposed else np.nan


class SoftImputeALS(Solver):
    """Alternating ridge regressions on the completed matrix; see the module's description.

    Works on factors for a spectral regularizer that has a factored form.
    """

    requires = ("factored",)
    held = (6.0, 3.0)
    _sweeps: ClassVar[Alternating] = _OnCompleted()

    def init(self, problem: FactoredProblem, start: Factors | None, seed: int | None) -> AlternatingState:
        if start is None:
            start = _near_zero(problem, problem.random_start(seed))
            return replace(self._sweeps.init(_factored(problem), start, seed), objective=np.inf)
        return self._sweeps.init(_factored(problem), start, seed)

    def step(self, problem: FactoredProblem, state: AlternatingState) -> AlternatingState:
        return self._sweeps.step(_factored(problem), state)

    def finish(self, problem: FactoredProblem, state: AlternatingState) -> Factors:
        return self._sweeps.finish(problem, state)


def _near_zero(problem: FactoredProblem, factors: Factors) -> Factors:
    """What is not seen is filled in by X, so X has to start near 0, and at 0 in lines without observations."""
    sides = []
    for side, transposed in ((factors.left, False), (factors.right, True)):
        seen = np.diff(problem.lines(transposed).pointers) > 0
        sides.append(side * (START * seen[:, None]).astype(side.dtype))
    return replace(factors, left=sides[0], right=sides[1])


def _factored(problem: FactoredProblem) -> FactoredProblem:
    return problem.with_regularizer(cast(HasFactored, problem.regularizer).factored())
