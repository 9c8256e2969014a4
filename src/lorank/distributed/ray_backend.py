"""The backend "ray" of MatrixCompletion: observations in memory, with the lines of the problem kept by Ray actors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lorank import registry
from lorank.distributed.cluster import open_ray
from lorank.distributed.problem import over_ray
from lorank.errors import InputError
from lorank.problems import Problem
from lorank.registry import Method
from lorank.side_information import Features
from lorank.solvers import Solver


@contextmanager
def backend(problem: Problem, solver: Solver, n_workers: int | None) -> Iterator[Problem]:
    """The problem with its lines in Ray actors, for the time of the block; two of them if their number is not given.

    Each has as many threads as the problem's n_jobs says, or one.
    """
    observations, rank = problem.observations, problem.rank
    workers, threads = n_workers or 2, max(problem.n_jobs or 1, 1)
    # The data by rows and by columns, and the factors that are on their way.
    store = 2 * observations.nnz * (observations.dtype.itemsize + 8) + 40 * (rank + 8) * sum(observations.shape)
    with open_ray(cpus=workers * threads, store_bytes=int(1.2 * store)):
        spread = over_ray(observations, problem.regularizer, rank, problem.bias_ridges, workers, threads)
        # The driver knows the features, and pulls lines toward where they expect them.
        spread = replace(spread, row_side=problem.row_side, col_side=problem.col_side)
        try:
            yield spread
        finally:
            spread.engine.close()


def check_distributable(method: Method, features: str | None, tables: bool = False) -> None:
    """Refuse a method that needs all entries of a folder in one process, or that does not take tables of features."""
    if not method.distributes:
        raise InputError(f"Method {method.name!r} runs on one machine only; folders take {registry.distributable()}.")
    if tables:
        method.build_solver("auto", (Features(None),))
    if features == "implicit" and not method.samples:
        raise InputError(f"Of a folder, who rated what goes with method 'bpmf' or 'auto', not with {method.name!r}.")
