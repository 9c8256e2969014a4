"""Fit a folder of Parquet files that no process holds: on Ray, or out of core in this one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lorank import catalogue
from lorank.distributed import tables
from lorank.distributed.model import DistributedModel
from lorank.distributed.preparing import Prepared, prepare
from lorank.distributed.problem import HELD_OUT, Engine, FolderProblem, Here
from lorank.distributed.session import open_ray, remove_stale, workspace
from lorank.errors import InputError
from lorank.linalg.factors import padded_width
from lorank.observations import Lines, Observations
from lorank.solvers import Alternating, Callback, Checkpoint, Result, Stopping, solve


def fit(
    folder: str | Path,
    *,
    row: str,
    col: str,
    value: str,
    method: str = "nnfn",
    rank: int = 10,
    lam: float | Sequence[float] = 10.0,
    theta: float | None = None,
    biases: bool = False,
    validation: float = 0.0,
    tol: float = 1e-4,
    max_iter: int = 500,
    seed: int = 0,
    dtype: str = "float64",
    backend: str = "ray",
    address: str | None = None,
    workers: int = 2,
    threads: int = 1,
    work_folder: str | Path | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> DistributedModel:
    """Fit all entries of a folder of Parquet files.

    Parameters
    ----------
    folder : path of Parquet files, long tables with a row id, a column id and a value on each line
    row, col, value : names of those columns
    method : "nnfn", "factored-nuclear" or "mf"
    rank, theta, biases, tol, max_iter, dtype : as for MatrixCompletion
    lam : float or a sequence of them
        A sequence is gone through from the largest down, each fit starting from the last; the one with the smallest
        held-out error is kept, which needs `validation`.
    validation : fraction of the entries to hold out for early stopping, by a hash of their position
    backend : "ray", or "out-of-core" for this process alone, with memory-mapped blocks
    address : of a Ray cluster; None starts one on this machine
    workers, threads : actors, and threads in each; out of core, workers * threads threads
    work_folder : where the sorted blocks go, three times the size of the entries; on a cluster, storage that all nodes
        share. Removed at the end.
    checkpoint : path; a fit that was cut off goes on from its last sweep there and ends as if it had not been
    """
    chosen = catalogue.find(method)
    if type(chosen.build_solver("auto")) is not Alternating:  # its subclasses need all entries at once
        raise InputError(
            f"Method {method!r} runs on one machine only; folders can be fitted by nnfn, factored-nuclear and mf."
        )
    weights = sorted(np.atleast_1d(np.asarray(lam, float)).tolist(), reverse=True)
    if len(weights) > 1 and not validation:
        raise InputError("To choose among several lam, held-out entries are needed: give validation, such as 0.05.")
    if not 0 <= validation < 1:
        raise InputError(f"validation is a fraction between 0 and 1; got {validation}.")
    if backend not in ("ray", "out-of-core"):
        raise InputError(f"backend must be 'ray' or 'out-of-core'; got {backend!r}.")
    files, columns = tables.parquet_files(folder), tables.Columns(row, col, value)
    entries = tables.count_lines(files)
    # Factors of both sides on their way; ids are not known yet, so every entry's row might be new.
    store = min(1 << 30, 16 * entries * padded_width(rank))
    on_ray = backend == "ray"
    with (
        _temporary(work_folder) as own,
        open_ray(address, workers * threads, store) if on_ray else nullcontext(),
    ):
        if on_ray:
            from lorank.distributed.crew import check_cluster

            check_cluster((0, 0), entries, rank, dtype, workers, threads)
        prepared = prepare(files, columns, own, dtype, validation, seed, _on_ray if on_ray else _here)
        m, n = prepared.shape
        if not 1 <= rank <= min(m, n):
            raise InputError(f"rank must be between 1 and {min(m, n)} for a matrix of {m} x {n}; got {rank}.")
        if on_ray:
            check_cluster(prepared.shape, entries, rank, dtype, workers, threads)
        with _engine(prepared, on_ray, workers, threads) as engine:
            frame = Lines(np.zeros(m + 1, np.int64), np.empty(0, np.int32), np.empty(0, dtype))
            nothing = Observations(prepared.shape, frame, prepared.row_ids, prepared.col_ids)

            def problem(weight: float) -> FolderProblem:
                regularizer = chosen.build_regularizer(lam=weight, theta=theta)
                return FolderProblem(nothing, regularizer, rank, weight if biases else None, engine=engine)

            about = {"data": (files, entries, columns), "method": method, "rank": rank, "lam": weights, "theta": theta}
            about |= {"biases": biases, "validation": validation, "seed": seed, "dtype": dtype}
            saved = None if checkpoint is None else Checkpoint(Path(checkpoint), about, seconds=5.0)
            held_out: Any = HELD_OUT if validation else None
            result, best = _path(problem, weights, Stopping(tol, max_iter), held_out, callbacks, saved, seed)
    return DistributedModel(result, prepared.row_ids, prepared.col_ids, best)


def _path(
    problem: Callable[[float], FolderProblem],
    weights: Sequence[float],
    stopping: Stopping,
    held_out: Any,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    seed: int,
) -> tuple[Result, float]:
    """Fits from the largest weight down, each from the last one's factors; the best on the held-out entries."""
    best: tuple[float, Result, float] | None = None
    start = None
    for number, weight in enumerate(weights):
        saved = checkpoint
        if checkpoint is not None and len(weights) > 1:
            saved = replace(checkpoint, path=Path(f"{checkpoint.path}.{number}"))
        result = solve(
            Alternating(),
            problem(weight),
            start=start,
            stopping=stopping,
            validation=held_out,
            callbacks=callbacks,
            checkpoint=saved,
            seed=seed,
        )
        error = float(np.nanmin(result.history.validation)) if held_out and len(result.history) else 0.0
        if best is None or error < best[0]:
            best = error, result, weight
        start = result.factors
    assert best is not None
    return best[1], best[2]


@contextmanager
def _engine(prepared: Prepared, on_ray: bool, workers: int, threads: int) -> Iterator[Engine]:
    engine: Engine
    if on_ray:
        from lorank.distributed.crew import Crew

        engine = Crew(prepared.sides, workers, threads)
    else:
        engine = Here(prepared.sides, workers * threads)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _temporary(parent: str | Path | None) -> Iterator[Path]:
    if parent is not None and not Path(parent).is_dir():
        raise InputError(f"The work folder {parent} does not exist; make it first.")
    remove_stale("lorank-blocks", parent)
    folder = workspace("lorank-blocks", parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _here(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [function(*job) for job in jobs]


def _on_ray(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    """One Ray task a job; one whose process is killed runs again."""
    import ray
    from ray.exceptions import RayTaskError

    task: Any = ray.remote(function).options(max_retries=20, num_cpus=1)
    try:
        return ray.get([task.remote(*job) for job in jobs])
    except RayTaskError as error:
        raise (error.cause if isinstance(error.cause, InputError) else error) from None
