"""Fit a folder of Parquet files that no process holds: on Ray, or out of core in this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from lorank import registry
from lorank.distributed.exporting import ONE_FILE
from lorank.distributed.feature_tables import Tables
from lorank.distributed.folder_backend import FolderBackend, temporary
from lorank.distributed.folder_steps import FolderFit
from lorank.distributed.parts import COLS, ROWS
from lorank.distributed.prepare import prepare
from lorank.distributed.ray_backend import check_distributable
from lorank.errors import InputError
from lorank.estimators import MatrixCompletion
from lorank.estimators.parameters import DEFAULT_RANK, Parameters
from lorank.kernels.parallel import available_cores
from lorank.models import Model, shards
from lorank.solvers import Callback
from lorank.solvers.checkpoint import claimed
from lorank.tables import parquet
from lorank.tuning.held_out import SHARE
from lorank.tuning.setting import AUTO
from lorank.tuning.trial_log import OnTrial


def fit(
    folder: str | Path,
    *,
    row: str,
    col: str,
    value: str,
    weight: str | None = None,
    method: Any = AUTO,
    rank: int | str = AUTO,
    lam: float | Sequence[float] | str = AUTO,
    theta: float | str | None = AUTO,
    biases: bool | str = AUTO,
    features: str | None = AUTO,
    row_side: Any = None,
    col_side: Any = None,
    validation: float | None = None,
    tol: float = 1e-4,
    max_iter: int = 500,
    max_seconds: float | None = None,
    seed: int = 0,
    dtype: str = "float64",
    backend: str = "ray",
    address: str | None = None,
    workers: int = 2,
    threads: int = 1,
    work_folder: str | Path | None = None,
    checkpoint: str | Path | None = None,
    output: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    memory_budget: float | None = None,
    report: Callable[[str], Any] | None = None,
    on_trial: OnTrial | None = None,
) -> Model:
    """Fit all entries of a folder of Parquet files; the Model that comes back does not hold the entries.

    Parameters
    ----------
    folder : path of Parquet files, long tables with a row id, a column id and a value on each line
    row, col, value : names of those columns
    weight : name of a column of weights, if there is one: an entry of weight 2 counts twice
    method : "auto", "nnfn", "factored-nuclear", "mf", "bpmf", or a factored regularizer of one's own
        With "auto" the sample that lam is searched on says whether "nnfn" or "bpmf" predicts better; where lam is
        given it is "nnfn". The sampler "bpmf" keeps its draws in shards as well, as many as it would in memory.
    rank, theta, biases, tol, max_iter, max_seconds, dtype : as for MatrixCompletion
        What is "auto" is chosen where lam is, and is the method's own where lam is given: rank 10 without biases.
    features : "implicit", None or "auto"
        "implicit" gives who rated what to the sampler, as features of rows and columns; they take up to a kilobyte for
        each. With "auto" the sample says whether they help, and they are left out where a gigabyte over all workers
        has no room for them.
    row_side, col_side : DataFrame or FeatureTable, or several in a list, optional
        Features of rows and columns, whose lines are named by ids: the index of a DataFrame. Ids that it lacks are at
        the mean; ids that only it has become lines without entries, which are predicted. It stays in this process, and
        workers keep what it says of their lines, 4 (features + 1) bytes for each.
    lam : float, a sequence of them, or "auto"
        A sequence is gone through from the largest down, each fit starting from the last; the one with the smallest
        held-out error is kept. With "auto" the entries of some rows, 300,000 at most, are searched in memory first;
        theta and biases are taken from there, lam and the rank are tuned from there on all entries.
    validation : fraction of the entries to hold out, by a hash of their position, to choose by and for early stopping
        None for a tenth where something is chosen, which is then fitted with the rest, and else for none.
    backend : "ray", or "out-of-core" for this process alone, with memory-mapped blocks
    address : of a Ray cluster; None starts one on this machine
    workers, threads : actors, and threads in each; out of core, workers * threads threads
    work_folder : where the sorted blocks go, three times the size of the entries; on a cluster, storage that all nodes
        share. Removed at the end.
    checkpoint : path; a fit that was cut off goes on from its last sweep there and ends as if it had not been
    output : path; the model is saved there with what was seen, so that `recommend` can leave that out: as one file if
        the name ends in .lorank, or else as a folder of shards. Not after Ctrl-C, and not if the fit diverged. With a
        folder of shards the model that comes back reads from there; otherwise its factors and ids are in memory.
    memory_budget : bytes of the other factor's lines that a worker holds at a time; at least those that one part of its
        own lines needs. Under a small budget lines travel several times. None holds all that are needed.
    report : function of a text, called before the fit with what will travel in a sweep, in bytes and seconds
    on_trial : function of (done, expected), called after each trial on the sample
    """
    _check_numbers(workers, threads, seed, memory_budget)
    weights = _weights(lam)
    limits: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "max_seconds": max_seconds, "dtype": dtype}
    wanted: dict[str, Any] = {"method": method, "rank": rank, "theta": theta, "biases": biases, "features": features}
    wanted["lam"] = weights[0] if weights else AUTO
    plainly: dict[str, Any] = {"loss": "squared", "goal": "values"}
    cores = min(workers * threads, available_cores())
    asked = Parameters(**MatrixCompletion(**wanted, **limits, **plainly, n_jobs=cores).get_params(deep=False))
    named = {side: Tables.of(given, side) for side, given in ((ROWS, row_side), (COLS, col_side))}
    if not asked.any_method:
        check_distributable(registry.find(method), features, any(named.values()))
    searched = asked.automatic and len(weights) < 2
    held_out, refits = _held_out(asked, validation, searched or len(weights) > 1)
    if backend not in ("ray", "out-of-core"):
        raise InputError(f"backend must be 'ray' or 'out-of-core'; got {backend!r}.")
    if output is not None and Path(output).suffix != ONE_FILE:
        shards.check_target(Path(output))
    files, columns = parquet.parquet_files(folder), (row, col, value)
    read = columns if weight is None else (*columns, weight)
    entries = parquet.count_lines(files)
    about: dict[str, Any] = {"data": (files, entries, read), "rank": rank, "theta": theta, "lam": weights or lam}
    about |= {"method": AUTO if asked.any_method else registry.find(asked.method), "biases": biases}
    about |= {"features": features} | {f"features of {side}": str(known) for side, known in named.items()}
    about |= {"validation": held_out, "seed": seed, "dtype": dtype}
    least = DEFAULT_RANK if asked.rank == AUTO else int(asked.rank)
    budget = np.inf if memory_budget is None else memory_budget
    with claimed(checkpoint), temporary(work_folder) as own:
        where = FolderBackend(backend == "ray", workers, threads, own, dtype, budget, address)
        where.check_blocks(entries, len(read[2:]))
        with where.started(entries, least):
            where.check_nodes(files, entries, least)
            ids = {side: known.ids for side, known in named.items() if known is not None}
            prepared = prepare(files, read, own, dtype, held_out, seed, where.run, ids)
            m, n = prepared.shape
            rows, cols = (
                None if known is None else known.joined(prepared.positions[side], lines)
                for (side, known), lines in zip(named.items(), prepared.shape)
            )
            if asked.rank != AUTO and asked.rank > min(m, n):
                raise InputError(f"rank must be between 1 and {min(m, n)} for a matrix of {m} x {n}; got {rank}.")
            return FolderFit(
                asked=asked.for_shape((m, n)),
                weights=weights,
                searched=searched,
                held_out=held_out,
                refits=refits,
                entries=entries,
                seed=seed,
                backend=where,
                checkpoint=checkpoint,
                about=about,
                output=output,
                params={**wanted, "lam": lam, **limits},
                columns=columns,
                callbacks=callbacks,
                report=report,
                on_trial=on_trial,
                tables=(rows, cols),
                lost={f"{side[:3]}_side": str(known) for side, known in named.items() if known is not None},
            ).run(prepared)


def _check_numbers(workers: Any, threads: Any, seed: Any, budget: Any) -> None:
    """Refuse what no fit can be done with."""
    if not (isinstance(workers, Integral) and isinstance(threads, Integral)):
        raise InputError(f"workers and threads are whole numbers; got {workers!r} and {threads!r}.")
    if workers < 1 or threads < 1:
        raise InputError(f"At least one worker and one thread are needed; got {workers} and {threads}.")
    if not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"seed is a whole number of at least 0; got {seed!r}.")
    if budget is not None and not (isinstance(budget, Real) and float(budget) > 0):
        raise InputError(f"memory_budget is a number of bytes above 0, or None for no limit; got {budget!r}.")


def _weights(lam: float | Sequence[float] | str) -> list[float]:
    """lam where it is given, the largest first."""
    if isinstance(lam, str) and lam != AUTO:
        raise InputError(f"lam is a number, several, or 'auto'; got {lam!r}.")
    return [] if isinstance(lam, str) else sorted(np.atleast_1d(np.asarray(lam, float)).tolist(), reverse=True)


def _held_out(asked: Parameters, validation: float | None, chooses: bool) -> tuple[float, bool]:
    """The part of the entries that is held out, and whether it is fitted with the others in the end."""
    # A sampler draws what others choose.
    compares = chooses and (asked.any_method or not registry.find(asked.method).samples)
    if validation is None:
        return (SHARE, True) if compares else (0.0, False)
    if not validation and compares:
        raise InputError("To choose among several lam, held-out entries are needed: give validation, such as 0.05.")
    if not 0 <= validation < 1:
        raise InputError(f"validation is a fraction between 0 and 1; got {validation}.")
    return validation, False
