"""Ranges around predictions that hold a promised share of the values: split conformal, by row and column difficulty.

Held-out residuals r_ij are divided by a scale s_ij = row_scale_i * col_scale_j. If q is the ceil((n + 1) level)-th
smallest of n ratios |r| / s, then prediction +- q s_ij holds a further entry with a probability of at least `level`,
whatever the model and however wrong the scale, as long as the entry is drawn like the held-out ones.

The scale makes it hold for each kind of row too, not only on average. It is a regression

    log s_ij^2 = beta_0 + beta_1 log v_i + beta_2 log(1 + n_i) + (1 + beta_3) log(1 + 1 / (n_i + r)) + the same of col j

on how many entries a row and a column have in training (n) and how well those were fitted (v, the mean of their squared
residuals, drawn towards that of all as if PRIOR more entries had it), by maximum likelihood for normal residuals. An
offset of which n entries tell has the variance s2 / (n + r) beside the noise's s2, r its ridge by empirical Bayes
(`lorank.problems.offsets`; at most PRIOR, for factors are not known either): so the last term is what lines with few
entries have without any beta. Some of the held-out entries find beta, the others q, so that the guarantee stands as it
is. Small data is held out several times; then it stands for the fits together.

References
----------
Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, "Distribution-free predictive inference for regression", JASA 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lorank.errors import InputError
from lorank.kernels import Workers
from lorank.linalg import Factors
from lorank.models.levels import LevelPredictor
from lorank.observations import Observations
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.solvers import Posterior
from lorank.types import Array

PRIOR = 5.0
# Newton steps of the regression, and the ridge that keeps it still when there are few entries to learn it from.
STEPS, RIDGE = 20, 1.0
# Order statistics that are kept, so that a calibration stays small beside the factors.
KEPT = 1000
# Scales that are read at a time.
BLOCK = 1 << 20
# Entries that the coefficients are found from: half of those held out, but no more than this.
ENOUGH = 50_000

# Factors, the entries that they were fitted to, and others.
Fit = tuple[Factors, Observations, Observations]


@dataclass(frozen=True)
class Calibration:
    """Scale and quantiles of the held-out residuals.

    Attributes
    ----------
    row_scale (m + 1,), col_scale (n + 1,) : arrays
        s_ij = row_scale_i * col_scale_j; the last ones, at position -1, are for rows and columns without observations.
    ratios : array
        Order statistics of |r| / s, ascending; all of them, or KEPT evenly spread ones.
    count : int
        How many ratios there were.
    """

    row_scale: Array
    col_scale: Array
    ratios: Array
    count: int

    def quantile(self, level: float) -> float:
        """q for this level; infinite if there are too few held-out entries to promise it."""
        rank = math.ceil((self.count + 1) * level)
        if rank > self.count:
            return math.inf
        # The kept statistic at or above the one that is wanted.
        return float(self.ratios[math.ceil((rank - 1) * (self.ratios.size - 1) / max(self.count - 1, 1))])

    def scale(self, rows: Array, cols: Array) -> Array:
        """s_ij at positions, -1 for unseen rows and columns."""
        # Scales that are in shards know no positions from the end.
        own, other = rows % len(self.row_scale), cols % len(self.col_scale)
        return np.asarray(self.row_scale[own], np.float64) * self.col_scale[other]

    def for_new(self, axis: int, lines: int) -> Calibration:
        """The calibration for new rows (axis 0) or columns (1), which are taken as middling ones."""
        sides = [self.row_scale, self.col_scale]
        sides[axis] = np.full(lines + 1, self.middling[axis])
        return Calibration(sides[0], sides[1], self.ratios, self.count)

    @cached_property
    def middling(self) -> tuple[float, float]:
        """The geometric mean of the scales of rows, and of columns."""
        return _geometric_mean(self.row_scale), _geometric_mean(self.col_scale)


def calibrate(fits: Sequence[Fit], seed: int, n_jobs: int | None = None) -> Calibration:
    """Calibrate factors that were fitted to some entries on others, which they have not seen.

    There may be several such fits to the same matrix, with different entries held out; scales are those of the first.
    """
    workers = Workers(n_jobs)
    lines, held_out = zip(*(_difficulties(*fit, workers) for fit in fits))
    workers.close()
    rows, cols, squares = (np.concatenate(part) for part in zip(*held_out))
    found = fit_scale(rows, cols, squares, seed)
    return Calibration(found.rows(lines[0][0]), found.cols(lines[0][1]), found.ratios, found.count)


@dataclass(frozen=True)
class ScaleFit:
    """The regression of the scale on how difficult lines are: its coefficients (7,), ratios and their count."""

    beta: Array
    ratios: Array
    count: int

    def rows(self, difficult: Array) -> Array:
        """Scales of rows (lines,), given `difficulty` of each; the constant goes with them."""
        # Halves because these are scales, not variances.
        return np.asarray(np.exp((self.beta[0] + difficult @ self.beta[1:4]) / 2))

    def cols(self, difficult: Array) -> Array:
        """Scales of columns."""
        return np.asarray(np.exp(difficult @ self.beta[4:] / 2))


def fit_scale(rows: Array, cols: Array, squares: Array, seed: int) -> ScaleFit:
    """From the `difficulty` of the row and of the column of each held-out entry, (n, 3), and its squared residual."""
    first = np.zeros(squares.size, bool)
    first[np.random.default_rng(seed).permutation(squares.size)[: min(squares.size // 2, ENOUGH)]] = True
    features = np.hstack([np.ones((np.count_nonzero(first), 1)), rows[first], cols[first]])
    # What is known before, the last column of either side.
    known = rows[first, 2] + cols[first, 2]
    beta = _log_variance(features, squares[first] * np.exp(-known))
    # Lines with fewer entries are never known better.
    beta[[3, 6]] = np.maximum(beta[[3, 6]] + 1, 0)
    found = ScaleFit(beta, np.zeros(0), 0)
    ratios = np.sort(np.sqrt(squares[~first]) / (found.rows(rows[~first]) * found.cols(cols[~first])))
    kept = ratios
    if ratios.size > KEPT:
        kept = ratios[np.ceil(np.linspace(0, ratios.size - 1, KEPT)).astype(np.int64)]
    return ScaleFit(beta, kept, int(ratios.size))


def bounds(
    predicted: Array,
    rows: Array,
    cols: Array,
    level: float,
    posterior: Posterior | LevelPredictor | None,
    calibration: Calibration | None,
) -> tuple[Array, Array]:
    """Ends of the interval around each prediction: by the posterior or the levels' probabilities if there are any, or
    else by the calibration."""
    if not 0 < level < 1:
        raise InputError(f"An interval's level lies between 0 and 1, as 0.9 does; got {level!r}.")
    if posterior is not None:
        if (rows < 0).any() or (cols < 0).any():
            raise InputError("The posterior says nothing of rows or columns that it has not seen; leave them out.")
        lower, upper = posterior.interval(rows, cols, level)
    elif calibration is None:
        raise InputError(
            "Intervals need entries that the model has not seen: fit it with validation=0.1, or with lam='auto'."
        )
    else:
        half = (calibration.quantile(level) * calibration.scale(rows, cols)).astype(predicted.dtype)
        lower, upper = predicted - half, predicted + half
    return lower.astype(predicted.dtype), upper.astype(predicted.dtype)


def _geometric_mean(scales: Array) -> float:
    """Of all but the last one; in blocks, since they may be in shards."""
    lines = len(scales) - 1
    blocks = (np.asarray(scales[lo : min(lo + BLOCK, lines)], np.float64) for lo in range(0, lines, BLOCK))
    return math.exp(sum(float(np.log(block).sum()) for block in blocks) / max(lines, 1))


def _difficulties(
    factors: Factors, train: Observations, held_out: Observations, workers: Workers
) -> tuple[list[Array], tuple[Array, Array, Array]]:
    """`difficulty` of rows (m + 1, 3) and columns (n + 1, 3), with a line without observations at the end, and of the
    rows and columns of held-out entries, beside the squares of their residuals."""
    fitted, unseen = (
        (factors.predict(part.rows, part.cols, workers) - part.values).astype(np.float64) ** 2
        for part in (train, held_out)
    )
    fitted /= float(fitted.mean()) or 1.0
    sides = []
    for index, apart, size, ridge in zip(
        (train.rows, train.cols),
        (held_out.rows, held_out.cols),
        train.shape,
        empirical_bayes_offsets(train).ridges,
    ):
        counts = np.bincount(index, minlength=size + 1)
        least = int(counts[apart].min(initial=counts.max()))
        sides.append(difficulty(counts, np.bincount(index, fitted, size + 1), ridge, least))
    return sides, (sides[0][held_out.rows], sides[1][held_out.cols], unseen)


def difficulty(counts: Array, squares: Array, ridge: float, least: int = 0) -> Array:
    """log v, log(1 + n) and log(1 + 1 / (n + r)) of lines (lines, 3), given n and sums of squares as parts of their
    mean.

    How entries differ with n can only be seen where lines have held-out ones: below `least`, n counts as that.
    """
    means = (squares + PRIOR) / (counts + PRIOR)
    return np.column_stack(
        [np.log(means), np.log1p(np.maximum(counts, least)), np.log1p(1 / (counts + min(ridge, PRIOR)))]
    )


def _log_variance(features: Array, squares: Array) -> Array:
    """beta that minimises sum of eta + squares exp(-eta), eta = features @ beta: convex, so Newton's method.

    The ridge draws all but the constant to 0, and with it the scale to one for all.
    """
    beta = np.zeros(features.shape[1])
    beta[0] = math.log(max(float(squares.mean()), 1e-300)) if squares.size else 0.0
    squares = squares + 1e-12 * math.exp(beta[0])
    ridge = RIDGE * np.r_[0.0, np.ones(beta.size - 1)]
    for _ in range(STEPS):
        weight = squares * np.exp(-features @ beta)
        gradient = features.T @ (1 - weight) + ridge * beta
        # At least Fisher's information, whose weights are 1: keeps steps short where the fit is still far off.
        curvature = (features * np.maximum(weight, 1.0)[:, None]).T @ features + np.diag(ridge)
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        beta -= step
        if np.abs(step).max() < 1e-6:
            break
    return beta
