"""One cell of a table, that is one data set, method and seed: load, search, fit, measure; in a process of its own."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank import registry
from lorank.errors import InputError, MemoryLimitError
from lorank.estimators import MatrixCompletion
from lorank.experiments import data
from lorank.experiments.baselines import BASELINES
from lorank.experiments.settings import Cell
from lorank.kernels.parallel import available_cores
from lorank.linalg.factors import effective_rank
from lorank.observations import Observations
from lorank.registry import Method
from lorank.side_information.coordinates import sphere
from lorank.solvers import Progress, Status
from lorank.tuning.budgeted import budgeted_search, decades_to_edge
from lorank.tuning.path import lam_max

T = TypeVar("T")

# What a search calls the position of a graph or prior among those of the entry.
SIDE = "side"
# What a record says of a search.
SEARCHED = ("validation", "trials", "search_seconds", "edges", "out_of_time")
# Singular values above this part of the largest are not zero.
NUMERICAL = 1e-10
# A fit shorter than this is timed three times, and the median counts.
SHORT = 0.5


def run_cell(cell: Cell, folder: Path | None, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the record of this cell says besides its name; what cannot be done is a status and a reason.

    `like` is the record of the line that it takes its parameters from, if there is one; otherwise it searches as that
    line does, with the same result.
    """
    try:
        return _run(cell, folder, like)
    except InputError as error:
        # Where the data are is nobody else's business: records are for others to read.
        reason = str(error)
        for name in (folder, folder and folder.resolve()):
            reason = reason.replace(str(name), "the data folder") if name else reason
        return {"status": "skipped", "reason": reason}
    except (MemoryLimitError, MemoryError) as error:
        return {"status": "memory", "reason": str(error) or "Out of memory."}
    except Exception as error:  # a defect of one method must not end the run of the others
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}


def _run(cell: Cell, folder: Path | None, like: Mapping[str, Any] | None) -> dict[str, Any]:
    started = time.perf_counter()
    task = data.load(cell.dataset, cell.seed, folder)
    row: dict[str, Any] = {"status": "ok", "reason": ""}
    row |= _interpolate(cell, task) if cell.entry.method in BASELINES else _complete(cell, task, like)
    # On a busy machine processor time says what wall time does not.
    spent = {"wall": time.perf_counter() - started, "processor_seconds": time.process_time()}
    return row | spent | {"threads": available_cores()}


def _interpolate(cell: Cell, task: data.Task) -> dict[str, Any]:
    """A baseline: all its settings on the validation places, then the best of them once more, with the clock."""
    if task.places is None:
        raise InputError(f"Method {cell.entry.method!r} needs rows that are places.")
    points = sphere(task.places.latitude, task.places.longitude)
    baseline = BASELINES[cell.entry.method]
    errors = [data.rmse(baseline.fit(points, task.train, **s), task.validation) for s in baseline.settings]
    best = int(np.argmin(errors))
    before = reset_peak_memory()
    answer, seconds, share = _timed(lambda: baseline.fit(points, task.train, **baseline.settings[best]))
    peak = peak_memory()
    return {
        "validation": errors[best],
        "trials": len(errors),
        "parameters": dict(baseline.settings[best]),
        "seconds": share * seconds,
        "peak_mb": peak,
        "fit_mb": peak - before,
        "error": task.error(answer),
        "shape": list(task.train.shape),
        "entries": task.train.nnz,
    }


def _complete(cell: Cell, task: data.Task, like: Mapping[str, Any] | None) -> dict[str, Any]:
    """A method of the catalogue: its search, then the fit that is reported."""
    method, shapes = registry.find(cell.entry.method), cell.entry.shapes
    sides = cell.entry.sides if task.places is not None else ()
    if sides:
        shapes = tuple(product(shapes or method.shapes, range(len(sides))))
        method = _WithSides(**vars(method))
    common = {
        "tol": cell.budget.tol,
        "max_iter": cell.budget.max_iter,
        "random_state": cell.seed,
        **task.extra,
    }
    searched = {} if cell.entry.like else cell.entry.fixed
    # Made once, for all fits: the distances between all places are many.
    made = [task.places.side(side) for side in sides] if task.places is not None else []

    def complete(parameters: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
        given = {**common, **fixed, **method.arguments(parameters)}
        return given | {"row_side": made[given.pop(SIDE)]} if made else given

    warnings.simplefilter("ignore", ConvergenceWarning)
    if not made:
        # A graph belongs to all rows; its kernels are few and small.
        first = {"rank": 2, **method.at(1.0, (shapes or method.shapes)[0])}
        _warm_up(complete(first, cell.entry.fixed), task.train)

    def validation_error(parameters: Mapping[str, Any], seconds: float) -> float:
        limit = min(seconds, cell.budget.fit_seconds)
        model = MatrixCompletion(**complete(parameters, searched), max_seconds=limit).fit(task.train)
        if model.result_.status is Status.DIVERGED:
            return np.inf
        return data.rmse(model.result_.factors, task.validation)

    row: dict[str, Any] = {}
    if cell.dataset.timing_only:
        parameters = {"rank": cell.dataset.ranks[0], **method.at(data.UNTUNED_STRENGTH, method.shapes[0])}
    elif like is not None:
        parameters = like["parameters"]
        row |= {name: like[name] for name in SEARCHED}
    else:
        found = budgeted_search(
            validation_error,
            method,
            cell.dataset.ranks,
            lam_max(task.train, centred=False) / 2,
            cell.budget.trials,
            cell.budget.search_seconds,
            shapes,
            cell.entry.graph_range,
        )
        parameters = found.parameters
        row |= {"validation": found.error, "trials": len(found.trials), "search_seconds": found.seconds}
        row |= {"edges": decades_to_edge(found), "out_of_time": found.out_of_time}
    row |= _final_fit(cell, task, complete(parameters, cell.entry.fixed))
    described = {name: value for name, value in parameters.items() if name != SIDE}
    if made:
        described |= sides[parameters[SIDE]]
    return row | {"parameters": _plain(described)}


class _WithSides(Method):
    """A method with one of the sides as a part of its shape: a pair, so that a search goes through both."""

    def at(self, strength: float, shape: Any = ()) -> dict[str, Any]:
        return {**super().at(strength, shape[0]), SIDE: shape[1]}


def _final_fit(cell: Cell, task: data.Task, parameters: dict[str, Any]) -> dict[str, Any]:
    """The fit that is reported, from a fresh start: its time, memory, path and test error."""
    curve: list[tuple[float, float]] = []

    def measure(progress: Progress) -> None:
        # The clock stands still here. Every step at first, then ever fewer.
        if progress.iteration <= 10 or progress.iteration % (10 ** (len(str(progress.iteration)) - 1)) == 0:
            curve.append((progress.seconds, task.error(progress.factors)))

    before = reset_peak_memory()
    timing_only = cell.dataset.timing_only
    model = MatrixCompletion(**parameters, max_seconds=cell.budget.fit_seconds)
    _, _, share = _timed(lambda: model.fit(task.train, callbacks=() if timing_only else [measure]))
    peak = peak_memory()
    result = model.result_
    seconds = [share * result.seconds]
    if seconds[0] < SHORT:
        again = [_timed(lambda: MatrixCompletion(**parameters).fit(task.train)) for _ in range(2)]
        seconds += [part * other.result_.seconds for other, _, part in again]
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
        row |= {"status": "time-limit", "reason": f"The fit was stopped after {cell.budget.fit_seconds:g} s."}
    if timing_only:
        return row
    error = task.error(result.factors)
    curve.append((result.seconds, error))
    curve = [(share * seconds, error) for seconds, error in curve]
    sigma = model.singular_values_
    ranks = {"rank": effective_rank(sigma), "numerical_rank": int(np.sum(sigma > NUMERICAL * sigma.max(initial=0.0)))}
    row |= {"error": error, **ranks, "curve": _rounded(curve)}
    return row | ({} if task.floor is None else {"floor": task.floor})


def _timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """The answer, the seconds, and the part of them with a core: on a busy machine a cell also waits for its own.

    A cell has one core and one thread; where a process cannot be pinned it has more of both, and the part is 1.
    """
    started, processor = time.perf_counter(), time.process_time()
    answer = work()
    seconds = time.perf_counter() - started
    return answer, seconds, min(1.0, (time.process_time() - processor) / seconds)


def _warm_up(parameters: dict[str, Any], train: Observations) -> None:
    """Compile, or load compiled code, before any clock runs: on a corner of the data, with the same types."""
    some = np.zeros(train.nnz, bool)
    some[: min(train.nnz, 2000)] = True
    MatrixCompletion(**{**parameters, "max_iter": 2}).fit(train.subset(some))


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
