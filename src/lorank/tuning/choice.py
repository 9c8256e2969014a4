"""Which kind of model: offsets alone, a point estimate or a sampler, each with more or less that is known; data decide.

A *kind* is a method with what goes with it (features, a loss). Kinds are tried from the simplest to the most costly,
each by a strategy of its own: a path for those with a weight to choose, a short chain for those that draw theirs.
The held-out entries decide, and with care for noise: every kind is judged on the same entries, so that it is the
differences of the squared errors, entry by entry, that matter. With d_t these differences and s their standard
deviation over n entries,

    the simpler kind is kept unless  mean(d) > s / sqrt(n),

one standard error. So what is chosen is never worse than what is simpler, offsets alone in the first place, by more
than noise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank.observations import Observations
from lorank.solvers import Solver, Status, Stopping, solve
from lorank.tuning.held_out import Build, setting_of
from lorank.tuning.search import FAILURES, Candidate, Found, Judgement, Search, SearchOver
from lorank.tuning.trial_log import Fitted, TrialLog
from lorank.tuning.trials import CANDIDATE, TrialStatus
from lorank.types import Array

# Standard errors by which the more costly kind must be better.
STANDARD_ERRORS = 1.0

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
    """

    name: str
    judge: Callable[[Candidate], Judgement]
    strategy: Callable[[Search, Fitted | None], Fitted]
    expected: int = 1


def choose(kinds: Sequence[Kind], held_out: Observations, log: TrialLog, max_seconds: float = math.inf) -> Found:
    """The best fit of all kinds, tried in order; a later one takes the place of the best only if it is clearly better.

    A kind that fails is a trial that says why. When time is up, the best so far is given back.
    """
    judges = {kind.name: kind.judge for kind in kinds}
    search = Search(lambda candidate: judges[candidate.parameters[CANDIDATE]](candidate), log, max_seconds)

    # A search that is resumed compares them again: as long as they are referred to, they are saved.
    compared: list[Fitted] = []

    def strategy() -> Fitted:
        best: Fitted | None = None
        for index, kind in enumerate(kinds):
            log.expect_later(sum(later.expected for later in kinds[index + 1 :]))
            try:
                found = kind.strategy(search, best)
            except SearchOver:
                if best is None:
                    raise
                return best
            if best is not None and math.isfinite(found.error):
                gain, told = _difference(found, best, held_out)
                found = log.remark(found, told)
                best = found if gain > 0 else best
            compared.append(found)
            best = best or found
        assert best is not None
        return best

    return search.run(strategy)


def _difference(fitted: Fitted, best: Fitted, held_out: Observations) -> tuple[float, str]:
    """By how much a fit is better than the best one beyond noise, and a sentence about it."""
    gain, error = paired(_losses(fitted, held_out), _losses(best, held_out))
    # As a part of the root mean squared error: d(e^2) = 2 e de.
    scale = max(2 * best.error**2, 1e-300)
    told = f"{abs(gain) / scale:.2%} +- {error / scale:.2%} {'better' if gain > 0 else 'worse'} than {best.trial.name}"
    return gain - STANDARD_ERRORS * error, told


def paired(losses: Array, others: Array) -> tuple[float, float]:
    """By how much the mean of `losses` is below that of `others` at the same entries, and its standard error."""
    differences = others - losses
    if differences.size < 2:
        return float(differences.mean()), math.inf
    return float(differences.mean()), float(differences.std(ddof=1) / math.sqrt(differences.size))


def _losses(fitted: Fitted, held_out: Observations) -> Array:
    """Squared errors at the held-out entries, times their weights where they have any."""
    if fitted.losses is not None:
        return fitted.losses
    predicted = fitted.factors.predict(held_out.rows, held_out.cols)
    squares = (predicted - held_out.values).astype(np.float64) ** 2
    return np.asarray(squares if held_out.weights is None else squares * held_out.weights / held_out.weights.mean())


@dataclass(frozen=True)
class SamplerJudge:
    """Draws a short chain on the training part; its mean predicts the held-out part.

    The Monte Carlo error of a short chain counts against it, so that it must be better by that much more.

    Parameters
    ----------
    build : function of (observations, setting)
    solver : Solver
        One that samples; it says itself how short a chain may be (`for_trial`).
    train, held_out : Observations
    seed : int
    """

    build: Build
    solver: Solver
    train: Observations
    held_out: Observations
    seed: int

    def __call__(self, candidate: Candidate) -> Judgement:
        solver, sweeps = self.solver.for_trial()
        limit = candidate.seconds if math.isfinite(candidate.seconds) else None
        try:
            problem = self.build(self.train, setting_of(candidate.parameters))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                result = solve(solver, problem, stopping=Stopping(max_iter=sweeps, max_seconds=limit), seed=self.seed)
        except FAILURES as failure:
            return Judgement(math.inf, None, TrialStatus.FAILED, f"{type(failure).__name__}: {failure}")
        assert result.posterior is not None
        predicted = result.posterior.predict(self.held_out.rows, self.held_out.cols).astype(np.float64)
        losses = (predicted - self.held_out.values) ** 2
        status = {Status.INTERRUPTED: TrialStatus.INTERRUPTED, Status.TIME_LIMIT: TrialStatus.OUT_OF_TIME}
        # Of the draws nothing is kept but factors of the rank that was asked for.
        point = replace(result, factors=result.summary, posterior=None)
        return Judgement(
            float(np.sqrt(losses.mean())), point, status.get(result.status, TrialStatus.FINISHED), losses=losses
        )
