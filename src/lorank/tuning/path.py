"""lam, rank, theta and biases chosen on a held-out part of the data, by one warm-started path.

A grid costs the product of its sides. A path costs a few fits, because:

- Above lam_max, the largest singular value of what was observed, the nuclear norm's solution is zero. From there lam
  goes down until the held-out error rises, each trial starting from the last one, at a small rank, where a sweep costs
  a fraction. The rank is then doubled while it pays.
- Noise spreads over more directions at a higher rank: the best lam grows about as the square root of the rank, so that
  the next rank's search starts next to its end. Where the singular values then have a gap, the rank below it is tried.
- A trial ends when a sweep hardly changes the held-out error, and before that if it cannot catch up with the best.

theta and other parameters of the method, then lam between the steps, then biases follow at that rank.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import svds

from lorank.linalg import Factors, narrowed, without_biases
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.registry import Method
from lorank.solvers import Checkpoint, Progress, Result, Solver, Status, Stopping, solve
from lorank.tuning.record import SETTLED, Point, Record, Tell
from lorank.tuning.setting import AUTO, Setting
from lorank.tuning.trials import Trial, Trials

# A trial is given up when it would lose by this part even if four times its last gain were still to come.
BEHIND, PROSPECT = 1e-3, 4.0
# Sweeps of one trial: a random start may hold still at first, and one that needs more than the most has a flat end.
LEAST_SWEEPS, MOST_SWEEPS = 5, 20
# A singular value so many times the next one marks a gap.
GAP = 3.0
# The rank at which the path is walked; it is doubled from there, or halved.
FIRST_RANK = 4
# lam goes down the path by this factor, at most to this part of its top; at a rank that is new, by FINE.
COARSE, LOWEST, FINE = 4.0, 1e-7, 2.0
# Two weights closer than by this factor are one.
NEAR = 1.05

Build = Callable[[Observations, Setting], Problem]


@dataclass(frozen=True)
class Wanted:
    """The values of the parameters that are given; None for those to search, "auto" for a theta to search."""

    lam: float | None
    rank: int | None
    theta: float | str | None
    biases: bool | None
    # What is tried of the method's parameters that are searched, by name; the first one first.
    searched: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuned:
    """The best setting, the fit on the training part that it was judged by, and all trials."""

    setting: Setting
    result: Result
    trials: Trials
    interrupted: bool


def wanted(method: Method, lam: Any, rank: Any, theta: Any, biases: Any) -> Wanted:
    """What to search, from an estimator's parameters, any of them "auto"."""
    if theta == AUTO and "theta" not in method.parameters:
        theta = None
    if lam == AUTO and "lam" not in method.parameters and biases is False:
        lam = 1.0
    return Wanted(
        None if lam == AUTO else float(lam),
        None if rank == AUTO else int(rank),
        theta if theta is None or theta == AUTO else float(theta),
        None if isinstance(biases, str) else bool(biases),
        {name: method.candidates(name) for name in (("theta",) if theta == AUTO else ()) + method.automatic},
    )


def tune(
    wanted: Wanted,
    build: Build,
    solver: Solver,
    train: Observations,
    held_out: Observations,
    seed: int,
    max_seconds: float | None = None,
    checkpoint: Checkpoint | None = None,
    tell: Tell | None = None,
) -> Tuned:
    """Search whatever is None in `wanted`; the same seed and data give the same path.

    Parameters
    ----------
    build : function of (observations, setting)
        Makes the problem; all else about it stays as it is.
    train, held_out : Observations
    max_seconds : float, optional
        The search ends with the best it has after this time.
    checkpoint : Checkpoint, optional
        Trials are kept there; a search that was cut off goes on from it.
    tell : function of (done, expected), optional
        Called after each trial.
    """
    fixed = wanted.lam is not None
    most = min(train.shape)
    rank = min(FIRST_RANK, most) if wanted.rank is None else max(wanted.rank // 2, min(wanted.rank, FIRST_RANK))
    stages = {
        "walk": 1 if fixed else 6,
        "rank": 7 if wanted.rank is None else 2 * (rank != wanted.rank),
        "parameters": sum(len(values) - 1 for values in wanted.searched.values()),
        "lam": 0 if fixed else 2,
        "biases": int(wanted.biases is None),
    }
    record = Record(checkpoint, tell, stages)
    best = record.settled()
    if best is not None:
        return Tuned(best.setting, best.result, Trials(record.trials).choosing(best.setting), False)
    search = _Search(build, solver, train, held_out, seed, max_seconds, record)
    try:
        best = search.run(wanted, rank, most, fixed)
        if not search.interrupted:
            record.settle(best)
    except KeyboardInterrupt:  # between two trials; within one it ends that trial
        record.save()
        raise
    return Tuned(best.setting, best.result, Trials(record.trials).choosing(best.setting), search.interrupted)


def lam_max(observations: Observations, centred: bool) -> float:
    """The largest singular value of the observed matrix (missing entries 0), less its mean with biases.

    No lam above it leaves anything of the nuclear norm's solution.
    """
    values = observations.values.astype(np.float64)
    matrix = observations.with_values(values - values.mean() if centred else values).to_sparse()
    if not matrix.data.any():
        return 1.0
    if min(matrix.shape) < 3:
        return float(np.linalg.norm(matrix.toarray(), 2))
    first = np.random.default_rng(0).standard_normal(min(matrix.shape))
    return float(svds(matrix, k=1, tol=1e-2, v0=first, return_singular_vectors=False)[0])


def _at_rank(best: Point, rank: int, fixed: bool) -> Setting:
    """The setting to try first at another rank."""
    lam = best.setting.lam * (1.0 if fixed else math.sqrt(rank / best.setting.rank))
    return replace(best.setting, rank=rank, lam=lam)


class _Search:
    """Trials on one split of the data."""

    def __init__(
        self,
        build: Build,
        solver: Solver,
        train: Observations,
        held_out: Observations,
        seed: int,
        max_seconds: float | None,
        record: Record,
    ) -> None:
        self.build, self.solver, self.train, self.held_out, self.seed = build, solver, train, held_out, seed
        self.deadline = math.inf if max_seconds is None else time.perf_counter() + max_seconds
        self.record = record
        self.interrupted = False
        self.widest: Point | None = None

    @property
    def over(self) -> bool:
        return self.interrupted or time.perf_counter() > self.deadline

    def run(self, wanted: Wanted, rank: int, most: int, fixed: bool) -> Point:
        """All stages; the best point."""
        biases = wanted.biases is not False
        self.record.begin("walk")
        top = wanted.lam if wanted.lam is not None else lam_max(self.train, biases)
        first = Setting(top, rank, None if isinstance(wanted.theta, str) else wanted.theta, biases)
        for name, values in wanted.searched.items():
            first = first.having(name, values[0])
        best = self.walk(first, fixed)
        self.record.begin("rank")
        if wanted.rank is None:
            for factor in (2.0, 0.5):
                better = self.climb(best, factor, most, fixed)
                if better is not best:
                    best = better
                    break
            best = self.below_gap(best, fixed)
        elif rank != wanted.rank:
            best = self.around(_at_rank(best, wanted.rank, fixed), fixed, None)
        self.record.begin("parameters")
        for name, values in wanted.searched.items():
            best = self.best_of(best, [best.setting.having(name, value) for value in values])
        self.record.begin("lam")
        if not fixed:
            best = self.between(best)
        self.record.begin("biases")
        if wanted.biases is None:
            best = self.best_of(best, [replace(best.setting, biases=False)])
        return best

    def attempt(self, setting: Setting, start: Factors | None, rival: Point | None = None) -> Point:
        """Fit one setting, from these factors, until the held-out error settles or has lost against the rival's."""
        known = self.record.known(setting)
        if known is not None:
            return self.record.add(*known)
        began = time.perf_counter()
        problem = self.build(self.train, setting)
        if start is not None and start.biased and not setting.biases:
            start = without_biases(start)
        least = LEAST_SWEEPS if start is None else 2
        watch = _Watch(problem, self.held_out, math.inf if rival is None else rival.error, least, self.deadline)
        result = solve(
            self.solver,
            problem,
            start=start,
            stopping=Stopping(tol=0.0, max_iter=MOST_SWEEPS + 1),
            callbacks=[watch],
            seed=self.seed,
        )
        if result.status is Status.INTERRUPTED:
            self.interrupted = True
            self.record.cut_off()
        seconds = time.perf_counter() - began
        trial = Trial.of(setting, watch.error, result.n_iter, seconds)
        return self.record.add(trial, Point(setting, watch.error, result))

    def walk(self, setting: Setting, fixed: bool) -> Point:
        """Down from this setting's lam until the error rises or stays; the best point."""
        best = point = self.attempt(setting, None)
        while not (fixed or self.over) and point.setting.lam > LOWEST * setting.lam:
            lam = point.setting.lam / COARSE
            point = self.attempt(replace(point.setting, lam=lam), point.result.factors, best)
            # Near the top everything is shrunk to nothing: the first steps need not be better.
            if not point.beats(best) and len(self.record.trials) > 2:
                break
            best = point
        return min(best, point, key=lambda p: p.error)

    def climb(self, best: Point, factor: float, most: int, fixed: bool) -> Point:
        """Multiply the rank by this factor as long as it pays; of two ranks that are as good, the smaller one."""
        while not self.over and 1 <= (rank := int(best.setting.rank * factor)) <= most:
            point = self.around(_at_rank(best, rank, fixed), fixed, best)
            if best.beats(point) if factor < 1 else not point.beats(best):
                break
            best = point
        return best

    def around(self, setting: Setting, fixed: bool, rival: Point | None, start: Factors | None = None) -> Point:
        """A setting, then, unless it has lost already, its lam down, or else up, while that helps."""
        first = best = self.attempt(setting, start, rival)
        if fixed or (rival is not None and first.error > (1 + BEHIND) * rival.error):
            return first
        for factor in (1 / FINE, FINE):
            point = best
            while not self.over and best.setting.lam > LOWEST * setting.lam:
                lam = point.setting.lam * factor
                point = self.attempt(replace(point.setting, lam=lam), point.result.factors, best)
                if not point.beats(best):
                    break
                best = point
            if best is not first:
                break
        return best

    def below_gap(self, best: Point, fixed: bool) -> Point:
        """The rank below the widest gap between singular values, if it does as well."""
        self.widest = best  # held, for a search that is resumed later looks at its spectrum again
        sigma = best.result.factors.singular_values()
        ratios = sigma[:-1] / np.maximum(sigma[1:], 1e-12 * sigma[0] + 1e-300)
        if self.over or not ratios.size or ratios.max() < GAP:
            return best
        rank = int(np.argmax(ratios)) + 1
        start = narrowed(best.result.factors, rank)
        point = self.around(_at_rank(best, rank, fixed), fixed, best, start)
        # Of two that are as good, the smaller one.
        return best if best.beats(point) else point

    def between(self, best: Point) -> Point:
        """lam between the steps: the vertex of the parabola through the errors, over log lam, of the nearest trials."""
        same = [t for t in self.record.trials if replace(t.setting, lam=best.setting.lam) == best.setting]
        known = {math.log(trial.lam): trial.error for trial in same}
        middle = math.log(best.setting.lam)
        for side in (-1, 1):
            if not any((x - middle) * side > 0 for x in known) and not self.over:
                setting = replace(best.setting, lam=best.setting.lam * FINE**side)
                known[math.log(setting.lam)] = self.attempt(setting, best.result.factors, best).error
        lower, upper = [x for x in known if x < middle], [x for x in known if x > middle]
        if not lower or not upper or self.over:
            return best
        x = np.array([max(lower), middle, min(upper)])
        curve = np.polyfit(x - middle, [known[at] for at in x], 2)
        if curve[0] <= 0:
            return best
        vertex = np.clip(middle - curve[1] / (2 * curve[0]), x[0], x[2])
        if np.abs(vertex - x).min() < math.log(NEAR):
            return best
        return self.best_of(best, [replace(best.setting, lam=float(np.exp(vertex)))])

    def best_of(self, best: Point, others: Iterable[Setting]) -> Point:
        """The best of a point and other settings, each from that point's factors."""
        first = best
        for setting in others:
            if setting != first.setting and not self.over:
                point = self.attempt(setting, first.result.factors, best)
                best = point if point.beats(best) else best
        return best


class _Watch:
    """Follows the held-out error of a trial, and ends it when it has settled or lost, or time is up."""

    def __init__(self, problem: Problem, held_out: Observations, rival: float, least: int, deadline: float) -> None:
        self.problem, self.held_out, self.rival, self.least, self.deadline = problem, held_out, rival, least, deadline
        self.error = math.inf

    def __call__(self, progress: Progress) -> bool:
        before, self.error = self.error, self.problem.error(progress.factors, self.held_out)
        gain = before - self.error
        settled = abs(gain) < SETTLED * self.error
        lost = self.error - PROSPECT * max(gain, 0.0) > (1 + BEHIND) * self.rival
        done = progress.iteration >= self.least and (settled or lost)
        return done or progress.iteration >= MOST_SWEEPS or time.perf_counter() > self.deadline
