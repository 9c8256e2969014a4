"""Regularizers compared: the synthetic problem of the paper, with twice its true rank allowed.

Each method is tuned by the same search on the same validation entries.
"""

import lorank
from lorank.datasets import synthetic

problem = synthetic(m=300, rank=5, seed=0)
table = lorank.compare(
    problem.train, ["nnfn", "factored-nuclear", "nuclear", "mf"], ranks=(10,), trials=10, budget=10, seed=0
)
print(table)
