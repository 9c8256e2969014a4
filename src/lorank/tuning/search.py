"""The one search: candidates tried one after the other, judged where they were not fitted, within a budget.

A *strategy* is a function that calls `Search.attempt` and decides by the answers what to try next. A *judge* fits a
candidate and measures its error. All else is here: the clock, failures, interruptions, the log of trials and resuming.
The searches of the library differ in these two alone:

- `path`: lam, rank, theta and biases, each fit started from the last, on held-out entries; for "auto".
- `choice`: one kind of model after the other, each by a strategy of its own; for a method that is "auto".
- `budgeted`: any method of the catalogue, each fit from a fresh start, as many for each method; for `compare`.
- `coordinate`: parameters with a few values each, one after the other; for places that are held out whole.
- `lorank.distributed.path`: `path` on a sample of rows, then rank and lam on entries of a folder that no process holds.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank.errors import InputError, MemoryLimitError
from lorank.linalg import Factors
from lorank.solvers import Result
from lorank.tuning.trial_log import Fitted, TrialLog
from lorank.tuning.trials import Trial, Trials, TrialStatus
from lorank.types import Array

# What a fit may raise that spoils a trial and not the search.
FAILURES = (InputError, MemoryLimitError, MemoryError, ArithmeticError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Candidate:
    """What to try.

    Attributes
    ----------
    parameters : mapping
        By name: what the search chooses, whether it belongs to the method or is an option of the fit.
    start : tuple of Factors
        Where to start from: the factors of each part of the data that a judge fits; empty for a fresh start.
    to_beat : float
        The error of the best so far: a trial that cannot come under it may be given up.
    seconds : float
        What is left of the time.
    """

    parameters: Mapping[str, Any]
    start: tuple[Factors, ...] = ()
    to_beat: float = math.inf
    seconds: float = math.inf


@dataclass(frozen=True)
class Judgement:
    """A judge's answer: the error where the candidate was not fitted, and the fit itself if it is of further use.

    `losses` are those of the held-out entries, one part after the other; `others` are the factors of all parts but the
    first, for a judge that fits several.
    """

    error: float
    result: Result | None = None
    status: TrialStatus = TrialStatus.FINISHED
    reason: str = ""
    losses: Array | None = None
    others: tuple[Factors, ...] = ()


@dataclass(frozen=True)
class Found:
    """What a search found: the best trial with its fit, the table of all of them, and whether it came to its end."""

    best: Fitted
    trials: Trials
    seconds: float
    out_of_time: bool = False
    interrupted: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.best.parameters)

    @property
    def error(self) -> float:
        return self.best.error

    @property
    def result(self) -> Result:
        """The fit of the best trial, where its judge hands it on."""
        assert self.best.result is not None
        return self.best.result


class SearchOver(Exception):
    """No other trial may begin: time is up, or the last one was interrupted."""


class Search:
    """Tries what a strategy proposes.

    Parameters
    ----------
    judge : function of a Candidate that returns a Judgement
    log : TrialLog, optional
        Where trials are kept; one that has a checkpoint answers those that were tried before.
    max_seconds : float
        No trial but the first begins after this time.
    forgiving : bool
        A trial that raises one of `FAILURES` has an infinite error and does not end the search.
    """

    def __init__(
        self,
        judge: Callable[[Candidate], Judgement],
        log: TrialLog | None = None,
        max_seconds: float = math.inf,
        forgiving: bool = False,
    ) -> None:
        self.log = TrialLog() if log is None else log
        self.best: Fitted | None = None
        self._judge = judge
        self._started, self._max_seconds = time.perf_counter(), max_seconds
        self._forgiven = FAILURES if forgiving else ()
        self._failure: BaseException | None = None
        self._out_of_time = self._interrupted = False

    def run(self, strategy: Callable[[], Fitted | None]) -> Found:
        """All that the strategy tries, and the best of it: what it returns, or else the trial with the least error.

        Raises what the last trial raised if none could be done.
        """
        best = self.log.outcome()
        if best is None:
            try:
                best = self._best_of(strategy)
                if not self._interrupted:
                    self.log.finish(best)
            except KeyboardInterrupt:  # between two trials; within one it ends that trial
                self.log.save()
                raise
        trials = Trials(self.log.trials).choosing(best.trial)
        return Found(best, trials, time.perf_counter() - self._started, self._out_of_time, self._interrupted)

    def _best_of(self, strategy: Callable[[], Fitted | None]) -> Fitted:
        try:
            best = strategy() or self.best
        except SearchOver:
            best = self.best
        assert best is not None
        if self._forgiven and best.error == math.inf:
            raise self._failure or ArithmeticError("No fit gave a finite error.")
        return best

    def attempt(
        self, parameters: Mapping[str, Any], start: tuple[Factors, ...] = (), rival: Fitted | None = None
    ) -> Fitted:
        """Try one candidate, from these factors, against the error of a rival."""
        fitted = self.log.saved(parameters) or self._fit(parameters, start, math.inf if rival is None else rival.error)
        if fitted.trial.status is TrialStatus.INTERRUPTED:
            self._interrupted = True
            self.log.stop_saving()
        if self.best is None or fitted.error < self.best.error:
            self.best = fitted
        self.log.add(fitted)
        if self._interrupted:
            raise SearchOver
        return fitted

    def _fit(self, parameters: Mapping[str, Any], start: tuple[Factors, ...], to_beat: float) -> Fitted:
        began = time.perf_counter()
        left = self._max_seconds - (began - self._started)
        if self.log.trials and left <= 0:
            self._out_of_time = True
            raise SearchOver
        try:
            judged = self._judge(Candidate(parameters, start, to_beat, left))
        except self._forgiven as failure:
            self._failure = failure
            judged = Judgement(math.inf, None, TrialStatus.FAILED, f"{type(failure).__name__}: {failure}")
        error = float(judged.error) if np.isfinite(judged.error) else math.inf
        sweeps = None if judged.result is None else judged.result.n_iter
        seconds = time.perf_counter() - began
        trial = Trial(dict(parameters), error, sweeps, seconds, judged.status, judged.reason)
        return Fitted(trial, judged.result, judged.losses, judged.others)


def error_of(
    error: Callable[[Mapping[str, Any], float], float],
) -> Callable[[Candidate], Judgement]:
    """The judge that is a function of (parameters, seconds left) alone, each fit from a fresh start."""

    def judge(candidate: Candidate) -> Judgement:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return Judgement(error(candidate.parameters, max(candidate.seconds, 0.1)))

    return judge
