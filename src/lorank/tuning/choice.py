"""Which kind of model: offsets alone, a point estimate or a sampler, each with more or less that is known; data decide.

A *kind* is a method with what goes with it (features, a loss). Kinds are tried from the simplest to the most costly,
each by a strategy of its own: a path for those with a weight to choose, a short chain for those that draw theirs.
The held-out entries decide, and with care for noise: every kind is judged on the same entries, so that it is the
differences of the squared errors, entry by entry, that matter. With d_t these differences and s their standard
deviation over n entries,

    the simpler kind is kept unless  mean(d) > s / sqrt(n),

one standard error. So what is chosen is never worse than what is simpler, offsets alone in the first place, by more
than noise. The best of many trials on the held-out entries is better there than anywhere else, by about as much: one
standard error. A kind of which nothing was tuned there (a sampler) need not be better by noise than one that was;
of offsets alone nothing was.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank.observations import Observations
from lorank.observations.checks import extreme
from lorank.problems import Problem
from lorank.solvers import Posterior, Result, Solver, Status, Stopping, solve
from lorank.tuning.held_out import STANDARD_ERRORS, Build, Part, losses_at, paired, setting_of, weighted
from lorank.tuning.search import FAILURES, Candidate, Found, Judgement, Search, SearchOver
from lorank.tuning.trial_log import Fitted, TrialLog
from lorank.tuning.trials import CANDIDATE, TrialStatus
from lorank.types import Array

# Held-out entries that are enough to compare kinds, and batches of draws that tell the Monte Carlo error of their mean.
ENOUGH, BATCHES = 5000, 4
# Training entries that are enough to compare kinds; trials on more of them are in single precision.
LARGE = 300_000
# Values with a standard deviation below this part of the largest one are not told apart well enough by that.
DISTINCT = 1e-3
# A difference below this part of the loss of the first and simplest trial is none: both have all there is to learn.
RESOLUTION = 1e-6
# How much time may be spent: what is tried beside the point estimate.
EFFORTS = ("fast", "balanced", "best")


@dataclass(frozen=True)
class Kind:
    """A kind of model that may be chosen.

    Attributes
    ----------
    name : str
        In plain words; its trials have it as their parameter "candidate".
    judge : function of a Candidate that returns a Judgement
    strategy : function of (search, the best fit of simpler kinds or None)
        Tries what it wants and returns its best fit.
    expected : int
        About how many trials that takes.
    tuned : bool
        Whether its strategy chooses the best of many trials on the held-out entries.
    whole : Kind, optional
        The same on all of the data, if this one is judged on a part of it: what is tried last, if this one is chosen.
    aspects : tuple
        In what it may differ from others (features, a graph's weight, ...): one at a time. It is not tried if it
        differs in more than one from the best so far, so that kinds are not all combinations of their aspects.
    """

    name: str
    judge: Callable[[Candidate], Judgement]
    strategy: Callable[[Search, Fitted | None], Fitted]
    expected: int = 1
    tuned: bool = False
    whole: Kind | None = None
    aspects: tuple[object, ...] = ()

    def is_near(self, other: Kind) -> bool:
        """Whether it differs in one aspect at most, of those that both have."""
        return sum(mine != theirs for mine, theirs in zip(self.aspects, other.aspects)) <= 1


def enough(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """So many of the first parts that there are ENOUGH held-out entries to compare kinds."""
    sizes = np.cumsum([held_out.nnz for _, held_out in parts])
    return parts[: int(np.searchsorted(sizes, ENOUGH)) + 1]


def thinned(parts: tuple[Part, ...], seed: int) -> tuple[Part, ...]:
    """The entries of some rows, drawn at random, where there are more than LARGE to train on; the shape stays."""
    train = parts[0][0]
    if train.nnz <= LARGE:
        return parts
    rows = np.random.default_rng(seed).random(train.shape[0]) < LARGE / train.nnz
    return tuple((seen.subset(rows[seen.rows]), unseen.subset(rows[unseen.rows])) for seen, unseen in parts[:1])


def in_single_precision(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """In float32 where there are more than LARGE entries to train on: about twice as fast, and as good to choose by."""
    values = parts[0][0].values
    if values.size <= LARGE or float(values.std()) < DISTINCT * float(np.abs(values).max()):
        return parts
    with np.errstate(over="ignore"):
        if extreme(values.astype(np.float32)) >= 0:
            return parts
    return tuple((seen.astype(np.float32), unseen.astype(np.float32)) for seen, unseen in parts)


def choose(kinds: Sequence[Kind], log: TrialLog, max_seconds: float = math.inf) -> Found:
    """The best fit of all kinds, tried in order; a later one takes the place of the best only if it is clearly better.

    A kind that fails is a trial that says why. When time is up, the best so far is given back.
    """
    known = {kind.name: kind for kind in kinds}
    judges = {one.name: one.judge for kind in kinds for one in (kind, kind.whole) if one is not None}
    search = Search(lambda candidate: judges[candidate.parameters[CANDIDATE]](candidate), log, max_seconds)
    # A search that is resumed compares them again: as long as they are referred to, they are saved.
    compared: list[Fitted] = []

    def strategy() -> Fitted:
        best: Fitted | None = None
        for index, kind in enumerate(kinds):
            if best is not None and not kind.is_near(known[best.parameters[CANDIDATE]]):
                continue
            log.expect_later(sum(later.expected for later in kinds[index + 1 :]))
            try:
                found = kind.strategy(search, best)
            except SearchOver:
                if best is None:
                    raise
                return best
            if best is not None and math.isfinite(found.error):
                alone = best.parameters.get("rank") == 0
                gain, remark, error = _difference(found, best, kind.tuned or alone, log.trials[0].error ** 2)
                found = log.remark(found, remark, error)
                best = found if gain > 0 else best
            compared.append(found)
            best = best or found
        assert best is not None
        whole = known[best.parameters[CANDIDATE]].whole
        try:
            return best if whole is None else whole.strategy(search, best)
        except SearchOver:
            return best

    return search.run(strategy)


def _difference(fitted: Fitted, best: Fitted, tuned: bool, simplest: float) -> tuple[float, str, float]:
    """By how much a fit is better than the best one beyond noise, a sentence about it, and the error that goes with it.

    That is the best one's error times the ratio of both on the entries that both were judged on. `tuned` if it was
    tuned on the held-out entries, or the best one is offsets alone; `simplest` is the loss of the first trial.
    """
    assert fitted.losses is not None
    assert best.losses is not None
    gain, error = paired(fitted.losses, best.losses)
    margin = max(STANDARD_ERRORS * error if tuned else 0.0, RESOLUTION * simplest)
    # As a part of the root mean squared error: d(e^2) = 2 e de.
    before = max(float(best.losses[: fitted.losses.size].mean()), 1e-300)
    ratio = math.sqrt(max(1 - gain / before, 0.0))
    much = f"{abs(1 - ratio):.2%} +- {error / (2 * before):.2%}" if abs(gain) <= 2 * before else "far"
    remark = f"{much} {'better' if gain > 0 else 'worse'} than {best.trial.name}"
    return gain - margin, remark, ratio * best.trial.kind_error


@dataclass(frozen=True)
class SamplerJudge:
    """Draws a short chain on each training part; its mean predicts the held-out part.

    The mean of a short chain has a Monte Carlo error, which that of a long one has not: with v_t its variance at entry
    t, by the means of batches of draws, (mean - value)^2 is larger by v_t than it will be. So v_t, but no more than
    half of all losses, is taken off the losses that kinds are compared by; the error is the measured one.

    Parameters
    ----------
    build : function of (observations, setting)
    solver : Solver
        One that samples; it says itself how short a chain may be (`for_trial`).
    parts : pairs of Observations, to learn from and to judge by
    seed : int
    """

    build: Build
    solver: Solver
    parts: tuple[Part, ...]
    seed: int

    def __call__(self, candidate: Candidate) -> Judgement:
        deadline = time.perf_counter() + candidate.seconds
        squares: list[Array] = []
        losses: list[Array] = []
        results: list[Result] = []
        for train, held_out in self.parts:
            try:
                problem = self.build(train, setting_of(candidate.parameters))
                result = self._chain(problem, deadline)
            except FAILURES as failure:
                return Judgement(math.inf, None, TrialStatus.FAILED, f"{type(failure).__name__}: {failure}")
            assert result.posterior is not None
            excess = weighted(monte_carlo_variance(result.posterior, held_out), held_out)
            predicted = result.posterior.predict(held_out.rows, held_out.cols)
            squares.append(losses_at(predicted, problem.pointwise, held_out))
            part = min(1.0, squares[-1].mean() / 2 / max(float(excess.mean()), 1e-300))
            losses.append(squares[-1] - part * excess)
            # Of the draws nothing is kept but factors of the rank that was asked for.
            results.append(replace(result, factors=result.summary, posterior=None))
            if result.status is Status.INTERRUPTED:
                break
        error = math.sqrt(np.concatenate(squares).mean())
        ended = {Status.INTERRUPTED: TrialStatus.INTERRUPTED, Status.TIME_LIMIT: TrialStatus.OUT_OF_TIME}
        status = ended.get(results[-1].status, TrialStatus.FINISHED)
        return Judgement(error, results[0], status, losses=np.concatenate(losses))

    def _chain(self, problem: Problem, deadline: float) -> Result:
        solver, sweeps = self.solver.for_trial(problem.observations.nnz)
        left = max(deadline - time.perf_counter(), 1e-3)
        stopping = Stopping(max_iter=sweeps, max_seconds=left if math.isfinite(left) else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return solve(solver, problem, stopping=stopping, seed=self.seed)


def monte_carlo_variance(posterior: Posterior, held_out: Observations) -> Array:
    """Variance of the mean of the draws at each entry, by the means of BATCHES batches, for draws depend on each other.

    0 if there are too few draws to tell.
    """
    length = posterior.draws // BATCHES
    if length < 2:
        return np.zeros(held_out.nnz)
    means = [
        posterior.part(start * length, (start + 1) * length).predict(held_out.rows, held_out.cols).astype(np.float64)
        for start in range(BATCHES)
    ]
    return np.asarray(np.var(means, axis=0, ddof=1) / BATCHES)
