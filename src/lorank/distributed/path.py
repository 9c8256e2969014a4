"""A path of regularization weights, each fit starting from the last, that can be cut off at any sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lorank.distributed.problem import FolderProblem
from lorank.linalg import Factors
from lorank.solvers import Alternating, Callback, Checkpoint, Result, Stopping, solve
from lorank.solvers.result import History, Status

# A path that is not given goes down by this factor, at most so often.
DOWN, STEPS = 2.0, 10


@dataclass(frozen=True)
class Fitted:
    """The best fit of a path."""

    result: Result
    lam: float
    error: float


@dataclass(frozen=True)
class _Reached:
    """Factors of the last fit that is done and of the best one; how they came about is in the file's progress."""

    last: Factors
    best: Factors


def automatic_weights(problem: FolderProblem) -> Iterator[float]:
    """From the spectral norm that independent entries of this spread would have, by halves.

    A matrix of independent entries of deviation s has about s (sqrt(row entries) + sqrt(column entries)) as its
    largest singular value: a weight above it shrinks all that could be noise to zero.
    """
    m, n = problem.observations.shape
    top = problem.spread(problem.mean) * (np.sqrt(problem.nnz / m) + np.sqrt(problem.nnz / n))
    for step in range(STEPS):
        yield float(top or 1.0) / DOWN**step


def fit_path(
    problem: Callable[[float], FolderProblem],
    weights: Iterable[float],
    until_worse: bool,
    stopping: Stopping,
    held_out: Any,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    seed: int,
) -> Fitted:
    """Fits from the first weight on, each from the last one's factors; the best on the held-out entries.

    With `until_worse` the path ends where the held-out error rises. Beside the checkpoint of the fit that is running
    there is a file, .path, of those that are done, so that a path that was cut off neither repeats a fit nor changes a
    bit.
    """
    best: Fitted | None = None
    start, done, spent, cut_off = None, -1, 0.0, False
    reached = None if checkpoint is None else replace(checkpoint, path=Path(f"{checkpoint.path}.path"))
    if reached is not None and reached.exists():
        start, best, done, spent = _read(reached, problem(1.0))
    for number, weight in enumerate(weights):
        if number <= done:
            continue
        running = (
            None if checkpoint is None else replace(checkpoint, fingerprint={**checkpoint.fingerprint, "step": number})
        )
        limit = None if stopping.max_seconds is None else max(stopping.max_seconds - spent, 0.0)
        result = solve(
            Alternating(),
            problem(weight),
            start=start,
            stopping=replace(stopping, max_seconds=limit),
            validation=held_out,
            callbacks=callbacks,
            checkpoint=running,
            seed=seed,
        )
        found = Fitted(result, weight, _error(result))
        if best is None or found.error < best.error:
            best = found
        cut_off = was_cut_off(result, stopping.patience)
        if held_out is None or cut_off or (until_worse and found is not best):
            break
        start, spent = result.factors, spent + result.seconds
        if running is not None and reached is not None:
            # In this order: cut off between the two, one fit is done again.
            running.remove()
            _write(reached, number, start, best, spent)
    assert best is not None
    if checkpoint is not None and reached is not None and held_out is not None and not cut_off:
        reached.remove()
        checkpoint.remove()
    return best


def was_cut_off(result: Result, patience: int) -> bool:
    """Whether a fit was ended by Ctrl-C, a callback or the time, rather than by its own rules."""
    if result.status is not Status.EARLY_STOPPED:
        return result.status in (Status.INTERRUPTED, Status.TIME_LIMIT)
    # Stopped early for the validation error it has waited; otherwise a callback has asked for it.
    errors = np.array(result.history.validation, float)
    return not np.isfinite(errors).any() or len(errors) - 1 - int(np.nanargmin(errors)) < patience


def _error(result: Result) -> float:
    errors = np.array(result.history.validation, float)
    return float(np.nanmin(errors)) if np.isfinite(errors).any() else np.inf


def _write(file: Checkpoint, number: int, last: Factors, best: Fitted, spent: float) -> None:
    result = best.result
    state = _Reached(last, result.factors)
    about = {"objective": float(result.objective), "status": result.status.name, "message": result.message}
    about |= {"n_iter": result.n_iter, "seconds": result.seconds, "history": vars(result.history)}
    file.save(state, state, {"number": number, "spent": spent, "lam": best.lam, "error": best.error, "result": about})


def _read(file: Checkpoint, problem: FolderProblem) -> tuple[Factors, Fitted, int, float]:
    nothing = Factors(np.zeros((0, 0)), np.zeros((0, 0)), problem.rank, problem.biased)
    state, _, saved = file.load(_Reached(nothing, nothing))
    about = saved["result"]
    about |= {"status": Status[about["status"]], "history": History(**about["history"])}
    best = Fitted(Result(state.best, **about), saved["lam"], saved["error"])
    return state.last, best, saved["number"], saved["spent"]
