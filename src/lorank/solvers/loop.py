"""The loop, the clock and the reasons to stop: written once, for every solver.

A solver gives `init` and `step`; a step takes a state to the next one. States are dataclasses of arrays and plain
numbers, so that a checkpoint is just their fields.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.linalg.blas import one_blas_thread
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.side_information.base import suits
from lorank.solvers.checkpoint import Checkpoint
from lorank.solvers.result import History, Result, Status


class State(Protocol):
    """A point of a solver's path."""

    @property
    def factors(self) -> Factors:
        """The solution at this point."""

    @property
    def objective(self) -> float:
        """F at this point."""

    @property
    def rank(self) -> int:
        """How many singular values are alive."""

    @property
    def stalled(self) -> bool:
        """Whether no step can decrease F any further."""


class Solver(ABC):
    """A way to decrease a problem's objective."""

    # Methods that the regularizer must have, by name.
    requires: ClassVar[tuple[str, ...]] = ()
    # What a graph or prior on rows or columns must have, one of these: "energy", a term that is added, or
    # "covariance", by which factors are whitened.
    coupling: ClassVar[tuple[str, ...]] = ()
    # Whether it takes any pointwise loss, or only the squared one.
    any_loss: ClassVar[bool] = False
    # Whether its answer is a set of posterior draws and not one optimum.
    samples: ClassVar[bool] = False
    # Whether it runs on lines that are kept elsewhere, in other processes or on disk.
    distributes: ClassVar[bool] = False

    def check(self, problem: Problem) -> None:
        """Refuse a problem that this solver is not made for, in one sentence."""
        lacking = [name for name in self.requires if not hasattr(problem.regularizer, name)]
        if lacking:
            raise InputError(
                f"The solver {type(self).__name__} needs a regularizer with {' and '.join(lacking)}; "
                f"{type(problem.regularizer).__name__} has not."
            )
        for graph in (problem.row_graph, problem.col_graph):
            if graph is not None and not suits(graph, self.coupling):
                raise InputError(f"The solver {type(self).__name__} cannot take a {type(graph).__name__} into account.")

        if not (self.any_loss or problem.squared):
            raise InputError(
                f"The solver {type(self).__name__} is for the squared loss; "
                f"{type(problem.pointwise).__name__} needs a factored method such as 'nnfn'."
            )

    @abstractmethod
    def init(self, problem: Problem, start: Factors | None, seed: int | None) -> Any:
        """The first state: at `start`, or a random one."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """The next state; its objective is not above this one's wherever theory says so."""

    def finish(self, problem: Problem, state: Any) -> Factors:
        """The factors that are given back for a state."""
        factors: Factors = state.factors
        return factors


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


@dataclass(frozen=True)
class Stopping:
    """When to end: relative change of F under tol, or a limit; with a validation set, also `patience` iterations
    without a better validation error."""

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
    problem: Problem,
    *,
    start: Factors | None = None,
    stopping: Stopping | None = None,
    validation: Observations | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    seed: int | None = None,
) -> Result:
    """Run a solver on a problem until it is done.

    Ctrl-C ends the fit with the best point so far; a callback that returns True does the same. BLAS runs on one thread
    meanwhile: the threads belong to the kernels, and the result must not depend on how many there are.
    """
    stopping = stopping or Stopping()
    solver.check(problem)
    with one_blas_thread():
        try:
            return _iterate(solver, problem, start, stopping, validation, callbacks, checkpoint, seed)
        finally:
            problem.workers.close()


def _iterate(
    solver: Solver,
    problem: Problem,
    start: Factors | None,
    stopping: Stopping,
    validation: Observations | None,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    seed: int | None,
) -> Result:
    clock = _Clock()
    history = History()
    state = solver.init(problem, start, seed)
    best = _Best(state)
    iteration = 0
    if checkpoint is not None and checkpoint.exists():
        state, best_state, saved = checkpoint.load(state)
        history, iteration = History(**saved["history"]), saved["iteration"]
        best = _Best(best_state, saved["best_iteration"], saved["best_error"])
        clock.before = saved["seconds"]
    status, message = Status.MAX_ITER, f"Stopped at the limit of {stopping.max_iter} iterations."
    try:
        while iteration < stopping.max_iter:
            try:
                following = solver.step(problem, state)
            except FloatingPointError:
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
            error = np.nan if validation is None else problem.error(state.factors, validation)
            if validation is None or error < best.error:
                best = _Best(state, iteration, error)
            history.append(iteration, clock.before, state.objective, state.rank, error)
            progress = Progress(iteration, clock.before, state.objective, state.rank, error, state.factors)
            answers = [callback(progress) for callback in callbacks]
            if checkpoint is not None:
                checkpoint.offer(state, best.state, _progress_of(history, iteration, best, clock))
            if state.stalled:
                status, message = (
                    Status.STALLED,
                    f"No further decrease was possible after iteration {iteration}.",
                )
                break
            if change < stopping.tol:
                status, message = Status.CONVERGED, f"Converged in {iteration} iterations."
                break
            if validation is not None and iteration - best.iteration >= stopping.patience:
                status = Status.STOPPED
                message = f"The validation error was lowest at iteration {best.iteration}; stopped at {iteration}."
                break
            if any(answers):
                status, message = Status.STOPPED, f"A callback stopped it at iteration {iteration}."
                break
            if stopping.max_seconds is not None and clock.before >= stopping.max_seconds:
                status = Status.TIME_LIMIT
                message = f"Stopped at the limit of {stopping.max_seconds:g} s after {iteration} iterations."
                break
            clock.resume()
    except KeyboardInterrupt:
        status, message = (
            Status.STOPPED,
            f"Interrupted after {iteration} iterations; the best point so far is kept.",
        )
    if checkpoint is not None:
        if status in (Status.STOPPED, Status.TIME_LIMIT, Status.MAX_ITER):
            checkpoint.save(state, best.state, _progress_of(history, iteration, best, clock))
        elif status is not Status.DIVERGED:
            checkpoint.remove()
    if status in (Status.MAX_ITER, Status.TIME_LIMIT, Status.DIVERGED):
        advice = "scale the data or raise lam" if status is Status.DIVERGED else "raise the limit or tol"
        warnings.warn(f"{message} To mend it, {advice}.", ConvergenceWarning, stacklevel=5)
    seconds = history.seconds[-1] if history.seconds else clock.before
    factors = solver.finish(problem, best.state)
    return Result(factors, best.state.objective, status, message, iteration, seconds, history)


def _progress_of(history: History, iteration: int, best: _Best, clock: _Clock) -> dict[str, Any]:
    return {
        "history": {name: list(column) for name, column in vars(history).items()},
        "iteration": iteration,
        "best_iteration": best.iteration,
        "best_error": best.error,
        "seconds": clock.before,
    }
