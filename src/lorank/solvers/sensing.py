"""Proximal gradient with momentum for matrix sensing, on X as an m x n array.

    X <- argmin over rank(X) <= r of 1/2 ||X - Z||^2 + step regularizer(X),   Z = Y - step A^T (A(Y) - b),

with Y = X + n / (n + 3) (X - X_before); the momentum begins anew whenever F would rise.

The constrained minimiser is known whenever the prox is. For X of rank r at most, with singular values x_1 >= ... >= x_r
and those of Z being z, von Neumann's trace inequality gives <X, Z> <= sum_{i <= r} x_i z_i, so that

    1/2 ||X - Z||^2 + step regularizer(x)
        >= 1/2 sum_{i <= r} (x_i - z_i)^2 + step regularizer(x) + 1/2 sum_{i > r} z_i^2

with equality at X = U diag(x) V^T on the first r singular vectors of Z. The right side is smallest at the prox of the
first r values: they are cut off *before* the prox. After it would be another point wherever the regularizer is no sum
over singular values, such as NNFN, whose prox of z_1 depends on z_2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors, effective_rank
from lorank.problems import SensingProblem
from lorank.solvers.base import Solver
from lorank.types import Array


@dataclass(frozen=True)
class SensingState:
    """X = U diag(sigma) V^T, dense as well, the X of before, and the steps since momentum was last reset."""

    U: Array
    sigma: Array
    V: Array
    X: Array
    before: Array
    objective: float
    count: int = 0
    stalled: bool = False

    @property
    def rank(self) -> int:
        return effective_rank(self.sigma)

    @property
    def factors(self) -> Factors:
        root = np.sqrt(self.sigma)
        return Factors.of(self.U * root, self.V * root)


class SensingGradient(Solver):
    """Proximal gradient with momentum on linear measurements; see the module's description.

    An iteration costs one or two SVDs of m x n arrays and two or three applications of the operator.
    """

    requires = ("value", "prox")

    def check(self, problem: SensingProblem) -> None:
        self.check_regularizer(problem.regularizer)

    def init(self, problem: SensingProblem, start: Factors | None, seed: int | None) -> SensingState:
        X = np.zeros(problem.data.shape) if start is None else start.dense().astype(np.float64)
        if X.shape != problem.data.shape:
            raise InputError(f"The start is {X.shape[0]} x {X.shape[1]}; the matrix is {problem.data.shape}.")
        U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
        r = problem.rank
        if sigma[r:].any():
            X = (U[:, :r] * sigma[:r]) @ Vt[:r]
        objective = problem.data.value(X) + problem.regularizer.value(sigma[:r])
        return SensingState(U[:, :r], sigma[:r], Vt[:r].T, X, X, objective)

    def step(self, problem: SensingProblem, state: SensingState) -> SensingState:
        for momentum in sorted({state.count / (state.count + 3), 0.0}, reverse=True):
            following = _moved(problem, state, momentum)
            # `not >` lets a NaN through: the loop ends it as diverged.
            if not following.objective > state.objective:
                count = state.count + 1 if momentum > 0 or state.count == 0 else 1
                return replace(following, count=count)
        return replace(state, stalled=True)


def _moved(problem: SensingProblem, state: SensingState, momentum: float) -> SensingState:
    """A proximal step from X + momentum (X - X_before)."""
    data, step = problem.data, 1 / problem.data.lipschitz
    Y = state.X + momentum * (state.X - state.before)
    U, sigma, Vt = np.linalg.svd(Y - step * data.gradient(Y), full_matrices=False)
    sigma = problem.regularizer.prox(sigma[: problem.rank], step)
    width = max(1, int(np.count_nonzero(sigma)))
    U, sigma, V = U[:, :width], sigma[:width], Vt[:width].T
    X = (U * sigma) @ V.T
    return SensingState(U, sigma, V, X, state.X, data.value(X) + problem.regularizer.value(sigma))
