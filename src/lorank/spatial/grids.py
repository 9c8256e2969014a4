"""Grids over time with gaps, such as clouds or swaths: every cell by regression on few series, and what is left
smoothed.

    x_t(cell) = [b_t, h_t]^T c(cell) + residual,   c(cell) ~ N(centre, Prior)

b_t has a constant and a season, h_t are the factors of a low-rank fit to a sample of the cells. The number of times is
small beside that of cells, so a sample of cells knows h as well as all of them do, and every cell is then a small
regression by itself: a grid is filled block by block, and never needs to be in memory. The residuals that are left are
smoothed over cells and times, each weighed by how much was seen around it. Rank, lam and smoothing are tuned on gaps:
some times get the gaps of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lorank.errors import InputError
from lorank.linalg.blas import one_blas_thread
from lorank.progress import ProgressBar
from lorank.side_information import KernelPrior
from lorank.spatial.cell_errors import CellErrors
from lorank.spatial.climatology import Basis
from lorank.spatial.fields import fit_anomalies
from lorank.spatial.gaps import REACH, Regression, Smoothing, hide_gaps, lend_gaps
from lorank.tuning.coordinate import coordinate_search
from lorank.types import Array

# Cells that h is learnt from, and those on which rank and lam are tuned.
SAMPLE, TUNED = 12_000, 3000
# A season needs so many years; so many of its waves are fitted.
YEARS, WAVES = 1.5, 2
# Side of the window on which the smoothing is tuned, and bytes that a block may take.
WINDOW, BLOCK_BYTES = 96, 300e6
WEAK = 1e-6


class GridCompletion(BaseEstimator):
    """Fill a grid over times, some of each missing; cells that have no value at all (land) stay missing.

    Parameters
    ----------
    rank, lam, theta : of the low-rank fit; None is tuned on gaps.
    time_length : float, optional
        The factors of times are the more alike, the closer the times are: the length of an exponential kernel, in
        steps between times; 0 for none. None is tuned.
    smoothing : (cells, times, shrinkage), optional
        Widths over which residuals are smoothed, in cells and times, and how much of what was seen shrinks them by
        half; (0, 0, 1) leaves it out. None is tuned.
    method : str
        A factored method of the catalogue.
    random_state : int
    n_jobs : int, optional

    Attributes
    ----------
    parameters_ : dict
        What was used, tuned or given.
    """

    def __init__(
        self,
        rank: int | None = None,
        lam: float | None = None,
        theta: float | None = None,
        time_length: float | None = None,
        smoothing: tuple[float, float, float] | None = None,
        method: str = "nnfn",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.rank = rank
        self.lam = lam
        self.theta = theta
        self.time_length = time_length
        self.smoothing = smoothing
        self.method = method
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, values: Any, time: npt.ArrayLike | None = None) -> GridCompletion:
        """Learn from values (n, y, x), NaN missing: an array, or anything of that shape that is read by slices."""
        if len(values.shape) != 3:
            raise InputError(f"A grid must be times x rows x columns; this one has {len(values.shape)} dimensions.")
        self.values_ = values
        n, rows, cols = values.shape
        rng = np.random.default_rng(self.random_state)
        with one_blas_thread(), ProgressBar("Tuning on gaps") as bar:
            stride = max(1, int(np.ceil(np.sqrt(rows * cols / SAMPLE))))
            sample = _read(values, slice(stride // 2, None, stride), slice(stride // 2, None, stride))
            cells = _cells(sample)
            if not cells.size:
                raise InputError("No cell has a single value; there is nothing to learn from.")
            self._basis, self._times = _basis(time, n), _steps(time, n)
            lent, window = lend_gaps(sample, rng), _window(values)
            held_out = []
            for pairs in lent:
                masked = _cells(np.where(hide_gaps(sample, pairs), np.nan, sample))
                if pairs is lent[0]:
                    self._choose_rank(masked, cells, rng)
                trial = _Trial.of(window, hide_gaps(window, pairs), self._regression(masked))
                if pairs is lent[0]:
                    self._choose_smoothing(trial, bar)
                held_out.append(trial.errors(Smoothing(*self.parameters_["smoothing"])))
            self._errors = _errors(held_out)
            self.regression_ = self._regression(cells)
        return self

    def blocks(self) -> Iterator[tuple[slice, slice, Array, Array]]:
        """Rows and columns of a block, its values (n, a, b) with gaps filled, and the deviations of their errors."""
        check_is_fitted(self)
        n, rows, cols = self.values_.shape
        halo = int(np.ceil(REACH * self.parameters_["smoothing"][0]))
        side = max(16, int(np.sqrt(BLOCK_BYTES / (60 * n))) - 2 * halo)
        count = -(-rows // side) * -(-cols // side)
        with one_blas_thread(), ProgressBar("Filling", count) as bar:
            for top in range(0, rows, side):
                for left in range(0, cols, side):
                    here = slice(top, min(top + side, rows)), slice(left, min(left + side, cols))
                    wide = tuple(slice(max(0, s.start - halo), s.stop + halo) for s in here)
                    x = _read(self.values_, *wide)
                    predicted, deviation = self._predict(x)
                    inner = tuple(slice(s.start - w.start, s.stop - w.start) for s, w in zip(here, wide))
                    x, predicted, deviation = (part[:, inner[0], inner[1]] for part in (x, predicted, deviation))
                    gaps = np.isnan(x)
                    deviation = np.where(gaps.all(axis=0), np.nan, np.where(gaps, deviation, 0.0))
                    bar.advance(1)
                    yield *here, np.where(gaps, predicted, x), deviation

    def complete(self) -> tuple[Array, Array]:
        """The grid (n, y, x) with its gaps filled, and the deviation of the error of each value."""
        filled, deviation = (np.empty(self.values_.shape, np.float32) for _ in range(2))
        for rows, cols, values, errors in self.blocks():
            filled[:, rows, cols], deviation[:, rows, cols] = values, errors
        return filled, deviation

    def _predict(self, x: Array) -> tuple[Array, Array]:
        """Predictions and deviations of a block (n, a, b); NaN where a cell was never seen."""
        field = _regressed(self.regression_, x)
        smoothed, known = Smoothing(*self.parameters_["smoothing"]).apply(x - field)
        level, anomaly = _variances(x - field, known, self.regression_)
        return field + smoothed, self._errors.deviation(level, anomaly)

    def _choose_rank(self, masked: Array, cells: Array, rng: np.random.Generator) -> None:
        """Rank and lam with the least error at hidden gaps of some cells."""
        some = rng.permutation(len(cells))[:TUNED]
        hidden = np.isnan(masked[some]) & ~np.isnan(cells[some])
        smallest = min(len(some), cells.shape[1])
        candidates: dict[str, tuple[Any, ...]] = {
            "rank": tuple(dict.fromkeys(min(rank, smallest) for rank in (10, 5, 20, 40))),
            "lam": (3.0, 1.0, 10.0, 30.0),
            "theta": (1.0, 0.5),
            "time_length": (3.0, 0.0, 10.0, 1.0),
        }
        given = {name: getattr(self, name) for name in candidates}
        self.parameters_ = {name: given[name] if given[name] is not None else candidates[name][0] for name in given}
        if not hidden.any() or all(value is not None for value in given.values()):
            return

        def error(parameters: Mapping[str, Any]) -> float:
            fitted = self._regression(masked[some], parameters).predict(masked[some])
            return float(np.sqrt(np.mean((fitted - cells[some])[hidden] ** 2)))

        self.parameters_ = coordinate_search(error, candidates, given, rounds=1).parameters

    def _regression(self, cells: Array, parameters: Mapping[str, Any] | None = None) -> Regression:
        """The regression of cells (c, n) on season and factors, its prior and noise from these cells."""
        parameters = parameters or self.parameters_
        B = self._basis
        seen = ~np.isnan(cells)
        variance = float(np.nanvar(cells)) or 1.0
        centre = np.r_[np.nanmean(cells), np.zeros(B.shape[1] - 1)]
        level = Regression(B, centre, np.eye(B.shape[1]) / variance, variance / 4).predict(cells)
        scale = float(np.sqrt(np.mean((cells - level)[seen] ** 2))) or 1.0
        length = parameters["time_length"]
        model = fit_anomalies(
            (cells - level) / scale,
            self.method,
            parameters,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            tol=1e-3,
            col_side=KernelPrior(self._times, "exponential", length) if length else None,
        )
        factors = model.result_.factors
        left = np.where(seen, cells - level - scale * (factors.W @ factors.H.T), 0.0)
        freedom = max(seen.sum() - factors.W.size, seen.sum() / 10)
        noise = max(float((left**2).sum() / freedom), WEAK * scale**2)
        coefficients = np.linalg.lstsq(B, level.T, rcond=None)[0].T
        centre = np.r_[coefficients.mean(axis=0), np.zeros(factors.H.shape[1])]
        # Directions in which cells differ little are known to differ little.
        between = coefficients.var(axis=0) + WEAK * variance
        W = factors.W.T @ factors.W / len(cells)
        W[np.diag_indices_from(W)] += WEAK * max(float(np.trace(W)), WEAK)
        precision = np.zeros((centre.size, centre.size))
        q = B.shape[1]
        precision[:q, :q], precision[q:, q:] = np.diag(1 / between), np.linalg.inv(W)
        return Regression(np.column_stack([B, scale * factors.H]), centre, precision, noise)

    def _choose_smoothing(self, trial: _Trial, bar: ProgressBar) -> None:
        """Smoothing with the least error at hidden gaps of a window."""

        def error(parameters: Mapping[str, Any]) -> float:
            bar.draw()
            return float(np.sqrt(np.mean(trial.errors(Smoothing(**parameters))[0] ** 2)))

        candidates = {
            "cells": (2.0, 1.0, 4.0, 8.0, 0.0),
            "times": (0.5, 0.0, 1.0, 2.0, 4.0),
            "shrinkage": (3.0, 1.0, 10.0, 30.0),
        }
        none = {"cells": 0.0, "times": 0.0, "shrinkage": 1.0}
        chosen = dict(zip(candidates, self.smoothing or none.values()))
        if self.smoothing is None and trial.scored.any():
            chosen = coordinate_search(error, candidates, dict.fromkeys(candidates), rounds=2).parameters
            chosen = chosen if error(chosen) < error(none) else none
        self.parameters_ = {**self.parameters_, "smoothing": tuple(chosen.values())}


@dataclass(frozen=True)
class _Trial:
    """A window (n, a, b) of the grid, its regression and what is left over where gaps were not hidden, and where
    errors are looked at.

    The regression must not have seen what is hidden here: factors of a time that were fitted to hidden values would
    leave errors that are too small.
    """

    truth: Array
    regression: Regression
    field: Array
    residual: Array
    scored: Array

    @classmethod
    def of(cls, truth: Array, hidden: Array, regression: Regression) -> _Trial:
        x = np.where(hidden, np.nan, truth)
        field = _regressed(regression, x)
        return cls(truth, regression, field, x - field, hidden & ~np.isnan(field))

    def errors(self, smoothing: Smoothing) -> tuple[Array, Array, Array]:
        """Errors (c,) at hidden values, and the two parts of the variance of each."""
        smoothed, known = smoothing.apply(self.residual)
        level, anomaly = _variances(self.residual, known, self.regression)
        return (self.field + smoothed - self.truth)[self.scored], level[self.scored], anomaly[self.scored]


def _errors(held_out: list[tuple[Array, Array, Array]]) -> CellErrors:
    """What errors are like, from errors and variances of several trials."""
    miss, level, anomaly = (np.concatenate(parts) for parts in zip(*held_out))
    return CellErrors.fit(miss, level, anomaly) if miss.size > 30 else CellErrors(np.ones(2), np.linspace(-2, 2, 100))


def _read(values: Any, rows: slice, cols: slice) -> Array:
    """A part (n, a, b) of the grid as float64."""
    return np.asarray(values[:, rows, cols], dtype=np.float64)


def _cells(values: Array) -> Array:
    """Cells (c, n) of a grid (n, y, x) that have a value."""
    cells = values.reshape(len(values), -1).T
    return cells[~np.isnan(cells).all(axis=1)]


def _regressed(regression: Regression, x: Array) -> Array:
    """Predictions (n, a, b) of a block; NaN at cells without a value."""
    cells = x.reshape(len(x), -1).T
    some = ~np.isnan(cells).all(axis=1)
    out = np.full(cells.shape, np.nan)
    out[some] = regression.predict(cells[some])
    return np.ascontiguousarray(out.T).reshape(x.shape)


def _variances(residual: Array, known: Array, regression: Regression) -> tuple[Array, Array]:
    """Two parts of the variance of an error: of a cell's few values, and of residuals with little seen around."""
    seen = ~np.isnan(residual)
    count = seen.sum(axis=0)
    # As if every cell had ten more values with the noise of all.
    own = (np.where(seen, residual, 0.0) ** 2).sum(axis=0) + 10 * regression.noise
    own = own / (count + 10)
    level = np.broadcast_to(own * regression.regressors.shape[1] / (count + 1), residual.shape)
    return level, own * (1.02 - known)


def _basis(time: npt.ArrayLike | None, n: int) -> Array:
    """A constant, and waves of the year if dates cover enough of them."""
    times = np.asarray(time)
    if time is None or times.dtype.kind != "M" or times.shape != (n,):
        return np.ones((n, 1))
    years = (times.max() - times.min()).astype("timedelta64[D]").astype(int) / 365.25
    waves = Basis.of(times, n, season=bool(years >= YEARS), trend=False)
    return waves.values[:, : 2 * WAVES + 1]


def _steps(time: npt.ArrayLike | None, n: int) -> Array:
    """Times (n, 1) in units of the usual step between two of them."""
    times = np.arange(n) if time is None or np.shape(time) != (n,) else np.asarray(time)
    numbers = times.astype("datetime64[s]").astype(np.float64) if times.dtype.kind == "M" else np.arange(n, dtype=float)
    step = float(np.median(np.diff(np.unique(numbers)))) if n > 1 and np.ptp(numbers) > 0 else 1.0
    return (numbers / step)[:, None]


def _window(values: Any) -> Array:
    """The window of the grid with the most values among a few."""
    n, rows, cols = values.shape
    best, most = None, -1
    starts = [sorted({0, max(0, (size - WINDOW) // 2), max(0, size - WINDOW)}) for size in (rows, cols)]
    for top in starts[0]:
        for left in starts[1]:
            # A few of its times are enough to tell.
            some = np.asarray(values[:: max(1, n // 10), top : top + WINDOW, left : left + WINDOW])
            count = int((~np.isnan(some)).sum())
            if count > most:
                best, most = (slice(top, top + WINDOW), slice(left, left + WINDOW)), count
    assert best is not None
    return _read(values, *best)
