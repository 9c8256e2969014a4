"""What a model that ranks is fitted with, chosen by the lists that it makes for entries that were held out.

A part of each row's entries is held out, and every trial is judged by NDCG@k (or another measure of lists) on those of
them that are relevant, all columns that the row has not in the training part competing. The search goes along one
parameter after the other, in steps of a factor, and keeps what is better:

    lam, the power of the values, the weight of what was not observed (and lam with it: what a line weighs is mostly
    what it has not seen), how much the regularizer grows with the weight of a line, theta, the rank, and lam in ever
    smaller steps between.

It begins at the size of a singular value of noise of the data's own size. A trial is a short fit from the same start,
so that lists differ by what is tried alone. What is chosen is then fitted to all entries as it is, with as many sweeps:
on parts of 64, 80 and 100% of MovieLens-1M's and MovieLens-100K's entries the best lam was the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.kernels import keep_best
from lorank.linalg import Factors
from lorank.models.list_metrics import METRICS
from lorank.models.preferences import Grades, is_constant
from lorank.models.ranking_metrics import hits, relevant_part
from lorank.models.setting import Setting
from lorank.observations import Observations
from lorank.solvers import Progress, Solver, Status, Stopping, solve
from lorank.tuning.held_out import Build
from lorank.tuning.search import Candidate, Found, Judgement, Search
from lorank.tuning.trial_log import Fitted, OnTrial, TrialLog
from lorank.tuning.trials import TrialStatus
from lorank.types import Array

# Sweeps of a fit, and rows that judge a trial, at most.
SWEEPS, ROWS = 8, 5000
# Scores that are held at a time.
SCORES = 1 << 17
# Where the search begins, and how far each parameter goes; ranks by effort.
FIRST_WEIGHT, FIRST_POWER = 0.2, 1.0
FIRST_RANK = {"fast": 32, "balanced": 64, "best": 128}
MOST_RANK = {"fast": 64, "balanced": 256, "best": 512}
WEIGHTS, FREQUENCY_POWERS, VALUE_POWERS = (0.003, 0.8), (0.0, 0.5, 1.0, 1.5, 2.0), (0.0, 0.5, 1.0, 2.0)
# A gain of less than this part is none. Of two ranks the better one is taken, since the last fit has a quarter more
# entries than the trials, and bears more. What the model is made of stays as it is unless the mean gain of a row is so
# many times its standard error: many are tried, and some seem better by chance.
GAIN, GAIN_OF_RANK, CLEAR = 1e-3, 0.0, 2.0


@dataclass(frozen=True)
class RankingSpace:
    """What is given; None for what is to be chosen."""

    lam: float | None = None
    rank: int | None = None
    theta: float | None = None
    has_theta: bool = True
    unobserved_weight: float | None = None
    unobserved_value: float = 0.0
    frequency_power: float | None = None
    biases: bool = False
    effort: str = "balanced"


def tune_ranking(
    space: RankingSpace,
    build: Build,
    solver: Solver,
    train: Observations,
    held_out: Observations,
    seed: int,
    k: int = 10,
    metric: str = "ndcg",
    max_seconds: float | None = None,
    on_trial: OnTrial | None = None,
) -> Found:
    """Search a space; the error of a trial is 1 - the measure of its lists."""
    wanted = relevant_part(held_out, train)
    if not wanted.nnz:
        raise InputError("Nothing that was held out is relevant, so that lists cannot be judged; hold out more.")
    judge = ListJudge(build, solver, train, wanted, seed, k, metric)
    search = Search(judge, TrialLog(None, on_trial), math.inf if max_seconds is None else max_seconds)
    return search.run(_Climb(space, train, search).run)


def setting_of_ranking(parameters: Mapping[str, Any], observations: Observations) -> Setting:
    """What a model is fitted with, from the parameters of a trial."""
    grades = Grades.of(observations, parameters["value_power"])
    names = ("lam", "rank", "theta", "biases", "unobserved_weight", "unobserved_value", "frequency_power")
    return Setting(**{name: parameters[name] for name in names}, grades=(grades.low, grades.high, grades.power))


@dataclass(frozen=True)
class ListJudge:
    """Fits a candidate to the training part, and measures its lists by the relevant held-out entries."""

    build: Build
    solver: Solver
    train: Observations
    wanted: Observations
    seed: int
    k: int
    metric: str

    def __call__(self, candidate: Candidate) -> Judgement:
        problem = self.build(self.train, setting_of_ranking(candidate.parameters, self.train))
        deadline = time.perf_counter() + candidate.seconds

        def late(progress: Progress) -> bool:
            return time.perf_counter() > deadline

        # Ended by a callback: a short fit is no reason for a warning.
        result = solve(
            self.solver, problem, stopping=Stopping(1e-4, SWEEPS + 1), callbacks=[long_enough, late], seed=self.seed
        )
        status = TrialStatus.OUT_OF_TIME if time.perf_counter() > deadline else TrialStatus.FINISHED
        if result.status is Status.INTERRUPTED:
            status = TrialStatus.INTERRUPTED
        lacking = 1 - self.measures(result.factors)
        return Judgement(float(lacking.mean()), result, status, losses=lacking)

    def measures(self, factors: Factors) -> Array:
        """The measure of the list that these factors make for each of the rows that judge."""
        rows = judged_rows(self.wanted, self.seed)
        right = hits(lists_of(scores_of(factors), self.train, rows, self.k), self.wanted, rows)
        return np.asarray(METRICS[self.metric](right, np.diff(self.wanted.by_row.pointers)[rows]), np.float64)


def long_enough(progress: Progress) -> bool:
    """Ends a fit after as many sweeps as trials have: what was judged is what is fitted."""
    return progress.iteration >= SWEEPS


def judged_rows(wanted: Observations, seed: int, most: int = ROWS) -> Array:
    """Rows that have something to find, at most so many of them, at random."""
    rows = np.flatnonzero(np.diff(wanted.by_row.pointers))
    if rows.size > most:
        rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    return rows


def scores_of(factors: Factors) -> Callable[[Array], Array]:
    """Scores (rows, n) of all columns for some rows, but for what all columns of a row have in common."""
    return lambda rows: np.asarray(factors.W[rows] @ factors.H.T + factors.col_bias)


def lists_of(scores_of_rows: Callable[[Array], Array], seen: Observations, rows: Array, k: int) -> Array:
    """The k best columns of each row that it has not seen, best first; -1 where there are no more."""
    n = seen.shape[1]
    k = min(k, n)
    lists = np.full((rows.size, k), -1)
    size = max(1, SCORES // n)
    for start in range(0, rows.size, size):
        block = rows[start : start + size]
        scores = scores_of_rows(block)
        pointers = seen.by_row.pointers
        for i, row in enumerate(block):
            scores[i, seen.by_row.indices[pointers[row] : pointers[row + 1]]] = -np.inf
        best, places = np.full((len(block), k), -np.inf, scores.dtype), np.zeros((len(block), k), np.int64)
        keep_best(scores, 0, best, places, 0, len(block))
        lists[start : start + size] = np.where(np.isfinite(best), places, -1)
    return lists


class _Climb:
    """The strategy: one parameter after the other."""

    def __init__(self, space: RankingSpace, train: Observations, search: Search) -> None:
        self.space, self.train, self.search = space, train, search
        self.tried: dict[tuple[Any, ...], Fitted] = {}

    def run(self) -> Fitted:
        """All stages; the best trial."""
        space, m_n = self.space, self.train.shape
        constant = is_constant(self.train)
        first = {
            "lam": noise_level(self.train) if space.lam is None else space.lam,
            "rank": min(FIRST_RANK[space.effort], *m_n) if space.rank is None else space.rank,
            "theta": 0.0 if space.theta is None and space.has_theta else space.theta,
            "biases": space.biases,
            "unobserved_weight": FIRST_WEIGHT if space.unobserved_weight is None else space.unobserved_weight,
            "unobserved_value": space.unobserved_value,
            "frequency_power": FIRST_POWER if space.frequency_power is None else space.frequency_power,
            "value_power": 0.0 if constant else 1.0,
        }
        self.search.log.expect({"all": 22})
        self.search.log.begin("all")
        best = self.along(self.attempt(first), "lam", 2.0)
        if not constant:
            best = self.over(best, "value_power", VALUE_POWERS)
        if space.unobserved_weight is None:
            best = self.along(best, "unobserved_weight", 2.0, WEIGHTS, beside="lam" if space.lam is None else None)
        if space.frequency_power is None:
            best = self.over(best, "frequency_power", FREQUENCY_POWERS)
        best = self.along(best, "lam", 1.4)
        if space.theta is None and space.has_theta:
            best = self.over(best, "theta", (0.0, 0.5, 1.0))
        if space.rank is None:
            best = self.along(best, "rank", 2, (4, min(MOST_RANK[space.effort], *m_n)))
        return self.along(best, "lam", 1.2)

    def attempt(self, parameters: Mapping[str, Any]) -> Fitted:
        key = tuple(parameters.values())
        if key not in self.tried:
            self.tried[key] = self.search.attempt(parameters)
        return self.tried[key]

    def along(
        self,
        best: Fitted,
        name: str,
        factor: float,
        limits: tuple[float, float] = (0.0, math.inf),
        beside: str | None = None,
    ) -> Fitted:
        """Multiply a parameter (and the one beside it) by a factor, or else divide it, while that helps."""
        if name == "lam" and self.space.lam is not None:
            return best
        first = best
        for ratio in (factor, 1 / factor):
            while limits[0] <= (value := self._scaled(best.parameters[name], ratio)) <= limits[1]:
                more = {} if beside is None else {beside: best.parameters[beside] * ratio}
                fit = self.attempt({**best.parameters, name: value, **more})
                if not fit.error < best.error * (1 - (GAIN_OF_RANK if name == "rank" else GAIN)):
                    break
                best = fit
            if best is not first:
                break
        return best

    @staticmethod
    def _scaled(value: float, ratio: float) -> float:
        return round(value * ratio) if isinstance(value, int) else value * ratio

    def over(self, best: Fitted, name: str, values: Sequence[float]) -> Fitted:
        """Go up a ladder of values from where the best is, or else down, while that clearly helps."""
        first, place = best, values.index(best.parameters[name])
        for step in (1, -1):
            at = place + step
            while 0 <= at < len(values):
                fit = self.attempt({**best.parameters, name: values[at]})
                if not clearly_better(fit, best):
                    break
                best, at = fit, at + step
            if best is not first:
                break
        return best


def clearly_better(fit: Fitted, best: Fitted) -> bool:
    """Whether lists are better by more than chance: the mean gain against its standard error, over the same rows."""
    assert fit.losses is not None
    assert best.losses is not None
    gains = best.losses - fit.losses
    return bool(gains.mean() > CLEAR * gains.std() / np.sqrt(gains.size))


def noise_level(observations: Observations) -> float:
    """The largest singular value of noise: sqrt(entries on a line of the shorter side) times the size of the grades."""
    grades = Grades.of(observations, 1.0).apply(observations).values.astype(np.float64)
    return float(np.sqrt(observations.nnz / min(observations.shape) * np.mean(grades**2)))
