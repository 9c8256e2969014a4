"""Imported by the server process of the runner alone: a tiny fit of each kind, so that cells find their code compiled.

On one thread: a process with threads cannot be forked safely.
"""

import warnings

from lorank.datasets import synthetic
from lorank.estimators import MatrixCompletion
from lorank.experiments import run_cell as run_cell

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for method in ("nnfn", "nnfn-prox", "nuclear"):
        MatrixCompletion(method, rank=2, lam=10.0, max_iter=2, random_state=0, n_jobs=1).fit(
            synthetic(m=60, rank=2).train
        )
