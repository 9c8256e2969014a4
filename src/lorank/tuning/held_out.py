"""The judge of a warm-started search: fits that are followed on held-out entries until these say no more."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np

from lorank.linalg import Factors, without_biases
from lorank.losses import Loss
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.solvers import Progress, Result, Solver, Status, Stopping, solve
from lorank.tuning.search import Candidate, Judgement
from lorank.tuning.setting import Setting
from lorank.tuning.trials import CANDIDATE, TrialStatus
from lorank.types import Array

# A change of the held-out error by less than this part of it is no change; a trial ends after so many of them in a row.
FLAT, PATIENCE = 2e-4, 3
# A trial is given up when, as often in a row, it would lose by this part even if ten times its last gain were to come.
BEHIND, PROSPECT = 5e-3, 10.0
# Sweeps of one trial: early ones say little, and one that needs more than the most has a flat end.
LEAST_SWEEPS, MOST_SWEEPS = 6, 40
# Part of the entries that is held out, how many held-out entries tell settings apart, and how often at most other ones
# are held out to come to so many.
SHARE, ENOUGH, MOST_PARTS = 0.1, 10_000, 4
# Standard errors by which what is more costly must be better.
STANDARD_ERRORS = 1.0

# Training entries, and those that were held out from them.
Part = tuple[Observations, Observations]
Build = Callable[[Observations, Setting], Problem]


# What every setting has; all else belongs to the method, but for the word for a kind of model.
_COMMON = ("lam", "rank", "theta", "biases")


def setting_of(parameters: Mapping[str, Any]) -> Setting:
    """What a model is fitted with, from the parameters of a trial."""
    common = {name: parameters[name] for name in (*_COMMON, "feature_ridge", "noise") if name in parameters}
    own = {name: value for name, value in parameters.items() if name not in (*common, CANDIDATE)}
    return Setting(**common, parameters=tuple(own.items()))


def parts_of(observations: Observations, seed: int) -> tuple[Part, ...]:
    """Observations split for a search: once if a tenth of them are enough to judge by, or else several times.

    The held-out parts have no entry in common. The noise of an error over n entries is about 1 / sqrt(2 n) of it: small
    data is held out several times, so that what is chosen does not depend on the split.
    """
    first = observations.split(SHARE, seed)
    size = first[1].nnz
    count = min(-(-ENOUGH // size), MOST_PARTS, observations.nnz // size)
    if count == 1:
        return (first,)
    order = np.random.default_rng(seed).permutation(observations.nnz)  # that of the first split goes on
    parts = [first]
    for number in range(1, count):
        held_out = np.zeros(observations.nnz, bool)
        held_out[order[number * size : (number + 1) * size]] = True
        parts.append((observations.subset(~held_out), observations.subset(held_out)))
    return tuple(parts)


@dataclass(frozen=True)
class HeldOutJudge:
    """Fits a candidate to the training part, until the error on the held-out part is flat or has lost.

    With several parts the error is the root mean square over all of them. The fit that is handed on is the first
    part's. Each part has a path of its own, since factors that were fitted to its held-out entries must not come near
    it: its fit starts where that of the same part ended.

    Parameters
    ----------
    build : function of (observations, setting)
        Makes the problem; all else about it stays as it is.
    solver : Solver
    parts : pairs of Observations, to learn from and to judge by
    seed : int
        Of a fresh start.
    """

    build: Build
    solver: Solver
    parts: tuple[Part, ...]
    seed: int

    def __call__(self, candidate: Candidate) -> Judgement:
        setting = setting_of(candidate.parameters)
        deadline = time.perf_counter() + candidate.seconds
        # The error of one part among several is not to be compared with that of all.
        to_beat = candidate.to_beat if len(self.parts) == 1 else math.inf
        follows: list[_Follow] = []
        results: list[Result] = []
        for part, start in zip(self.parts, chain(candidate.start, repeat(None))):
            follow, result = self._fit(part, setting, start, to_beat, deadline)
            follows.append(follow)
            results.append(result)
            if result.status is Status.INTERRUPTED:
                return Judgement(follows[0].error, results[0], TrialStatus.INTERRUPTED)
        first = follows[0]
        counts = [held_out.nnz for _, held_out in self.parts]
        squares = sum(count * follow.error**2 for count, follow in zip(counts, follows))
        error = first.error if len(follows) == 1 else math.sqrt(squares / sum(counts))
        worst = next((follow for follow in follows if follow.status is not TrialStatus.FINISHED), first)
        losses = np.concatenate([follow.losses for follow in follows])
        others = tuple(result.factors for result in results[1:])
        return Judgement(error, results[0], worst.status, worst.reason, losses, others)

    def _fit(
        self, part: Part, setting: Setting, start: Factors | None, to_beat: float, deadline: float
    ) -> tuple[_Follow, Result]:
        """One fit to a part, and what was seen of it."""
        train, held_out = part
        problem = self.build(train, setting)
        if setting.rank == 0:
            start = problem.offsets_alone()
        elif start is not None and start.biased and not setting.biases:
            start = without_biases(start)
        follow = _Follow(problem, held_out, to_beat, deadline)
        stopping = Stopping(tol=0.0, max_iter=MOST_SWEEPS + 1)
        result = solve(self.solver, problem, start=start, stopping=stopping, callbacks=[follow], seed=self.seed)
        loss, x = problem.loss_at(result.factors), result.factors.predict(held_out.rows, held_out.cols)
        follow.losses = losses_at(loss.predicted(x), loss, held_out)
        return follow, result


def losses_at(predicted: Array, loss: Loss, held_out: Observations) -> Array:
    """Losses of predictions of held-out entries, times their weights."""
    return weighted(loss.at(held_out.rows, held_out.cols).each(predicted, held_out.values), held_out)


def weighted(losses: Array, held_out: Observations) -> Array:
    """Times the weights of the entries, of mean 1, where they have any."""
    return losses if held_out.weights is None else losses * held_out.weights / held_out.weights.mean()


def paired(losses: Array, others: Array) -> tuple[float, float]:
    """By how much the mean of `losses` is below that of `others`, and its standard error, at the entries of both.

    One that was judged on fewer parts has the first ones.
    """
    size = min(losses.size, others.size)
    differences = others[:size] - losses[:size]
    if size < 2:
        return float(differences.mean()), math.inf
    unit = float(np.abs(differences).max()) or 1.0  # losses are squares, whose squares might overflow or vanish
    return float(differences.mean()), unit * float((differences / unit).std(ddof=1) / math.sqrt(size))


class _Follow:
    """Follows the held-out error of a trial, and ends it when it is flat or has lost, or time is up."""

    def __init__(self, problem: Problem, held_out: Observations, to_beat: float, deadline: float) -> None:
        self.problem, self.held_out = problem, held_out
        self.to_beat, self.deadline = to_beat, deadline
        self.error = math.inf
        self.losses = np.zeros(0)
        self.flat = self.lost = 0
        self.stopped = False
        self.status, self.reason = TrialStatus.FINISHED, ""

    def __call__(self, progress: Progress) -> bool:
        before, self.error = self.error, self.problem.error(progress.factors, self.held_out)
        gain = before - self.error
        flat = abs(gain) < FLAT * self.error
        lost = self.error - PROSPECT * max(gain, 0.0) > (1 + BEHIND) * self.to_beat
        self.flat, self.lost = self.flat + 1 if flat else 0, self.lost + 1 if lost else 0
        if progress.iteration >= LEAST_SWEEPS and self.flat >= PATIENCE:
            self._stop(TrialStatus.FINISHED)
        elif progress.iteration >= LEAST_SWEEPS and self.lost >= PATIENCE:
            self._stop(TrialStatus.GIVEN_UP)
        elif progress.iteration >= MOST_SWEEPS:
            self._stop(TrialStatus.FINISHED, f"not flat after {MOST_SWEEPS} sweeps")
        elif time.perf_counter() > self.deadline:
            self._stop(TrialStatus.OUT_OF_TIME)
        return self.stopped

    def _stop(self, status: TrialStatus, reason: str = "") -> None:
        self.stopped, self.status, self.reason = True, status, reason
