"""Graph-regularized alternating least squares: the factored nuclear norm, with the graph on the factors themselves.

    F = 1/2 sum over observed (X_ij - O_ij)^2 + lam/2 (||W||_F^2 + ||H||_F^2) + gamma/2 tr(W^T L W) (+ the same of H)

The paper puts its graph on W H^T, which does not care how X is factored; this term does, so there is no balanced frame,
no momentum, and each half-step is one system solved by conjugate gradients from the factor of before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lorank.linalg import Factors, effective_rank
from lorank.problems import FactoredProblem
from lorank.solvers.base import Solver
from lorank.solvers.half_steps import graph_half_step
from lorank.types import Array


@dataclass(frozen=True)
class GRALSState:
    """Factors, F at them, and how many singular values are alive."""

    factors: Factors
    objective: float
    rank: int
    stalled: bool = False


class GRALS(Solver):
    """Alternating least squares with gamma/2 tr(W^T L W); see the module's description.

    References
    ----------
    Rao, Yu, Ravikumar, Dhillon, "Collaborative filtering with graph information", NeurIPS 2015.
    """

    requires = ("value", "multipliers")
    coupling = ("energy",)

    def init(self, problem: FactoredProblem, start: Factors | None, seed: int | None) -> GRALSState:
        factors = start if start is not None else problem.random_start(seed)
        objective = problem.loss(factors) + _penalty(problem, factors) if start is not None else np.inf
        return GRALSState(factors, float(objective), problem.rank)

    def step(self, problem: FactoredProblem, state: GRALSState) -> GRALSState:
        left, _ = _half(problem, state.factors, transposed=False)
        factors = replace(state.factors, left=left)
        right, loss = _half(problem, factors.transposed(), transposed=True)
        factors = problem.recentred(replace(factors, right=right))
        objective = loss + _penalty(problem, factors)
        if objective > state.objective:
            return replace(state, stalled=True)
        return GRALSState(factors, objective, effective_rank(factors.singular_values()))


def _half(problem: FactoredProblem, factors: Factors, transposed: bool) -> tuple[Array, float]:
    k = factors.k
    gram = problem.gram(factors.right, k)
    ridge, _ = problem.factored.multipliers(problem.gram(factors.left, k), gram)
    graph = problem.added(transposed)
    if graph is None:
        return problem.ridge_regressions(factors, ridge, transposed=transposed)
    return graph_half_step(problem, graph, factors, gram, np.eye(k), ridge, None, transposed)


def _penalty(problem: FactoredProblem, factors: Factors) -> float:
    """The regularizer at the factors as they are, plus the graphs' terms and the biases' ridge."""
    k = factors.k
    total = problem.factored.value(problem.gram(factors.left, k), problem.gram(factors.right, k))
    for factor, transposed in ((factors.W, False), (factors.H, True)):
        graph = problem.added(transposed)
        if graph is not None:
            total += graph.energy(factor, np.eye(k))
    return total + problem.bias_penalty(factors)
