"""One cell: load, search, fit, measure. It runs in a process of its own, which says what it found as a dictionary."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank import catalogue
from lorank.errors import InputError, MemoryLimitError
from lorank.estimators import MatrixCompletion
from lorank.estimators.searching import search
from lorank.estimators.tuning import lam_max
from lorank.experiments import tasks
from lorank.experiments.settings import Cell
from lorank.kernels.parallel import available_cores
from lorank.linalg.factors import effective_rank
from lorank.observations import Observations
from lorank.solvers import Progress, Status

# A fit shorter than this is timed three times, and the median counts.
SHORT = 0.5


def run_cell(cell: Cell, folder: Path | None) -> dict[str, Any]:
    """What the record of this cell says besides its name; what cannot be done is a status and a reason."""
    try:
        return _run(cell, folder)
    except InputError as error:
        return {"status": "skipped", "reason": str(error)}
    except (MemoryLimitError, MemoryError) as error:
        return {"status": "memory", "reason": str(error) or "Out of memory."}
    except Exception as error:  # a defect of one method must not end the run of the others
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}


def _run(cell: Cell, folder: Path | None) -> dict[str, Any]:
    method = catalogue.find(cell.entry.method)
    started = time.perf_counter()
    task = tasks.load(cell.dataset, cell.seed, folder)
    common = {
        "method": method.name,
        "tol": cell.budget.tol,
        "max_iter": cell.budget.max_iter,
        "random_state": cell.seed,
        **task.extra,
        **cell.entry.fixed,
    }
    warnings.simplefilter("ignore", ConvergenceWarning)
    _warm_up(common, task.train)

    def validation_error(parameters: Mapping[str, Any], seconds: float) -> float:
        model = MatrixCompletion(**{**common, **parameters}, max_seconds=seconds).fit(task.train)
        if model.result_.status is Status.DIVERGED:
            return np.inf
        return tasks.rmse(model.result_.factors, task.validation)

    row: dict[str, Any] = {"status": "ok", "reason": ""}
    if cell.dataset.timing_only:
        parameters = {"rank": cell.dataset.ranks[0], **method.at(tasks.UNTUNED_STRENGTH, method.shapes[0])}
    else:
        found = search(
            validation_error,
            method,
            cell.dataset.ranks,
            lam_max(task.train, centred=False) / 2,
            cell.budget.trials,
            cell.budget.search_seconds,
            cell.entry.shapes,
            task.graph_weights,
        )
        parameters = found.parameters
        row |= {"validation": found.validation, "trials": found.trials, "search_seconds": found.seconds}
        if found.out_of_time:
            row["reason"] = f"The search was out of time after {found.trials} of {cell.budget.trials} trials."
    row |= _final_fit(cell, task, {**common, **parameters})
    # On a busy machine processor time says what wall time does not.
    spent = {"wall": time.perf_counter() - started, "processor_seconds": time.process_time()}
    return row | spent | {"parameters": _plain(parameters), "threads": available_cores()}


def _final_fit(cell: Cell, task: tasks.Task, parameters: dict[str, Any]) -> dict[str, Any]:
    """The fit that is reported, from a fresh start: its time, memory, path and test error."""
    curve: list[tuple[float, float]] = []

    def measure(progress: Progress) -> None:
        # The clock stands still here. Every step at first, then ever fewer.
        if progress.iteration <= 10 or progress.iteration % (10 ** (len(str(progress.iteration)) - 1)) == 0:
            curve.append((progress.seconds, task.error(progress.factors)))

    before = reset_peak_memory()
    timing_only = cell.dataset.timing_only
    model = MatrixCompletion(**parameters, max_seconds=cell.budget.cell_seconds / 2)
    model.fit(task.train, callbacks=() if timing_only else [measure])
    peak = peak_memory()
    seconds = [model.result_.seconds]
    if seconds[0] < SHORT:
        seconds += [MatrixCompletion(**parameters).fit(task.train).result_.seconds for _ in range(2)]
    result = model.result_
    row: dict[str, Any] = {
        "seconds": float(np.median(seconds)),
        "peak_mb": peak,
        "fit_mb": peak - before,
        "iterations": result.n_iter,
        "solver_status": result.status.name,
        "shape": list(task.train.shape),
        "entries": task.train.nnz,
    }
    if result.status is Status.DIVERGED:
        return row | {"status": "failed", "reason": result.message}
    if result.status is Status.TIME_LIMIT:
        row |= {"status": "time-limit", "reason": result.message}
    if timing_only:
        return row
    error = task.error(result.factors)
    curve.append((result.seconds, error))
    row |= {"error": error, "rank": effective_rank(model.singular_values_), "curve": _rounded(curve)}
    return row | ({} if task.floor is None else {"floor": task.floor})


def _warm_up(parameters: dict[str, Any], train: Observations) -> None:
    """Compile, or load compiled code, before any clock runs: on a corner of the data, with the same types."""
    if "row_graph" in parameters:
        return  # a graph belongs to all rows; its kernels are few and small
    some = np.zeros(train.nnz, bool)
    some[: min(train.nnz, 2000)] = True
    MatrixCompletion(**{**parameters, "rank": 2, "max_iter": 2}).fit(train.subset(some))


def _rounded(curve: list[tuple[float, float]]) -> list[list[float]]:
    return [[float(f"{seconds:.5g}"), float(f"{error:.7g}")] for seconds, error in curve]


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as Python's, for JSON."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}


def reset_peak_memory() -> float:
    """Begin the count of the highest memory anew, where the system can; what is held now, in megabytes."""
    with suppress(OSError):  # the peak then includes what came before: still true, only higher
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> float:
    """Highest resident memory of this process since the last reset, in megabytes."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
