"""Where the lines of a problem are kept while it is solved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lorank.errors import InputError
from lorank.problems import Problem
from lorank.registry import CATALOGUE, Method


@contextmanager
def opened(backend: str, method: Method, solver: Any, problem: Problem) -> Iterator[Problem]:
    """The problem on its backend, for the time of the block."""
    if backend == "local":
        yield problem
        return
    if backend != "ray":
        raise InputError(f"backend must be 'local' or 'ray'; got {backend!r}.")
    check_distributable(method, solver)
    if problem.coupled or not problem.squared:
        raise InputError("Graphs, kernel priors and losses other than the squared one run on one machine only.")
    from lorank.distributed import open_ray, over_ray

    observations, rank, n_jobs = problem.observations, problem.rank, problem.n_jobs
    workers = n_jobs if n_jobs is not None and n_jobs > 0 else 2
    # The data by rows and by columns, and the factors that are on their way.
    store = 2 * observations.nnz * (observations.dtype.itemsize + 8) + 40 * (rank + 8) * sum(observations.shape)
    with open_ray(cpus=workers, store_bytes=int(1.2 * store)):
        spread = over_ray(observations, problem.regularizer, rank, problem.bias_weight, workers)
        try:
            yield spread
        finally:
            spread.engine.close()


def check_distributable(method: Method, solver: Any = "auto") -> None:
    """Refuse what needs all entries in one process."""
    if not method.distributes:
        able = ", ".join(name for name, other in CATALOGUE.items() if other.distributes)
        raise InputError(f"Method {method.name!r} runs on one machine only; those that need not are {able}.")
    if not method.build_solver(solver).distributes:
        raise InputError(f"The solver {solver!r} runs on one machine only; Ray runs 'alternating'.")
