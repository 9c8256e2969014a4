"""A regularizer of your own: the elastic net of singular values, lam * sum_i (sigma_i + ridge/2 sigma_i^2).

A sum over singular values needs the penalty of each, the threshold up to which a proximal step sets them to 0, and the
proximal point above it. No solver knows a regularizer by name.
"""

from dataclasses import dataclass

import numpy as np

from lorank.datasets import synthetic
from lorank.problems import Problem
from lorank.regularizers import Separable
from lorank.solvers import ProximalGradient, solve


@dataclass(frozen=True, kw_only=True)
class ElasticNet(Separable):
    """lam * sum_i (sigma_i + ridge/2 sigma_i^2)."""

    ridge: float = 0.1

    def penalty(self, sigma):
        return self.lam * (sigma + self.ridge / 2 * sigma**2)

    def threshold(self, step):
        return step * self.lam

    def shrink(self, sigma, step):
        return (sigma - step * self.lam) / (1 + step * self.lam * self.ridge)


# Test a proximal map against a fine grid before trusting it.
net = ElasticNet(lam=0.7, ridge=0.3)
grid = np.linspace(0, 5, 200_001)
for sigma in (0.5, 1.0, 3.0):
    best = grid[np.argmin((grid - sigma) ** 2 / 2 + 2.0 * net.penalty(grid))]
    assert abs(net.prox(np.array([sigma]), 2.0)[0] - best) < 1e-4

problem = synthetic(m=200, rank=3, seed=0)
for ridge in (0.0, 1e-3, 1e-2):
    result = solve(
        ProximalGradient("momentum"), Problem(problem.train, ElasticNet(lam=0.5, ridge=ridge), rank=5), seed=0
    )
    print(f"ridge {ridge:g}: NMSE {problem.nmse(result.factors.W, result.factors.H):.4f}, {result.message}")
