"""One model of a table's codes, and what it says of missing cells: expected values, draws, how sure they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri

from lorank import registry
from lorank.errors import InputError
from lorank.estimators.codes import NODES, Code, tempered
from lorank.estimators.coding import Coding
from lorank.estimators.columns import Column
from lorank.estimators.completion import MatrixCompletion
from lorank.estimators.conditional import column_moments, conditional
from lorank.estimators.forests import MOST_WIDTH, Forests, fit_forests
from lorank.kernels import Workers
from lorank.models.folding import fold_in_rows
from lorank.observations import Observations
from lorank.solvers import Posterior, gibbs
from lorank.tuning.setting import AUTO
from lorank.types import Array

# The sampler's factors are at most so wide, where nothing is said.
MOST_RANK = 30
# Rows of so many codes at most are filled in by the covariance of the codes; wider ones are folded in.
MOST_SOLVED = 60
# The sampler that was not asked for is fitted to so many rows at most, and to so many for each column of codes.
FITTED_ROWS, ROWS_FOR_EACH = 5000, 100
# Parts of the covariance between columns that are tried to be left out, in turn while that predicts better.
SHRINKAGES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0)
# Strengths that are tried, each half of the one before.
STRENGTHS = 12
# Lower bound on the variance of a code's noise, of which the code has about 1.
LEAST_NOISE = 1e-4


@dataclass(frozen=True)
class Spread:
    """How sure filled cells are; arrays are like the used columns of the table, NaN at cells that were there.

    Attributes
    ----------
    std : array
        Standard deviation of a number in the unit of its column.
    lower, upper : arrays
        Between them a number lies with probability `level`.
    probability : array
        Of the class that was filled in.
    level : float
    """

    std: Array
    lower: Array
    upper: Array
    probability: Array
    level: float


@dataclass(frozen=True)
class Calibration:
    """What held-out cells say of how sure a model may be.

    The standard deviation of numbers is multiplied by `widening`, and chances of classes are raised to `exponent`.
    """

    widening: float = 1.0
    exponent: float = 1.0


@dataclass(frozen=True)
class Filling:
    """How a model of the codes is fitted, and asked."""

    method: registry.Method
    rank: int | str | None
    lam: float | str
    theta: float | str | None
    tol: float
    max_iter: int
    seed: int
    n_jobs: int | None
    shrinkage: float = 0.0

    @property
    def automatic(self) -> bool:
        """Whether nothing about the model is given."""
        return self.rank in (AUTO, None) and self.lam == AUTO and self.theta is None

    @property
    def searches(self) -> bool:
        """Whether the strength of a factored method is searched on cells, and not on single codes of them."""
        return self.lam == AUTO and not self.method.samples and self.method.build_solver("auto").any_loss

    def ranks(self, width: int, rows: int) -> tuple[int | str, ...]:
        """What is tried as rank: the one that is given, or almost all columns; for lam also half and a quarter."""
        if self.rank not in (AUTO, None) or not (self.method.samples or self.searches):
            return (AUTO if self.rank is None else self.rank,)
        most = max(1, min(width - 1, rows - 1, MOST_RANK))
        parts = (most,) if self.method.samples else (most // 2, most, most // 4)
        return tuple(dict.fromkeys(max(1, part) for part in parts))

    def strengths(self, coding: Coding, cells: Array) -> tuple[float | str, ...]:
        """What is tried as lam: parts of the one at which nothing but zero is fitted."""
        if not self.searches:
            return (self.lam,)
        codes, importance = coding.encode(cells), coding.importance
        rows, cols = np.nonzero(~np.isnan(codes))
        zero, values = np.zeros(rows.size), codes[rows, cols]
        loss = coding.loss.at(rows, cols)
        slopes = (loss.learnt(zero, values).at(rows, cols) if coding.loss.learns else loss).derivative(zero, values)
        slopes = slopes if importance is None else slopes * importance[cols]
        matrix = csr_array((slopes, (rows, cols)), codes.shape)
        top = float(np.sqrt(np.linalg.eigvalsh((matrix.T @ matrix).toarray())[-1])) or 1.0
        return tuple(top / 2.0**step for step in range(1, STRENGTHS + 1))

    def shrinkages(self, width: int) -> tuple[float, ...]:
        """By which parts the covariance between so many columns of codes is tried to be shrunk."""
        return SHRINKAGES if self.method.samples and width <= MOST_SOLVED else (self.shrinkage,)

    def columns(self, model: MatrixCompletion) -> tuple[Array, Array]:
        """Mean and covariance of the codes under a sampled model.

        Off its diagonal the covariance is multiplied by 1 - shrinkage: of many columns in few rows a posterior is too
        sure, and at 1 nothing but column means is left.
        """
        posterior = model.model_.posterior
        assert posterior is not None
        mu, S = column_moments(posterior, LEAST_NOISE)
        return mu, (1 - self.shrinkage) * S + self.shrinkage * np.diag(np.diag(S))

    def thetas(self) -> tuple[float | str | None, ...]:
        """What is tried as theta: a middle one, the method's own, and 0, which is safe where a loss has no minimum."""
        known = self.method.parameters
        return (0.5, None, 0.0) if self.searches and self.theta is None and "theta" in known else (self.theta,)

    def fit(self, coding: Coding, cells: Array, weights: Array | None = None) -> MatrixCompletion:
        """The model of the codes of these cells, NaN where one is missing; rows have these weights (rows,)."""
        codes, importance = coding.encode(cells), coding.importance
        m, n = codes.shape
        rank: Any = self.ranks(n, m)[0]
        estimator = MatrixCompletion(
            method=self.method,
            rank=rank,
            lam=AUTO if self.lam == AUTO and not self.method.samples else 1.0 if self.lam == AUTO else self.lam,
            theta=self.theta,
            loss=coding.loss,
            # What is missing more often in some rows than in others moves the means of what is there: the sampler
            # learns the offsets of columns with the rest.
            biases=self.method.samples,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        )
        if weights is None and importance is None:
            return estimator.fit(codes)
        each = np.outer(np.ones(m) if weights is None else weights, np.ones(n) if importance is None else importance)
        return estimator.fit(codes, sample_weight=each)

    def forests(self, coding: Coding, model: MatrixCompletion, cells: Array) -> Forests | None:
        """Trees that add to a sampled model of these cells what it leaves over, if they do."""
        if model.model_.posterior is None:
            return None
        if coding.width > MOST_WIDTH:
            return None
        moments, codes = self.columns(model), coding.encode(cells)
        return fit_forests(*moments, codes, coding.owners, self.seed, self.n_jobs, coding.classes)

    def expected(
        self,
        coding: Coding,
        model: MatrixCompletion,
        cells: Array,
        forests: Forests | None = None,
        fitted: bool = False,
    ) -> Array:
        """What to fill in, at all cells that are missing (elsewhere anything); `fitted` if these are the fit's own."""
        codes, gaps = coding.encode(cells), np.isnan(cells)
        if model.model_.posterior is None and fitted:
            mean = model.result_.factors.dense()
            return coding.with_loss(model.model_.loss).expected(mean, np.zeros(mean.shape), gaps)
        if model.model_.posterior is None:
            importance = coding.importance
            weights = None if importance is None else np.broadcast_to(importance, codes.shape)
            mean = fold_in_rows(model.model_, Observations.from_dense(codes, weights=weights)).dense()
            return coding.with_loss(model.model_.loss).expected(mean, np.zeros(mean.shape), gaps)
        return coding.expected(*self.moments(model, codes, forests), gaps)

    def spread(
        self,
        coding: Coding,
        model: MatrixCompletion,
        cells: Array,
        columns: Sequence[Column],
        level: float,
        calibration: Calibration,
        forests: Forests | None,
    ) -> Spread:
        """Standard deviations, intervals, and probabilities of the classes that are filled in."""
        codes = coding.encode(cells)
        mean, std = self.moments(model, codes, forests)
        std_of, lower, upper, probability = (np.full(cells.shape, np.nan) for _ in range(4))
        for j, (code, at) in enumerate(zip(coding.codes, coding.blocks)):
            gaps = np.isnan(cells[:, j])
            centre, off = mean[gaps, at], std[gaps, at]
            if columns[j].is_class:
                chances = tempered(code.chances(centre, off), calibration.exponent)
                filled = code.expected(centre, off).astype(np.int64)
                probability[gaps, j] = chances[np.arange(filled.size), filled]
                continue
            off = calibration.widening * off
            lower[gaps, j], upper[gaps, j] = interval(columns[j], code, centre, off, level)
            std_of[gaps, j] = np.std([code.number(centre + node * off) for node in NODES], axis=0)
        return Spread(std_of, lower, upper, probability, level)

    def draws(
        self,
        coding: Coding,
        model: MatrixCompletion,
        cells: Array,
        n: int,
        calibration: Calibration,
        forests: Forests | None,
    ) -> Iterator[Array]:
        """n draws of all cells: of the factors of the columns, of those of each row, and of the noise."""
        codes = coding.encode(cells)
        posterior = self._folded(model, codes, apart=True)
        if not 1 <= n <= posterior.draws:
            raise InputError(f"{posterior.draws} draws of the posterior were kept; ask for 1 to {posterior.draws}.")
        shift, ratio = np.zeros(codes.shape), np.ones(codes.shape)
        if forests is not None or self.shrinkage:
            mean, std = replace(self, shrinkage=0.0).moments(model, codes)
            shift, ratio = self.moments(model, codes, forests)
            shift, ratio = shift - mean, ratio / np.maximum(std, np.sqrt(LEAST_NOISE))
        for number, s in enumerate(np.linspace(0, posterior.draws - 1, n).round().astype(np.int64)):
            rng = np.random.default_rng([self.seed, number])
            factors, rows, cols = posterior.draw(int(s))
            noise = calibration.widening * ratio * np.sqrt(np.outer(rows, cols))
            yield coding.drawn(factors.dense().astype(np.float64) + shift, noise, rng, calibration.exponent)

    def _folded(self, model: MatrixCompletion, codes: Array, apart: bool) -> Posterior:
        posterior = model.model_.posterior
        assert posterior is not None
        workers = Workers(self.n_jobs)
        try:
            return gibbs.fold_in(posterior, Observations.from_dense(codes), 0, workers, apart=apart, floor=LEAST_NOISE)
        finally:
            workers.close()

    def moments(self, model: MatrixCompletion, codes: Array, forests: Forests | None = None) -> tuple[Array, Array]:
        """Means and standard deviations of missing codes, zero elsewhere."""
        assert model.model_.posterior is not None
        if codes.shape[1] <= MOST_SOLVED:
            mean, std = conditional(*self.columns(model), codes)
        else:
            posterior = self._folded(model, codes, apart=False)
            rows, cols = np.nonzero(np.isnan(codes))
            mean, std = np.zeros(codes.shape), np.zeros(codes.shape)
            workers = Workers(self.n_jobs)
            try:
                mean[rows, cols] = posterior.predict(rows, cols, workers)
                std[rows, cols] = posterior.std(rows, cols, True, workers)
            finally:
                workers.close()
        return (mean, std) if forests is None else forests.corrected(codes, mean, std, self.n_jobs)


def interval(column: Column, code: Code, centre: Array, off: Array, level: float) -> tuple[Array, Array]:
    """Between which numbers a code N(centre, off^2) lies with probability `level`."""
    quantile = ndtri((1 + level) / 2)
    low, high = (column.cells(code.number(centre + side * quantile * off)) for side in (-1, 1))
    return low, high


def sampled_rows(cells: Array, width: int, seed: int) -> Array:
    """As many rows of these as the sampler needs for this many columns of codes, at random."""
    most = max(FITTED_ROWS, ROWS_FOR_EACH * width)
    if len(cells) <= most:
        return cells
    return cells[np.sort(np.random.default_rng(seed).choice(len(cells), most, replace=False))]


def column_centres(columns: Sequence[Column], cells: Array, weights: Array | None = None) -> Array:
    """What is filled in where nothing else is known: means, the median level of a scale, or the commonest class."""
    centres = np.zeros(len(columns))
    mass = np.ones(len(cells)) if weights is None else weights
    for j, column in enumerate(columns):
        there = ~np.isnan(cells[:, j])
        seen, counts = cells[there, j], mass[there]
        if not seen.size:
            continue
        if not column.is_class:
            centres[j] = np.average(seen, weights=counts)
            continue
        shares = np.bincount(seen.astype(np.int64), counts) / counts.sum()
        centres[j] = shares.argmax() if column.kind != "ordinal" else np.searchsorted(np.cumsum(shares), 0.5)
    return centres
