"""The judge of a warm-started search: one fit, followed on held-out entries and ended early."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lorank.linalg import without_biases
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.solvers import Progress, Solver, Status, Stopping, solve
from lorank.tuning.search import Candidate, Judgement
from lorank.tuning.setting import Setting
from lorank.tuning.trials import TrialStatus

# A change of the held-out error by less than this part of it is no change.
FLAT = 2e-4
# A trial is given up when it would lose by this part even if four times its last gain were still to come.
BEHIND, PROSPECT = 1e-3, 4.0
# Sweeps of one trial: a random start may hold still at first, and one that needs more than the most has a flat end.
LEAST_SWEEPS, LEAST_WARM_SWEEPS, MOST_SWEEPS = 5, 2, 20

Build = Callable[[Observations, Setting], Problem]


# What every setting has; all else belongs to the method.
_COMMON = ("lam", "rank", "theta", "biases")


def setting_of(parameters: Mapping[str, Any]) -> Setting:
    """What a model is fitted with, from the parameters of a trial."""
    common = {name: parameters[name] for name in (*_COMMON, "feature_ridge") if name in parameters}
    own = {name: value for name, value in parameters.items() if name not in common}
    return Setting(**common, parameters=tuple(own.items()))


@dataclass(frozen=True)
class HeldOutJudge:
    """Fits a candidate to the training part, until the error on the held-out part is flat or has lost.

    Parameters
    ----------
    build : function of (observations, setting)
        Makes the problem; all else about it stays as it is.
    solver : Solver
    train, held_out : Observations
    seed : int
        Of a fresh start.
    """

    build: Build
    solver: Solver
    train: Observations
    held_out: Observations
    seed: int

    def __call__(self, candidate: Candidate) -> Judgement:
        setting, start = setting_of(candidate.parameters), candidate.start
        deadline = time.perf_counter() + candidate.seconds
        problem = self.build(self.train, setting)
        if start is not None and start.biased and not setting.biases:
            start = without_biases(start)
        least = LEAST_SWEEPS if start is None else LEAST_WARM_SWEEPS
        follow = _Follow(problem, self.held_out, candidate.to_beat, least, deadline)
        result = solve(
            self.solver,
            problem,
            start=start,
            stopping=Stopping(tol=0.0, max_iter=MOST_SWEEPS + 1),
            callbacks=[follow],
            seed=self.seed,
        )
        if result.status is Status.INTERRUPTED:
            return Judgement(follow.error, result, TrialStatus.INTERRUPTED)
        return Judgement(follow.error, result, follow.status, follow.reason)


class _Follow:
    """Follows the held-out error of a trial, and ends it when it is flat or has lost, or time is up."""

    def __init__(self, problem: Problem, held_out: Observations, to_beat: float, least: int, deadline: float) -> None:
        self.problem, self.held_out = problem, held_out
        self.to_beat, self.least, self.deadline = to_beat, least, deadline
        self.error = math.inf
        self.stopped = False
        self.status, self.reason = TrialStatus.FINISHED, ""

    def __call__(self, progress: Progress) -> bool:
        before, self.error = self.error, self.problem.error(progress.factors, self.held_out)
        gain = before - self.error
        flat = abs(gain) < FLAT * self.error
        lost = self.error - PROSPECT * max(gain, 0.0) > (1 + BEHIND) * self.to_beat
        if progress.iteration >= self.least and (flat or lost):
            self._stop(TrialStatus.GIVEN_UP if lost and not flat else TrialStatus.FINISHED)
        elif progress.iteration >= MOST_SWEEPS:
            self._stop(TrialStatus.FINISHED, f"not flat after {MOST_SWEEPS} sweeps")
        elif time.perf_counter() > self.deadline:
            self._stop(TrialStatus.OUT_OF_TIME)
        return self.stopped

    def _stop(self, status: TrialStatus, reason: str = "") -> None:
        self.stopped, self.status, self.reason = True, status, reason
