"""Fit a folder of Parquet files that no process holds: on Ray, or out of core in this one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lorank import registry
from lorank.distributed.actors import RayEngine, check_cluster
from lorank.distributed.calibrating import Scales, calibrate
from lorank.distributed.cluster import machine_number, open_ray, remove_stale, temporary_folder
from lorank.distributed.engines import Engine, LocalEngine
from lorank.distributed.exporting import export
from lorank.distributed.kept_draws import in_memory, posterior_in_memory
from lorank.distributed.nodes import check_nodes
from lorank.distributed.numbering import read_ids
from lorank.distributed.parts import COLS, HELD_OUT, ROWS, Part, seen_lines
from lorank.distributed.path import SAMPLE, FolderMethod, downward, fit_path, from_sample, search_sample
from lorank.distributed.prepare import Prepared, prepare
from lorank.distributed.problem import Elsewhere, FolderProblem
from lorank.distributed.ray_backend import check_distributable
from lorank.distributed.row_sample import row_sample
from lorank.distributed.sampling import ShardBPMF
from lorank.errors import InputError
from lorank.estimators import MatrixCompletion
from lorank.estimators.choosing import ALL_ROWS
from lorank.estimators.parameters import DEFAULT_RANK, Parameters
from lorank.files import refuse, url_of
from lorank.kernels.parallel import available_cores
from lorank.linalg.factors import padded_width
from lorank.memory import check_memory, free_memory
from lorank.models import Model, shards
from lorank.observations import Lines, Observations
from lorank.solvers import Alternating, Callback, Checkpoint, Status, Stopping
from lorank.solvers.checkpoint import claimed
from lorank.tables import parquet
from lorank.tuning.held_out import SHARE, setting_of
from lorank.tuning.setting import AUTO
from lorank.tuning.trial_log import OnTrial
from lorank.tuning.trials import CANDIDATE, Trials

# How the name of a model that is one file ends; any other name is that of a folder of shards.
ONE_FILE = ".lorank"
# Pairs of factors that are in files at a time: now, before, next, the best so far, and those on their way.
SHARD_FILES = 5


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
    lam : float, a sequence of them, or "auto"
        A sequence is gone through from the largest down, each fit starting from the last; the one with the smallest
        held-out error is kept. With "auto" the entries of some rows, 300,000 at most, are searched in memory first;
        theta and biases are taken from there, lam and the rank are tuned from there on all entries.
    validation : fraction of the entries to hold out, by a hash of their position, to choose by and for early stopping;
        None for a tenth where something is chosen, and else for none
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
    if isinstance(lam, str) and lam != AUTO:
        raise InputError(f"lam is a number, several, or 'auto'; got {lam!r}.")
    weights = [] if isinstance(lam, str) else sorted(np.atleast_1d(np.asarray(lam, float)).tolist(), reverse=True)
    limits: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "max_seconds": max_seconds, "dtype": dtype}
    wanted: dict[str, Any] = {"method": method, "rank": rank, "theta": theta, "biases": biases}
    wanted["lam"] = weights[0] if weights else AUTO
    plainly: dict[str, Any] = {"loss": "squared", "features": None, "goal": "values"}
    cores = min(workers * threads, available_cores())
    asked = Parameters(**MatrixCompletion(**wanted, **limits, **plainly, n_jobs=cores).get_params(deep=False))
    if not asked.any_method:
        check_distributable(registry.find(method))
    searched = asked.automatic and len(weights) < 2
    samples = not asked.any_method and registry.find(method).samples
    # A sampler draws what others choose.
    compares = not samples and (searched or len(weights) > 1)
    if validation is None:
        validation = SHARE if compares else 0.0
    if not validation and compares:
        raise InputError("To choose among several lam, held-out entries are needed: give validation, such as 0.05.")
    if not 0 <= validation < 1:
        raise InputError(f"validation is a fraction between 0 and 1; got {validation}.")
    if backend not in ("ray", "out-of-core"):
        raise InputError(f"backend must be 'ray' or 'out-of-core'; got {backend!r}.")
    if workers < 1 or threads < 1:
        raise InputError(f"At least one worker and one thread are needed; got {workers} and {threads}.")
    if output is not None and Path(output).suffix != ONE_FILE:
        shards.check_target(Path(output))
    files, columns = parquet.parquet_files(folder), (row, col, value)
    read = columns if weight is None else (*columns, weight)
    entries = parquet.count_lines(files)
    # Factors of both sides on their way; ids are not known yet, so every entry's row might be new.
    # The store takes memory as it fills, and a factor that it has no room for goes by way of the disk.
    least = DEFAULT_RANK if asked.rank == AUTO else int(asked.rank)
    store = min(max(1 << 30, free_memory() // 4), 16 * entries * padded_width(least))
    on_ray = backend == "ray"
    with claimed(checkpoint), _temporary(work_folder) as own:
        # Entries by rows and by columns on their way, and one side.
        size = np.dtype(dtype).itemsize
        _check_disk(own, f"The blocks of {entries} entries", entries * (3 * size * len(read[2:]) + 20))
        with open_ray(address, workers * threads, store) if on_ray else nullcontext():
            if on_ray:
                check_cluster((0, 0), entries, least, dtype, workers, threads)
                check_nodes([path for path in files if url_of(path) is None], str(own))
            prepared = prepare(files, read, own, dtype, validation, seed, _on_ray if on_ray else _in_turn)
            m, n = prepared.shape
            if asked.rank != AUTO and asked.rank > min(m, n):
                raise InputError(f"rank must be between 1 and {min(m, n)} for a matrix of {m} x {n}; got {rank}.")
            asked = asked.for_shape((m, n))

            def check_room(k: int, drawn: int = 0) -> None:
                if on_ray:
                    check_cluster((m, n), entries, k, dtype, workers, threads)
                    pairs = SHARD_FILES * (m + n) * padded_width(k) * size
                    _check_disk(own, f"Factors of {m} x {n}", pairs + 2 * drawn)

            with _engine(prepared, on_ray, workers, threads, own, memory_budget or np.inf) as engine:
                known = AUTO if asked.any_method else registry.find(asked.method)
                about: dict[str, Any] = {"data": (files, entries, read), "method": known, "rank": rank, "theta": theta}
                about |= {"lam": weights or lam, "biases": biases, "validation": validation}
                about |= {"seed": seed, "dtype": dtype}
                saved = (
                    None
                    if checkpoint is None
                    else Checkpoint(Path(checkpoint), about, seconds=5.0, load_shards=engine.load_shards)
                )
                nothing: Any = Elsewhere(prepared.shape, np.dtype(dtype), sum(engine.entries[ROWS]))
                plain = FolderProblem(nothing, None, 1, engine=engine)
                tried, setting, named = Trials([]), None if searched else asked.setting, {}
                if searched:
                    sample = row_sample(engine, (m, n), plain.total, SAMPLE, seed)
                    asked, found, noise = search_sample(asked, sample, seed, saved, on_trial)
                    tried, k = found.trials, max(found.parameters["rank"], 1)
                    check_room(k)
                    most = _largest(k, min(m, n), check_room) if sample.nnz < plain.total else None
                    del sample
                    if registry.find(asked.method).samples:
                        setting = setting_of(found.parameters)
                        named = {CANDIDATE: f"{found.parameters[CANDIDATE]}{ALL_ROWS}"}
                    else:
                        strategy = from_sample(asked, found, plain.noise_norm / noise, nothing, most)
                chosen = registry.find(asked.method)
                sampler = ShardBPMF()
                if setting is not None:
                    k = setting.rank
                    check_room(k, sampler.kept_bytes((m, n), k, setting.biases) if chosen.samples else 0)
                    strategy = downward(weights if weights and chosen.tunes else [None], setting, named)
                if isinstance(engine, RayEngine):
                    plan = engine.prepare(padded_width(k) * np.dtype(dtype).itemsize)
                    if report is not None:
                        report(plan.describe(entries, m + n, k, workers * threads))
                fitting = FolderMethod(chosen, plain, searched)
                held_out = HELD_OUT if validation else None
                stopping = Stopping(tol, max_iter, asked.within(tried.seconds).max_seconds)
                solver = sampler if chosen.samples else Alternating()
                fitted = fit_path(solver, fitting.problem, strategy, stopping, held_out, callbacks, saved, seed)
                setting = fitting.complete(setting_of(fitted.parameters))
                if validation and (searched or len(weights) > 1):
                    tried = Trials([*(replace(trial, chosen=False) for trial in tried), *fitted.trials])
                model = Model(
                    result=fitted.result,
                    setting=setting,
                    params={**wanted, "method": chosen, "lam": setting.lam if weights else lam, **limits},
                    entries=sum(part.entries for part in prepared.sides[ROWS]),
                    mean=plain.mean,
                    columns=columns,
                    sigma=plain.singular_values(fitted.result.summary),
                    trials=tuple(tried.rows()),
                )
                whole = fitted.result.status not in (Status.INTERRUPTED, Status.DIVERGED)
                measured = bool(validation) and whole and fitted.result.posterior is None
                scales = calibrate(plain, fitted.result.factors, seed) if measured else None
                return _placed(engine, model, prepared, scales, own, output if whole else None)


def _largest(rank: int, most: int, check: Callable[[int], None]) -> int:
    """The largest rank that comes of doubling and that the check lets pass."""
    try:
        while 2 * rank <= most:
            check(2 * rank)
            rank *= 2
    except InputError:
        pass
    return rank


def _placed(
    engine: Engine, model: Model, prepared: Prepared, scales: Scales | None, work: Path, output: str | Path | None
) -> Model:
    """Save a model that is still with the engine, if it is to be saved; the model as it is given back.

    Its factors and ids are read from the folder of shards that was written; if there is none, they are in memory.
    """
    result, ids = model.result, prepared.ids
    if output is not None and Path(output).suffix != ONE_FILE:
        export(engine, model, result.factors, ids, scales, work / "model", output)
        there = shards.read(output)
        result = replace(result, factors=there.factors, posterior=there.posterior)
        model = replace(model, result=result, calibration=there.calibration)
        return replace(model, row_ids=there.row_ids, col_ids=there.col_ids)
    if result.posterior is None:
        result = replace(result, factors=in_memory(engine, result.factors))
    else:
        posterior = posterior_in_memory(engine, result.posterior)
        result = replace(result, factors=posterior.mean, posterior=posterior)
    calibration = None if scales is None else scales.calibration(engine)
    model = replace(model, result=result, calibration=calibration)
    model = replace(model, row_ids=read_ids(ids[ROWS]), col_ids=read_ids(ids[COLS]))
    if output is not None:
        _save_one_file(model, output, prepared.sides)
    return model


def _save_one_file(model: Model, path: str | Path, sides: Mapping[str, Sequence[Part]]) -> None:
    """Save a model with the blocks that it was fitted on, as one file."""
    size = model.entries * (model.factors.dtype.itemsize + 4)
    check_memory(3 * size, f"{model.entries} entries in one file", "save a folder of shards instead")
    pieces = [piece for _, _, piece in seen_lines(sides[ROWS], sides.get(HELD_OUT))]
    counts = np.concatenate([np.diff(piece.pointers) for piece in pieces])
    names = ("indices", "values") if pieces[0].weights is None else ("indices", "values", "weights")
    indices, values, *weights = (np.concatenate([getattr(piece, part) for piece in pieces]) for part in names)
    lines = Lines(np.concatenate([[0], np.cumsum(counts)]), indices, values, *weights)
    seen = Observations(model.shape, lines, model.row_ids, model.col_ids)
    replace(model, observations=seen, range=(float(values.min()), float(values.max()))).save(path)


def _check_disk(folder: Path, what: str, needed: int) -> None:
    """Refuse a work folder that what is to be written there does not fit in."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"{what} need about {needed / 2**30:.1f} GiB and {folder.parent} has {free / 2**30:.1f} GiB free; give a "
            "larger work folder."
        )


@contextmanager
def _engine(
    prepared: Prepared, on_ray: bool, workers: int, threads: int, folder: Path, budget: float
) -> Iterator[Engine]:
    engine: Engine
    if on_ray:
        engine = RayEngine(prepared.sides, workers, threads, str(folder), budget)
    else:
        engine = LocalEngine(prepared.sides, workers * threads, budget)
    engine.rebuild = prepared.rebuild
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _temporary(parent: str | Path | None) -> Iterator[Path]:
    if parent is not None:
        refuse(parent, "The work folder")
    if parent is not None and not Path(parent).is_dir():
        raise InputError(f"The work folder {parent} does not exist; make it first.")
    kind = f"lorank-blocks-{machine_number()}"
    remove_stale(kind, parent)
    with temporary_folder(kind, parent) as folder:
        yield folder


def _in_turn(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [function(*job) for job in jobs]


def _on_ray(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run each job as a Ray task; one whose process is killed runs again.

    If one fails, those that have begun end before its error is raised, so that none writes into a folder that is being
    removed. They are not cancelled: a task that ends while it is being cancelled aborts the driver's process (Ray 2.60:
    "Tried to complete task that was not pending"). Hence also no more tasks at a time than there are CPUs.
    """
    import ray
    from ray.exceptions import RayTaskError

    task: Any = ray.remote(function).options(max_retries=20, num_cpus=1)
    cpus = max(int(ray.cluster_resources().get("CPU", 1)), 1)  # type: ignore[no-untyped-call]
    answers: list[Any] = [None] * len(jobs)
    running: dict[Any, int] = {}
    try:
        for number, job in enumerate(jobs):
            running[task.remote(*job)] = number
            while len(running) >= (cpus if number + 1 < len(jobs) else 1):
                (ready,), _ = ray.wait(list(running), num_returns=1)
                answers[running.pop(ready)] = ray.get(ready)
        return answers
    except BaseException as error:
        if running:
            ray.wait(list(running), num_returns=len(running), timeout=60)
        cause = error.cause if isinstance(error, RayTaskError) else None
        raise (cause if isinstance(cause, InputError) else error) from None
