"""One model of a table's codes, and what it says of missing cells: expected values, draws, how sure they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning

from lorank import registry
from lorank.errors import InputError
from lorank.estimators.coding import NODES, Coding
from lorank.estimators.columns import Column
from lorank.estimators.completion import MatrixCompletion
from lorank.kernels import Workers
from lorank.models.folding import fold_in_rows
from lorank.observations import Observations
from lorank.solvers import Posterior, gibbs
from lorank.tuning.setting import AUTO
from lorank.types import Array

# The sampler's factors are at most so wide, where nothing is said.
MOST_RANK = 30
# Sweeps of a fit that is only compared with others.
TRIAL_SWEEPS = 60
# Cells up to which so many folds are held out in turn; beyond the last, one tenth is held out once.
FOLDS = ((5_000, 5), (100_000, 3))
# Column means are taken if a model is not better than them by this part of their error.
LEAST_GAIN = 1e-3


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

    @property
    def automatic(self) -> bool:
        """Whether nothing about the model is given."""
        return self.rank in (AUTO, None) and self.lam == AUTO and self.theta is None

    def fit(self, codes: Array) -> MatrixCompletion:
        """The model of a matrix of codes, NaN where a cell is missing."""
        m, n = codes.shape
        rank: Any = AUTO if self.rank is None else self.rank
        if self.method.samples and rank == AUTO:
            rank = max(1, min(n - 1, m - 1, MOST_RANK))
        estimator = MatrixCompletion(
            method=self.method,
            rank=rank,
            lam=AUTO if self.lam == AUTO and not self.method.samples else 1.0 if self.lam == AUTO else self.lam,
            theta=self.theta,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        )
        return estimator.fit(codes)

    def expected(self, coding: Coding, model: MatrixCompletion, cells: Array) -> Array:
        """What to fill in, at all cells that are missing (elsewhere anything)."""
        codes = coding.encode(cells)
        observations = Observations.from_dense(codes)
        if model.model_.posterior is None:
            mean = fold_in_rows(model.model_, observations).dense()
            return coding.expected(mean, np.zeros(mean.shape))
        mean, std = self._moments(self._folded(model, codes, apart=False), codes)
        return coding.expected(mean, std)

    def spread(
        self, coding: Coding, model: MatrixCompletion, cells: Array, columns: Sequence[Column], level: float
    ) -> Spread:
        """Standard deviations, intervals, and probabilities of the classes that are filled in."""
        codes = coding.encode(cells)
        mean, std = self._moments(self._folded(model, codes, apart=False), codes)
        std_of, lower, upper, probability = (np.full(cells.shape, np.nan) for _ in range(4))
        quantile = ndtri((1 + level) / 2)
        for j, (code, at) in enumerate(zip(coding.codes, coding.blocks)):
            gaps = np.isnan(cells[:, j])
            centre, off = mean[gaps, at], std[gaps, at]
            if columns[j].is_class:
                chances = code.chances(centre, off)
                filled = code.expected(centre, off).astype(np.int64)
                probability[gaps, j] = np.asarray(chances)[np.arange(filled.size), filled]
                continue
            ends = [code.drawn(centre + side * quantile * off, off) for side in (-1, 1)]
            lower[gaps, j], upper[gaps, j] = (columns[j].cells(end) for end in ends)
            std_of[gaps, j] = np.std([code.drawn(centre + node * off, off) for node in NODES], axis=0)
        return Spread(std_of, lower, upper, probability, level)

    def draws(self, coding: Coding, model: MatrixCompletion, cells: Array, n: int) -> Iterator[Array]:
        """n draws of all cells: of the factors of the columns, of those of each row, and of the noise."""
        codes = coding.encode(cells)
        posterior = self._folded(model, codes, apart=True)
        if not 1 <= n <= posterior.draws:
            raise InputError(f"{posterior.draws} draws of the posterior were kept; ask for 1 to {posterior.draws}.")
        for number, s in enumerate(np.linspace(0, posterior.draws - 1, n).round().astype(np.int64)):
            rng = np.random.default_rng([self.seed, number])
            factors, rows, cols = posterior.draw(int(s))
            means = factors.dense().astype(np.float64)
            noise = np.sqrt(np.outer(rows, cols)) * rng.standard_normal(means.shape)
            yield coding.drawn(means + noise, means, rng.random(cells.shape))

    def _folded(self, model: MatrixCompletion, codes: Array, apart: bool) -> Posterior:
        posterior = model.model_.posterior
        assert posterior is not None
        workers = Workers(self.n_jobs)
        try:
            return gibbs.fold_in(posterior, Observations.from_dense(codes), 0, workers, apart)
        finally:
            workers.close()

    def _moments(self, posterior: Posterior, codes: Array) -> tuple[Array, Array]:
        """Means and standard deviations of missing codes, zero elsewhere."""
        rows, cols = np.nonzero(np.isnan(codes))
        mean, std = np.zeros(codes.shape), np.zeros(codes.shape)
        workers = Workers(self.n_jobs)
        try:
            mean[rows, cols] = posterior.predict(rows, cols, workers)
            std[rows, cols] = posterior.std(rows, cols, True, workers)
        finally:
            workers.close()
        return mean, std


def column_centres(columns: Sequence[Column], cells: Array) -> Array:
    """What is filled in where nothing else is known: means, the median level of a scale, or the commonest class."""
    centres = np.zeros(len(columns))
    for j, column in enumerate(columns):
        seen = cells[~np.isnan(cells[:, j]), j]
        if not seen.size:
            continue
        if not column.is_class:
            centres[j] = seen.mean()
        elif column.kind == "ordinal":
            centres[j] = np.sort(seen)[(seen.size - 1) // 2]
        else:
            centres[j] = np.bincount(seen.astype(np.int64)).argmax()
    return centres


def cross_validated(
    filling: Filling, columns: Sequence[Column], cells: Array, scales: Sequence[str], mean: bool = True
) -> tuple[str, dict[str, float]]:
    """The scale whose fits predict held-out cells best, or "mean", and the errors as parts of that of column means.

    The error of a column of numbers is the mean square, that of classes the share of wrong ones; each is divided by
    the error of the column's centre, and they are averaged over the held-out cells.
    """
    rows, cols = np.nonzero(~np.isnan(cells))
    rng = np.random.default_rng(filling.seed)
    folds = next((folds for most, folds in FOLDS if rows.size <= most), 0)
    parts = np.array_split(rng.permutation(rows.size), folds) if folds else [rng.permutation(rows.size)[::10]]
    trial = replace(filling, max_iter=min(filling.max_iter, TRIAL_SWEEPS))
    errors = {scale: np.zeros(len(columns)) for scale in scales}
    base = np.zeros(len(columns))
    for part in parts:
        at = rows[part], cols[part]
        train = cells.copy()
        train[at] = np.nan
        if np.isnan(train).all():
            return scales[0], {}
        truth = cells[at]
        base += _errors(columns, np.broadcast_to(column_centres(columns, train), cells.shape)[at], truth, at[1])
        for scale in scales:
            coding = Coding(columns, train, scale)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = trial.fit(coding.encode(train))
            expected = trial.expected(coding, model, train)
            errors[scale] += _errors(columns, expected[at], truth, at[1])
    counts = np.bincount(cols, minlength=len(columns))[base > 0]
    if not counts.size:
        return scales[0], {}
    parts_of = {
        scale: float(np.sqrt(counts @ (error[base > 0] / base[base > 0]) / counts.sum()))
        for scale, error in errors.items()
    }
    best = min(parts_of, key=parts_of.__getitem__)
    if mean and parts_of[best] > 1 - LEAST_GAIN:
        best = "mean"
    return best, parts_of


def _errors(columns: Sequence[Column], filled: Array, truth: Array, cols: Array) -> Array:
    """Sum of the errors of each column: squares, or wrong classes."""
    is_class = np.array([column.is_class for column in columns])[cols]
    errors = np.where(is_class, filled != truth, (filled - truth) ** 2)
    return np.bincount(cols, errors, minlength=len(columns))
