"""A regularizer of your own: the elastic net of singular values, lam * sum_i (sigma_i + ridge/2 sigma_i^2).

A sum over singular values needs the penalty of each, the threshold up to which a proximal step sets them to 0, and the
proximal point above it. No solver knows a regularizer by name.
"""

from dataclasses import dataclass, field

import numpy as np

import lorank
from lorank.datasets import synthetic
from lorank.regularizers import Separable


@dataclass(frozen=True, kw_only=True)
class ElasticNet(Separable):
    """lam * sum_i (sigma_i + ridge/2 sigma_i^2)."""

    ridge: float = field(default=0.1, metadata={"search": (1e-3, 1e-2)})

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
    model = lorank.MatrixCompletion(ElasticNet(ridge=ridge), rank=5, lam=0.5, random_state=0).fit(problem.train)
    print(f"ridge {ridge:g}: NMSE {problem.nmse(*model.factors_):.4f}, {model.result_.message}")

# By name, in a comparison that chooses lam and ridge for it.
lorank.register(ElasticNet, name="elastic-net")
print(lorank.compare(problem.train, ["elastic-net", "nuclear", "nnfn"], ranks=(5,), trials=12))
