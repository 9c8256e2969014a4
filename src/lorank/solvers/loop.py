"""The loop, the clock and the reasons to stop: written once, for every solver.

A solver gives `init` and `step`; a step takes a state to the next one. States are dataclasses of arrays and plain
numbers, so that a checkpoint is just their fields.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import BaseProblem, SensingProblem
from lorank.solvers.base import Solver, State
from lorank.solvers.checkpoint import Checkpoint
from lorank.solvers.result import History, Result, Status


@dataclass(frozen=True)
class Progress:
    """What callbacks see after each iteration."""

    iteration: int
    seconds: float
    objective: float
    rank: int
    validation: float
    factors: Factors


Callback = Callable[[Progress], bool | None]

# After these a checkpoint stays, to go on from.
_RESUMABLE = (Status.EARLY_STOPPED, Status.INTERRUPTED, Status.TIME_LIMIT, Status.MAX_ITER)
# What to do about a fit that did not end by its own criterion.
_ADVICE = {
    Status.MAX_ITER: "raise the limit or tol",
    Status.TIME_LIMIT: "raise the limit or tol",
    Status.DIVERGED: "scale the data or raise lam",
}


@dataclass(frozen=True)
class Stopping:
    """When to end: relative change of F under tol, or a limit; with a validation set, also `patience` iterations
    without a better validation error. A solver that samples says itself when it has drawn enough."""

    tol: float = 1e-4
    max_iter: int = 500
    max_seconds: float | None = None
    patience: int = 5


@dataclass
class _Best:
    """The iterate that is given back: the last one, or the best on the validation set."""

    state: Any
    iteration: int = 0
    error: float = np.inf


@dataclass
class _Clock:
    """Seconds spent solving, across interruptions."""

    before: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    def read(self) -> float:
        return self.before + time.perf_counter() - self.started

    def pause(self) -> None:
        self.before = self.read()

    def resume(self) -> None:
        self.started = time.perf_counter()


def solve(
    solver: Solver,
    problem: BaseProblem | SensingProblem,
    *,
    start: Factors | None = None,
    stopping: Stopping | None = None,
    validation: Observations | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    seed: int | None = None,
) -> Result:
    """Run a solver on a problem until it is done.

    Ctrl-C ends the fit with the best point so far; a callback that returns True does the same.
    """
    stopping = stopping or Stopping()
    solver.check(problem)
    if isinstance(problem, BaseProblem):
        # Compiled code trusts that factors and entries are of the same matrix.
        given: Any
        for given, what in ((start, "A start"), (validation, "A validation set")):
            if hasattr(given, "shape") and given.shape != problem.observations.shape:
                m, n = problem.observations.shape
                raise InputError(f"{what} is of a {given.shape[0]} x {given.shape[1]} matrix; {m} x {n} is needed.")
        if problem.coupled and problem.biased:
            return _level_first(solver, problem, start, stopping, validation, callbacks, checkpoint, seed)
    solver = solver.planned(stopping.max_iter)
    with problem.running():
        return _iterate(solver, problem, start, stopping, validation, callbacks, checkpoint, seed)


def _level_first(
    solver: Solver,
    problem: BaseProblem,
    start: Factors | None,
    stopping: Stopping,
    validation: Observations | None,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    seed: int | None,
) -> Result:
    """Offset and biases by empirical Bayes, then the graph or kernel on what they leave.

    A graph ties rows of X, and rows of different levels are not alike: what it says is said of the rest.
    """
    if solver.samples:
        raise InputError("The sampler draws no biases beside a graph or a kernel prior; give biases=False.")
    level = problem.offsets_alone()

    def whole(factors: Factors) -> Factors:
        return Factors.of(factors.W, factors.H, level.row_bias, level.col_bias, level.offset)

    def left(entries: Observations) -> Observations:
        return entries.with_values(entries.values - level.predict(entries.rows, entries.cols).astype(entries.dtype))

    def shown(callback: Callback) -> Callback:
        return lambda progress: callback(replace(progress, factors=whole(progress.factors)))

    result = solve(
        solver,
        replace(problem, observations=left(problem.observations), bias_ridges=None),
        start=None if start is None else Factors.of(start.W, start.H),
        stopping=stopping,
        validation=None if validation is None else left(validation),
        callbacks=[shown(callback) for callback in callbacks],
        checkpoint=checkpoint,
        seed=seed,
    )
    return replace(result, factors=whole(result.factors))


def _iterate(
    solver: Solver,
    problem: BaseProblem | SensingProblem,
    start: Factors | None,
    stopping: Stopping,
    validation: Observations | None,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    seed: int | None,
) -> Result:
    clock = _Clock()
    history = History()
    try:
        state = solver.init(problem, start, seed)
    except np.linalg.LinAlgError as reason:
        raise InputError(f"The fit cannot start ({reason}); {_ADVICE[Status.DIVERGED]}.") from None
    best = _Best(state)
    iteration, ended = 0, None
    if checkpoint is not None and checkpoint.exists():
        state, best_state, saved = checkpoint.load(state)
        history, iteration = History(**saved["history"]), saved["iteration"]
        best = _Best(best_state, saved["best_iteration"], saved["best_error"])
        clock.before = saved["seconds"]
        # It may have been cut off at the very iteration after which it would have ended.
        ended = _own_end(solver, stopping, state, history.change, best, iteration, validation)
    status, message = Status.MAX_ITER, f"Stopped at the limit of {stopping.max_iter} iterations."
    if solver.samples:
        status, message = Status.SAMPLED, f"Made {stopping.max_iter} sweeps."
    if ended is not None:
        status, message = ended
    done = state, best, iteration
    try:
        while ended is None and iteration < stopping.max_iter:
            try:
                following = solver.step(problem, state)
            except (FloatingPointError, np.linalg.LinAlgError):
                following = None
            iteration += 1
            if following is None or not (np.isfinite(following.objective) and following.factors.is_finite()):
                status = Status.DIVERGED
                message = (
                    f"Diverged at iteration {iteration}: the objective is not finite; the last finite point is kept."
                )
                break
            change = abs(state.objective - following.objective) / max(abs(state.objective), 1e-300)
            state = following
            clock.pause()
            error = np.nan
            if validation is not None:
                state, error = solver.validated(problem, state, validation)
            if validation is None or solver.samples or error < best.error:
                best = _Best(state, iteration, error)
            history.append(iteration, clock.before, state.objective, state.rank, error)
            done = state, best, iteration  # at once, so that an interrupt finds all of an iteration or nothing
            progress = Progress(iteration, clock.before, state.objective, state.rank, error, state.factors)
            answers = [callback(progress) for callback in callbacks]
            if checkpoint is not None:
                checkpoint.offer(state, best.state, _progress_of(history, iteration, best, clock))
            ended = _reason(solver, stopping, state, change, best, iteration, validation, any(answers), clock.before)
            if ended is not None:
                status, message = ended
                break
            clock.resume()
    except KeyboardInterrupt:
        state, best, iteration = done
        history = history.until(iteration)
        status, message = (
            Status.INTERRUPTED,
            f"Interrupted after {iteration} iterations; the best point so far is kept.",
        )
    if checkpoint is not None:
        if status in _RESUMABLE:
            checkpoint.save(state, best.state, _progress_of(history, iteration, best, clock))
        elif status is not Status.DIVERGED:
            checkpoint.remove()
    remark = solver.remark(best.state)
    message = f"{message} {remark}" if remark else message
    if status in _ADVICE:
        # Here and not above: it takes a second, of every worker, and of `predict`, which never come here.
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(f"{message} To mend it, {_ADVICE[status]}.", ConvergenceWarning, stacklevel=_callers_level())
    seconds = history.seconds[-1] if history.seconds else clock.before
    posterior = solver.posterior(problem, best.state)
    factors = solver.finish(problem, best.state) if posterior is None else posterior.mean
    return Result(factors, float(best.state.objective), status, message, iteration, seconds, history, posterior)


def _reason(
    solver: Solver,
    stopping: Stopping,
    state: State,
    change: float,
    best: _Best,
    iteration: int,
    validation: Observations | None,
    asked: bool,
    seconds: float,
) -> tuple[Status, str] | None:
    """Why the fit is to end after this iteration, if it is; `asked` if a callback wants it."""
    ended = _own_end(solver, stopping, state, change, best, iteration, validation)
    if ended is not None:
        return ended
    if asked:
        return Status.EARLY_STOPPED, f"A callback stopped it at iteration {iteration}."
    complete = solver.samples and iteration == stopping.max_iter
    if stopping.max_seconds is not None and seconds >= stopping.max_seconds and not complete:
        limit = f"Stopped at the limit of {stopping.max_seconds:g} s after {iteration} iterations."
        return Status.TIME_LIMIT, limit
    return None


def _own_end(
    solver: Solver,
    stopping: Stopping,
    state: State,
    change: float,
    best: _Best,
    iteration: int,
    validation: Observations | None,
) -> tuple[Status, str] | None:
    """Why the fit has come to its own end, if it has, whoever watches and however long it took."""
    if solver.samples:
        return (Status.SAMPLED, f"Made {iteration} sweeps.") if solver.enough(state) else None
    if state.stalled:
        return Status.STALLED, f"No further decrease was possible after iteration {iteration}."
    if change < stopping.tol:
        return Status.CONVERGED, f"Converged in {iteration} iterations."
    if validation is not None and iteration - best.iteration >= stopping.patience:
        lowest = f"The validation error was lowest at iteration {best.iteration}; stopped at {iteration}."
        return Status.EARLY_STOPPED, lowest
    return None


def _progress_of(history: History, iteration: int, best: _Best, clock: _Clock) -> dict[str, Any]:
    return {
        "history": {name: list(column) for name, column in vars(history).items()},
        "iteration": iteration,
        "best_iteration": best.iteration,
        "best_error": best.error,
        "seconds": clock.before,
    }


def _callers_level() -> int:
    """The stack level, as `warnings.warn` counts for the caller of this, of the first frame outside of the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lorank."):
        level, frame = level + 1, frame.f_back
    return level
