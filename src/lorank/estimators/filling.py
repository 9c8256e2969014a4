"""One model of a table's codes, and what it says of missing cells: expected values, draws, how sure they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning

from lorank import registry
from lorank.errors import InputError
from lorank.estimators.codes import NODES
from lorank.estimators.coding import Coding
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
# Strengths that are tried, each half of the one before, until the error is so many times the smallest.
STRENGTHS, RISEN = 12, 1.03
# Sweeps of a fit that is only compared with others.
TRIAL_SWEEPS = 50
# Cells up to which so many folds are held out in turn; beyond the last, one tenth is held out once.
FOLDS = ((1_000, 5), (100_000, 3))
# Lower bound on the variance of a code's noise, of which the code has about 1.
LEAST_NOISE = 1e-4
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

    @property
    def searches(self) -> bool:
        """Whether the strength of a factored method is searched on cells, and not on single codes of them."""
        return self.lam == AUTO and not self.method.samples and self.method.build_solver("auto").any_loss

    def ranks(self, width: int, rows: int) -> tuple[int | str, ...]:
        """What is tried as rank: the one that is given, almost all columns, half of them, and for lam a quarter."""
        if self.rank not in (AUTO, None) or not (self.method.samples or self.searches):
            return (AUTO if self.rank is None else self.rank,)
        most = max(1, min(width - 1, rows - 1, MOST_RANK))
        parts = (most, most // 2) if self.method.samples else (most // 2, most, most // 4)
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

    def expected(self, coding: Coding, model: MatrixCompletion, cells: Array, fitted: bool = False) -> Array:
        """What to fill in, at all cells that are missing (elsewhere anything); `fitted` if these are the fit's own."""
        codes = coding.encode(cells)
        if model.model_.posterior is None and fitted:
            mean = model.result_.factors.dense()
            return coding.with_loss(model.model_.loss).expected(mean, np.zeros(mean.shape))
        if model.model_.posterior is None:
            importance = coding.importance
            weights = None if importance is None else np.broadcast_to(importance, codes.shape)
            mean = fold_in_rows(model.model_, Observations.from_dense(codes, weights=weights)).dense()
            return coding.with_loss(model.model_.loss).expected(mean, np.zeros(mean.shape))
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
            ends = [code.number(centre + side * quantile * off) for side in (-1, 1)]
            lower[gaps, j], upper[gaps, j] = (columns[j].cells(end) for end in ends)
            std_of[gaps, j] = np.std([code.number(centre + node * off) for node in NODES], axis=0)
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
            yield coding.drawn(factors.dense().astype(np.float64), np.sqrt(np.outer(rows, cols)), rng)

    def _folded(self, model: MatrixCompletion, codes: Array, apart: bool) -> Posterior:
        posterior = model.model_.posterior
        assert posterior is not None
        workers = Workers(self.n_jobs)
        try:
            return gibbs.fold_in(posterior, Observations.from_dense(codes), 0, workers, apart=apart, floor=LEAST_NOISE)
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


class Candidate(NamedTuple):
    """What is tried: a scale, and parameters of the method."""

    scale: str
    rank: int | str | None
    lam: float | str = AUTO
    theta: float | str | None = None

    def __str__(self) -> str:
        named = {"rank": self.rank, "lam": self.lam, "theta": self.theta}
        given = [f"{name} {value:.3g}" for name, value in named.items() if isinstance(value, int | float)]
        return ", ".join([self.scale, *given])


def cross_validated(
    filling: Filling,
    columns: Sequence[Column],
    cells: Array,
    scales: Sequence[str],
    mean: bool,
    weights: Array | None = None,
) -> tuple[str, Filling, dict[str, float]]:
    """The scale and parameters that predict held-out cells best ("mean" for column means), and the errors of all.

    The error of a column of numbers is the mean square, that of classes the share of wrong ones; each is divided by
    the error of the column's centre, and the root of their mean over the held-out cells is taken. On the first fold
    candidates are tried one parameter after the other, and the best two on all folds.
    """
    if mean and min(cells.shape) < 2:  # one row, or one column, says nothing of another
        return "mean", filling, {}
    judge = _Judge(filling, columns, cells, weights)
    coding = Coding(columns, cells, scales[0], weights)
    ranks = filling.ranks(coding.width, len(cells))
    lams, thetas = filling.strengths(coding, cells), filling.thetas()
    first = Candidate(scales[0], ranks[0], lams[0], thetas[0])
    errors: dict[Candidate, Array] = {}

    def error(candidate: Candidate) -> float:
        return judge.mean(errors[candidate])

    for name, values in (("scale", scales), ("lam", lams), ("rank", ranks), ("theta", thetas)):
        best = min(errors, key=error) if errors else first
        for value in values:
            changed: dict[str, Any] = {name: value}
            candidate = best._replace(**changed)
            if candidate not in errors:
                errors[candidate] = judge(0, candidate)
            # Along a path of strengths the error falls, and then rises.
            if name == "lam" and error(candidate) > RISEN * min(map(error, errors)):
                break
    finalists = sorted(errors, key=error)[:2]
    for fold in range(1, judge.folds):
        for candidate in finalists:
            errors[candidate] = errors[candidate] + judge(fold, candidate)
    parts = {str(candidate): error(candidate) for candidate in errors}
    best = min(finalists, key=error)
    if mean and not error(best) < 1 - LEAST_GAIN:
        return "mean", filling, parts
    return best.scale, replace(filling, rank=best.rank, lam=best.lam, theta=best.theta), parts


class _Judge:
    """Errors of fits on cells that are held out, fold by fold."""

    def __init__(self, filling: Filling, columns: Sequence[Column], cells: Array, weights: Array | None) -> None:
        self.columns, self.cells, self.weights = columns, cells, weights
        self.filling = replace(filling, max_iter=min(filling.max_iter, TRIAL_SWEEPS))
        self.rows, self.cols = np.nonzero(~np.isnan(cells))
        order = np.random.default_rng(filling.seed).permutation(self.rows.size)
        folds = next((folds for most, folds in FOLDS if order.size <= most), 0)
        self.parts = np.array_split(order, folds) if folds else [order[::10]]
        self.folds = len(self.parts)

    def __call__(self, fold: int, candidate: Candidate) -> Array:
        """Errors (columns, 2) of a fit and of column centres, with the sums of both."""
        at = self.rows[self.parts[fold]], self.cols[self.parts[fold]]
        train = self.cells.copy()
        train[at] = np.nan
        centres = np.broadcast_to(column_centres(self.columns, train, self.weights), train.shape)
        if np.isnan(train).all():
            expected = centres
        else:
            coding = Coding(self.columns, train, candidate.scale, self.weights)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                filling = replace(self.filling, rank=candidate.rank, lam=candidate.lam, theta=candidate.theta)
                expected = filling.expected(coding, filling.fit(coding, train, self.weights), train, fitted=True)
        truth = self.cells[at]
        return np.column_stack([_errors(self.columns, filled[at], truth, at[1]) for filled in (expected, centres)])

    def mean(self, errors: Array) -> float:
        """The error as a part of that of column centres; 1 if there is nothing to compare."""
        compared = errors[:, 1] > 0
        counts = np.bincount(self.cols, minlength=len(self.columns))[compared]
        if not counts.size:
            return 1.0
        return float(np.sqrt(counts @ (errors[compared, 0] / errors[compared, 1]) / counts.sum()))


def _errors(columns: Sequence[Column], filled: Array, truth: Array, cols: Array) -> Array:
    """Sum of the errors of each column: squares, or wrong classes."""
    is_class = np.array([column.is_class for column in columns])[cols]
    errors = np.where(is_class, filled != truth, (filled - truth) ** 2)
    return np.bincount(cols, errors, minlength=len(columns))
