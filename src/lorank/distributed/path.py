"""A path of regularization weights, each fit starting from the last, that can be interrupted at any sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lorank.distributed.problem import FolderProblem
from lorank.linalg import Factors
from lorank.solvers import Alternating, Callback, Checkpoint, Progress, Result, Stopping, solve
from lorank.solvers.result import Status
from lorank.tuning.search import Candidate, Found, Judgement, Search
from lorank.tuning.trial_log import TrialLog
from lorank.tuning.trials import TrialStatus

# A path that is not given goes down by this factor, at most so often.
DOWN, STEPS = 2.0, 10


def automatic_weights(problem: FolderProblem) -> Iterator[float]:
    """From the spectral norm that independent entries of this spread would have, by halves.

    A matrix of independent entries of deviation s has about s (sqrt(row entries) + sqrt(column entries)) as its
    largest singular value: a weight above it shrinks all that could be noise to zero.
    """
    m, n = problem.observations.shape
    top = problem.spread(problem.mean) * (np.sqrt(problem.total / m) + np.sqrt(problem.total / n))
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
) -> Found:
    """Fits from the first weight on, each from the last one's factors; the best on the held-out entries.

    With `until_worse` the path ends where the held-out error rises; without held-out entries it has one fit. Beside the
    checkpoint of the fit that is running there is a file, .path, of those that are done, so that a path that was
    interrupted neither repeats a fit nor changes a bit.
    """
    done = None
    if checkpoint is not None and held_out is not None:
        done = replace(checkpoint, path=Path(f"{checkpoint.path}.path"), seconds=0.0)
    log = TrialLog(done)

    asked = _Callbacks(callbacks)

    def judge(candidate: Candidate) -> Judgement:
        running, limit = None, None
        if checkpoint is not None:
            running = replace(checkpoint, fingerprint={**checkpoint.fingerprint, "step": len(log.trials)})
        if stopping.max_seconds is not None:
            limit = max(stopping.max_seconds - sum(trial.seconds for trial in log.trials), 0.0)
        result = solve(
            Alternating(),
            problem(candidate.parameters["lam"]),
            start=candidate.start[0] if candidate.start else None,
            stopping=replace(stopping, max_seconds=limit),
            validation=held_out,
            callbacks=[asked] if callbacks else [],
            checkpoint=running,
            seed=seed,
        )
        # A fit that ended by its own rule at the very sweep at which a callback asked is done, and not done again.
        stopped = asked.to_stop and result.status is Status.EARLY_STOPPED
        if stopped or result.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
            return Judgement(_error(result), result, TrialStatus.INTERRUPTED)
        if done is not None and running is not None:
            # Before the trial is logged: if the process ends between the two, one fit is done again.
            running.remove()
        return Judgement(_error(result), result)

    search = Search(judge, log)

    def strategy() -> None:
        start: tuple[Factors, ...] = ()
        for weight in weights:
            fit = search.attempt({"lam": weight}, start)
            if held_out is None or (until_worse and fit is not search.best):
                return
            start = fit.starts
            del fit  # the log saves the factors of all fits that are referred to

    found = search.run(strategy)
    if checkpoint is not None and done is not None and not found.interrupted:
        done.remove()
        checkpoint.remove()
    return found


class _Callbacks:
    """The caller's callbacks, and whether one of them has asked to stop: that ends the path and not one fit alone."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks, self.to_stop = callbacks, False

    def __call__(self, progress: Progress) -> bool:
        answers = [callback(progress) for callback in self.callbacks]  # all of them are called
        self.to_stop = any(answers)
        return self.to_stop


def _error(result: Result) -> float:
    errors = np.array(result.history.validation, float)
    return float(np.nanmin(errors)) if np.isfinite(errors).any() else np.inf
