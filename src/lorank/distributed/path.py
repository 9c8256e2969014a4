"""What is chosen on the entries of a folder: fits one after the other, which can be interrupted at any sweep.

lam alone, where numbers are given, goes from the largest down, each fit starting from the last. With "auto" a sample of
the rows is searched in memory first, as `MatrixCompletion` does it; the method, theta and biases are taken from there,
lam and the rank are tuned from there on all entries (`WarmPath.run_on_more`). A sampler takes its rank from there too,
and draws all else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lorank import registry
from lorank.distributed.featured import FeaturedFolderProblem
from lorank.distributed.problem import FolderProblem, Known
from lorank.errors import InputError
from lorank.estimators import choosing
from lorank.estimators.parameters import Parameters
from lorank.estimators.running import threshold_of
from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems.offsets import Offsets, empirical_bayes_offsets
from lorank.solvers import Callback, Checkpoint, Progress, Result, Solver, Stopping, solve
from lorank.solvers.checkpoint import remove_checkpoint
from lorank.solvers.result import Status
from lorank.tuning.held_out import parts_of, setting_of
from lorank.tuning.path import PAYS, WarmPath
from lorank.tuning.search import Candidate, Found, Judgement, Search
from lorank.tuning.setting import Setting, Space, noise_by_threshold, noise_norm
from lorank.tuning.trial_log import Fitted, OnTrial, TrialLog
from lorank.tuning.trials import CANDIDATE, Trial, TrialStatus

# Entries of the sample, and multiples of its lam that all entries are fitted with first.
SAMPLE, ABOVE = 300_000, (16.0, 4.0)

# How often an actor that searches may die.
RESTARTS = 3

Strategy = Callable[[Search], Fitted | None]
Searched = tuple[Parameters, Found, float, Offsets]


@dataclass(frozen=True)
class FolderMethod:
    """A method on the entries of a folder, and the problem that each setting states.

    plain : a problem of these entries, whatever its rank and regularizer.
    searched : whether a search says how much of what offsets leave is noise; else the regularizer's threshold does.
    known : directions of the features of rows and of columns.
    """

    method: registry.Method
    plain: FolderProblem
    searched: bool
    known: Known = (None, None)

    def problem(self, setting: Setting) -> FolderProblem:
        """The problem of a setting."""
        regularizer = self.method.build_regularizer(setting.lam, **setting.of_method)
        ridges, rank = self.complete(setting).bias_ridges, max(setting.rank, 1)
        stated = self.plain.observations, regularizer, rank, ridges
        about: dict[str, Any] = {"engine": self.plain.engine, "known": self.known}
        if self.method.samples:
            return FolderProblem(*stated, **about)
        if setting.biases:
            about["near"] = self.plain.offset_variances
        if self.known == (None, None):
            return FolderProblem(*stated, **about)
        return FeaturedFolderProblem(*stated, **about, feature_ridge=setting.feature_ridge)

    def complete(self, setting: Setting) -> Setting:
        """The setting with the ridges of its biases, if it has any."""
        if not setting.biases or self.method.samples:
            return setting
        threshold = None if self.searched else threshold_of(self.method, setting)
        if threshold is not None:
            noise = noise_by_threshold(threshold, self.plain.noise_norm, self.plain.offset_variances.s2)
            setting = replace(setting, noise=noise)
        return replace(setting, ridges=self.plain.offset_variances.ridges)


def search_sample(
    asked: Parameters, sample: Observations, seed: int, checkpoint: Checkpoint | None, on_trial: OnTrial | None
) -> Searched:
    """The parameters of the kind that was chosen on a sample, what was found without its factors, the norm of noise of
    variance 1 at the entries that it learnt from, and what the sample's offsets vary by.

    It takes a quarter of the time that there is.
    """
    parts = parts_of(sample, seed)
    seconds = None if asked.max_seconds is None else asked.max_seconds / 2  # of which a search takes half
    asked = replace(asked, max_seconds=seconds)
    option, found = choosing.tune(asked, parts, seed, checkpoint, on_trial, _runs_on_folders)
    if found.interrupted:
        raise KeyboardInterrupt
    variances = empirical_bayes_offsets(sample).variances
    return option, replace(found, best=Fitted(found.best.trial)), noise_norm(parts[0][0]), variances


class _Searcher:
    """An actor that searches a sample, while a second thread says how far it is."""

    def __init__(self) -> None:
        self.trials: tuple[int, int] | None = None

    def search(self, asked: Parameters, sample: Observations, seed: int, saved: tuple[Any, ...] | None) -> Searched:
        """What `search_sample` gives; `saved` says what its checkpoint is."""
        return search_sample(asked, sample, seed, None if saved is None else Checkpoint(*saved), self._note)

    def _note(self, done: int, expected: int) -> None:
        self.trials = done, expected

    def seen(self) -> tuple[int, int] | None:
        """Trials that are done, and about how many there will be."""
        return self.trials


def search_in_actor(
    asked: Parameters, sample: Observations, seed: int, checkpoint: Checkpoint | None, on_trial: OnTrial | None
) -> Searched:
    """The same in a Ray actor, so that what a search takes, most of it kept draws, is not taken from the driver.

    It needs no CPU of its own: the workers wait for it.
    """
    import ray
    from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError

    saved = None
    if checkpoint is not None:
        saved = Path(checkpoint.path).absolute(), checkpoint.fingerprint, checkpoint.seconds
    kind: Any = ray.remote(_Searcher)
    again = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS}
    actor = kind.options(num_cpus=0, max_concurrency=2, **again).remote()
    try:
        found, last, done = actor.search.remote(asked, sample, seed, saved), None, False
        while not done:
            done = bool(ray.wait([found], timeout=0.5)[0])
            seen = ray.get(actor.seen.remote())
            if on_trial is not None and seen is not None and seen != last:
                on_trial(*seen)
                last = seen
        answer: Searched = ray.get(found)
        return answer
    except RayTaskError as error:
        raise (error.cause if isinstance(error.cause, InputError) else error) from None
    except (RayActorError, OutOfMemoryError):
        raise InputError(
            f"The search on a sample of the rows died {RESTARTS + 1} times; look for what kills it, such as a lack of "
            "memory, or give rank and lam."
        ) from None
    finally:
        ray.kill(actor)


def _runs_on_folders(option: Parameters) -> bool:
    """Of a folder, features are for the sampler alone."""
    return option.features is None or registry.find(option.method).samples


def from_sample(asked: Parameters, found: Found, ratio: float, everything: Any, most: int | None) -> Strategy:
    """On all entries, from what was found on a sample whose noise has a norm `ratio` times smaller.

    A sample of sparse data may say that there is nothing but offsets where all of it says more: both are tried. `most`
    is the largest rank that there is room for; None if the sample was of all rows, so that its rank is known already.
    """
    begin = found.best
    kind = begin.parameters[CANDIDATE].removesuffix(choosing.ALL_ROWS)
    if begin.parameters["rank"] == 0 and most is not None:
        others = [trial for trial in found.trials if trial.parameters["rank"] and _is_of(trial, kind)]
        begin = Fitted(min(others, key=lambda trial: trial.error)) if others else begin
    space = Space.of(registry.find(asked.method), asked.lam, asked.rank, asked.theta, asked.biases)
    space = replace(space, given={CANDIDATE: f"{kind}{choosing.ALL_ROWS}"})

    def strategy(search: Search) -> Fitted:
        path = WarmPath(space, everything, search)
        path.most = path.most if most is None else most
        fit = path.run_on_more(begin, ratio, 0 if most is None else None, ABOVE)
        if most is None or not space.offsets or fit.parameters["rank"] == 0:
            return fit
        alone = search.attempt({**fit.parameters, "rank": 0, "biases": True})
        return alone if fit.error > (1 - PAYS) * alone.error else fit

    return strategy


def _is_of(trial: Trial, kind: str) -> bool:
    """Whether a trial is of this kind of model, on some of the sample's rows or all of them."""
    return bool(trial.parameters[CANDIDATE].removesuffix(choosing.ALL_ROWS) == kind)


def downward(weights: Sequence[float | None], setting: Setting, given: Mapping[str, Any]) -> Strategy:
    """From the first weight on, each fit from the last one's factors; None is the weight of a method without one.

    `given` is what else is said of every trial.
    """

    def strategy(search: Search) -> None:
        start: tuple[Factors, ...] = ()
        for weight in weights:
            fit = search.attempt({**setting.facts(), "lam": weight, **given}, start)
            start = fit.starts
            del fit  # the log saves the factors of all fits that are referred to

    return strategy


def fit_path(
    solver: Solver,
    problem: Callable[[Setting], FolderProblem],
    strategy: Strategy,
    stopping: Stopping,
    held_out: Any,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    seed: int,
    last: bool = True,
) -> Found:
    """All fits that a strategy asks for; the best on the held-out entries, without which it must ask for one.

    Unless this is the `last` thing to do, what is done is kept on disk for whoever goes on after it.

    Beside the checkpoint of the fit that is running there is a file of those that are done, so that a path that was
    interrupted neither repeats a fit nor changes a bit.
    """
    done = None
    if checkpoint is not None and held_out is not None:
        done = replace(checkpoint, path=path_file(checkpoint.path), seconds=0.0)
    log = TrialLog(done)
    asked = _Callbacks(callbacks)

    def judge(candidate: Candidate) -> Judgement:
        running, limit = None, None
        if checkpoint is not None:
            running = replace(checkpoint, fingerprint={**checkpoint.fingerprint, "step": len(log.trials)})
        if stopping.max_seconds is not None:
            limit = max(stopping.max_seconds - sum(trial.seconds for trial in log.trials), 0.0)
        setting = setting_of(candidate.parameters)
        stated, start = problem(setting), candidate.start[0] if candidate.start else None
        result = solve(
            solver,
            stated,
            start=stated.offsets_alone() if setting.rank == 0 else start,
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
    found = search.run(lambda: strategy(search))
    if checkpoint is not None and last and not found.interrupted:
        for path in files_of(checkpoint.path) if done is not None else [sample_file(checkpoint.path)]:
            remove_checkpoint(path)
    return found


def files_of(checkpoint: str | Path) -> list[Path]:
    """All files of the checkpoint at this path: of the fit that is running, those that are done, and the sample."""
    return [Path(checkpoint), path_file(checkpoint), sample_file(checkpoint)]


def path_file(checkpoint: str | Path) -> Path:
    """Where fits that are done are kept."""
    return Path(f"{checkpoint}.path")


def sample_file(checkpoint: str | Path) -> Path:
    """Where the trials on the sample are kept."""
    return Path(f"{checkpoint}.sample")


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
