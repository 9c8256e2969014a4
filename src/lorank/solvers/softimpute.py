"""softImpute-ALS: the nuclear norm by alternating ridge regressions on the completed matrix.

Where nothing was seen, X takes the place of the data, so that all rows share one k x k system:

    W <- (R H + W H^T H) (H^T H + lam I)^-1,   R = P_Omega(O - W H^T),

and likewise for H: O(nnz k + (m + n) k^2) for an iteration instead of nnz k^2, on low rank + sparse. It is a majorizer
of the loss, so F never increases; momentum and the balanced frame are those of `Alternating`.

Hastie, Mazumder, Lee, Zadeh, "Matrix completion and low-rank SVD via fast alternating least squares", JMLR 2015.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.linalg

from lorank.linalg import Factors
from lorank.problems import Problem
from lorank.solvers.alternating import Alternating, AlternatingState

Array = npt.NDArray[Any]


class SoftImputeALS(Alternating):
    """Alternating ridge regressions on the completed matrix; see the module's description.

    Works on factors for a spectral regularizer that has a factored form.
    """

    requires: ClassVar[tuple[str, ...]] = ("factored",)
    any_loss = False

    def init(self, problem: Problem, start: Factors | None, seed: int | None) -> AlternatingState:
        return super().init(_factored(problem), start, seed)

    def step(self, problem: Problem, state: AlternatingState) -> AlternatingState:
        return super().step(_factored(problem), state)

    def _half(
        self, problem: Problem, factors: Factors, ridge: Array, pull: Array | None, transposed: bool
    ) -> tuple[Array, float]:
        k, p = factors.k, factors.k + problem.biased
        slope, _ = problem.gradient_left(factors, transposed)
        features = factors.right[:, :p].astype(np.float64)
        system = np.zeros((p, p))
        system[:k, :k] = ridge
        if problem.bias_weight is not None:
            # The bias of a row multiplies 1, whatever the other side's bias is.
            features[:, k] = 1.0
            system[k, k] = problem.bias_weight
        gram = features.T @ features
        target = factors.left[:, :p].astype(np.float64) @ gram - slope[:, :p]
        left = np.zeros_like(factors.left)
        left[:, :p] = scipy.linalg.solve(gram + system, target.T, assume_a="pos").T
        moved = replace(factors, left=left)
        # Only the second half's loss is asked for.
        return left, problem.loss(moved.transposed()) if transposed else np.nan


def _factored(problem: Problem) -> Problem:
    regularizer: Any = problem.regularizer
    return problem.with_regularizer(regularizer.factored())
