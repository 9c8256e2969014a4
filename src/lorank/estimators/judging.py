"""Cells that are held out: which scale and parameters predict them best, and how sure a model of them may be."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank.estimators.codes import tempered
from lorank.estimators.coding import Coding
from lorank.estimators.columns import Column
from lorank.estimators.completion import MatrixCompletion
from lorank.estimators.filling import Calibration, Filling, column_centres, interval
from lorank.tuning.setting import AUTO
from lorank.types import Array

# Sweeps of a sampler that is only compared with others, and iterations of other methods.
TRIAL_SWEEPS, TRIAL_ITERATIONS = 16, 50
# Rows that the sampler is tried on, at most: with more, other ones would not be chosen.
TRIAL_ROWS = 4000
# Cells up to which so many folds are held out in turn; beyond the last, one tenth is held out once.
FOLDS = ((1_000, 5), (100_000, 3))
# Column means are taken if a model is worse than them by this part of their error. In doubt it is not: what is missing
# may differ from what is there, and then a model that follows the other columns is nearer.
MOST_LOSS = 0.01
# How many times 1 / root of the held-out cells a gain is to be no chance.
CLEAR = 0.5
# A path of strengths ends when the error is so many times the smallest.
RISEN = 1.03
# The level at which intervals are calibrated, and the fewest held-out cells that say anything of it.
LEVEL, FEWEST = 0.9, 30
# Into how many parts cells are divided for that, and how many of them are held out in turn.
TENTHS, CALIBRATIONS = 10, 3


class Candidate(NamedTuple):
    """What is tried: a scale, and parameters of the method."""

    scale: str
    rank: int | str | None
    lam: float | str = AUTO
    theta: float | str | None = None
    shrinkage: float = 0.0

    def __str__(self) -> str:
        named = {"rank": self.rank, "lam": self.lam, "theta": self.theta, "shrinkage": self.shrinkage or None}
        given = [f"{name} {value:.3g}" for name, value in named.items() if isinstance(value, int | float)]
        return ", ".join([self.scale, *given])

    def of(self, filling: Filling) -> Filling:
        """A filling with these parameters."""
        return replace(filling, rank=self.rank, lam=self.lam, theta=self.theta, shrinkage=self.shrinkage)


def cross_validated(
    filling: Filling,
    columns: Sequence[Column],
    cells: Array,
    scales: Sequence[str],
    mean: bool,
    weights: Array | None = None,
) -> tuple[str, Filling, dict[str, float]]:
    """The scale and parameters that predict held-out cells best ("mean" for column means), and the errors of all.

    The error of a column of numbers is the mean square, that of classes the share of wrong ones or, under the sampler,
    the mean square of their codes; each is divided by the error of the column's centre, and the root of their mean over
    the held-out cells is taken. On the first fold candidates are tried one parameter after the other, and the best two
    on all folds.
    """
    if mean and min(cells.shape) < 2:  # one row, or one column, says nothing of another
        return "mean", filling, {}
    if filling.method.samples and len(cells) > TRIAL_ROWS:
        cells = cells[np.random.default_rng(filling.seed).choice(len(cells), TRIAL_ROWS, replace=False)]
    judge = _Judge(filling, columns, cells, weights)
    coding = Coding(columns, cells, scales[0], weights)
    ranks = filling.ranks(coding.width, len(cells))
    lams, thetas = filling.strengths(coding, cells), filling.thetas()
    shrinkages = filling.shrinkages(coding.width)
    first = Candidate(scales[0], ranks[0], lams[0], thetas[0], shrinkages[0])
    errors: dict[Candidate, Array] = {}

    def error(candidate: Candidate) -> float:
        return judge.mean(errors[candidate])

    tried: dict[str, Sequence[Any]] = {"scale": scales, "lam": lams, "rank": ranks, "theta": thetas}
    for name, values in {**tried, "shrinkage": shrinkages}.items():
        best = min(errors, key=error) if errors else first
        for value in values:
            changed: dict[str, Any] = {name: value}
            candidate = best._replace(**changed)
            if candidate not in errors:
                errors[candidate] = judge(0, candidate)
            # Along a path of strengths the error falls, and then rises.
            if name == "lam" and error(candidate) > RISEN * min(map(error, errors)):
                break
            if name == "shrinkage" and error(candidate) > error(best):
                break
            best = candidate if name == "shrinkage" else best
    finalists = sorted(errors, key=error)[:2]
    # Where the sampler is clearly better than column means, one fold has said enough.
    clear = filling.method.samples and error(finalists[0]) < 1 - CLEAR / np.sqrt(judge.parts[0].size)
    for fold in range(1, 1 if clear else judge.folds):
        for candidate in finalists:
            errors[candidate] = errors[candidate] + judge(fold, candidate)
    parts = {str(candidate): error(candidate) for candidate in errors}
    best = min(finalists, key=error)
    if mean and error(best) > 1 + MOST_LOSS:
        return "mean", filling, parts
    return best.scale, best.of(filling), parts


class _Judge:
    """Errors of fits on cells that are held out, fold by fold."""

    def __init__(self, filling: Filling, columns: Sequence[Column], cells: Array, weights: Array | None) -> None:
        self.columns, self.cells, self.weights = columns, cells, weights
        most = TRIAL_SWEEPS if filling.method.samples else TRIAL_ITERATIONS
        self.filling = replace(filling, max_iter=min(filling.max_iter, most))
        self.rows, self.cols = np.nonzero(~np.isnan(cells))
        order = np.random.default_rng(filling.seed).permutation(self.rows.size)
        folds = next((folds for most, folds in FOLDS if order.size <= most), 0)
        self.parts = np.array_split(order, folds) if folds else [order[::10]]
        self.folds = len(self.parts)
        self.fits: dict[tuple[int, Candidate], tuple[Filling, Coding, MatrixCompletion]] = {}

    def __call__(self, fold: int, candidate: Candidate) -> Array:
        """Errors (columns, 2) of a fit and of column centres, with the sums of both."""
        at, train = self.held_out(fold)
        centres = np.broadcast_to(column_centres(self.columns, train, self.weights), train.shape)
        if np.isnan(train).all():
            return np.column_stack(2 * [_sums(self._errors(centres)[at], at[1], self.columns)])
        # A covariance is shrunk after the fit, which is kept.
        key = (fold, candidate._replace(shrinkage=0.0))
        filling, coding, model = self.fits.get(key) or self.fitted(train, candidate)
        if filling.method.samples:
            self.fits[key] = (filling, coding, model)
        filling = candidate.of(filling)
        if model.model_.posterior is None:
            pair = [self._errors(filling.expected(coding, model, train, fitted=True)), self._errors(centres)]
        else:
            mean, std = filling.moments(model, coding.encode(train))
            pair = [self._errors(coding.expected(mean, std, np.isnan(train))), self._errors(centres)]
            # Of classes, how far off their codes are: that says more than whether the likeliest one is right.
            classes = np.array([column.is_class for column in self.columns])
            truth, starts = coding.encode(self.cells), [block.start for block in coding.blocks]
            for errors, codes in zip(pair, (mean, np.zeros(mean.shape))):
                squares = np.add.reduceat((codes - truth) ** 2, starts, axis=1)
                errors[:, classes] = squares[:, classes]
        return np.column_stack([_sums(errors[at], at[1], self.columns) for errors in pair])

    def _errors(self, filled: Array) -> Array:
        """Of each cell (rows, columns): the square, or whether a class is wrong."""
        classes = np.array([column.is_class for column in self.columns])
        return np.where(classes, filled != self.cells, (filled - self.cells) ** 2)

    def held_out(self, fold: int) -> tuple[tuple[Array, Array], Array]:
        """Where cells are held out, and the table without them."""
        at = self.rows[self.parts[fold]], self.cols[self.parts[fold]]
        train = self.cells.copy()
        train[at] = np.nan
        return at, train

    def fitted(self, train: Array, candidate: Candidate) -> tuple[Filling, Coding, MatrixCompletion]:
        coding, filling = Coding(self.columns, train, candidate.scale, self.weights), candidate.of(self.filling)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return filling, coding, filling.fit(coding, train, self.weights)

    def mean(self, errors: Array) -> float:
        """The error as a part of that of column centres; 1 if there is nothing to compare."""
        compared = errors[:, 1] > 0
        counts = np.bincount(self.cols, minlength=len(self.columns))[compared]
        if not counts.size:
            return 1.0
        return float(np.sqrt(counts @ (errors[compared, 0] / errors[compared, 1]) / counts.sum()))


def _sums(errors: Array, cols: Array, columns: Sequence[Column]) -> Array:
    """Sum of the errors of each column."""
    return np.bincount(cols, errors, minlength=len(columns))


def calibrated(filling: Filling, columns: Sequence[Column], cells: Array, scale: str, trees: bool) -> Calibration:
    """How much wider than the sampler says intervals must be to cover held-out cells, and how much flatter or steeper
    the chances of classes must be to have the least cross-entropy there."""
    judge = _Judge(filling, columns, cells, None)
    # As the model itself is: fitted as long, and to almost as many cells.
    judge.filling, judge.parts = filling, np.array_split(np.concatenate(judge.parts), TENTHS)
    numbers, chances = [], []
    for fold in range(CALIBRATIONS):
        (rows, cols), train = judge.held_out(fold)
        if np.isnan(train).all():
            continue
        used, coding, model = judge.fitted(train, Candidate(scale, filling.rank, shrinkage=filling.shrinkage))
        forests = used.forests(coding, model, train) if trees else None
        mean, std = used.moments(model, coding.encode(train), forests)
        for j, (code, at) in enumerate(zip(coding.codes, coding.blocks)):
            here = rows[cols == j]
            centre, off, truth = mean[here, at], std[here, at], cells[here, j]
            if columns[j].is_class:
                chances.append((np.asarray(code.chances(centre, off)), truth.astype(np.int64)))
            else:
                numbers.append((columns[j], code, centre, off, truth))

    def covered(widening: float) -> float:
        inside = []
        for column, code, centre, off, truth in numbers:
            low, high = interval(column, code, centre, widening * off, LEVEL)
            inside.append((low <= truth) & (truth <= high))
        return float(np.concatenate(inside).mean())

    def entropy(exponent: float) -> float:
        logs = [np.log(tempered(of, exponent)[np.arange(truth.size), truth]) for of, truth in chances]
        return -float(np.concatenate(logs).sum())

    widening = exponent = 1.0
    if sum(each[-1].size for each in numbers) >= FEWEST:
        # Not narrower: with all cells the model is surer than it is here, and may be surer than it should be.
        tried = np.geomspace(1.0, 2.0, 29)
        widening = float(next((width for width in tried if covered(width) >= LEVEL), tried[-1]))
    if sum(each[-1].size for each in chances) >= FEWEST:
        exponent = float(min(np.geomspace(0.25, 4.0, 33), key=entropy))
    return Calibration(widening, exponent)
