"""Kriging: a smooth field at places where it was not measured, from those where it was.

A field of covariance kernel(distance / length), measured at places x with noise of variance nugget (both in units of
the field's own variance), has at other places p the mean

    K(p, x) weights,   weights = (K(x, x) + nugget I)^-1 y

given the values y that were measured. All that krige do it here: residuals of a low-rank field month by month, month
means and scales of places without data, and the baseline that low rank is compared with. Only a `KernelPrior` has its
own weights, since its factors are fitted together with them (`side_information.kernel.Whitening.at`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from lorank.linalg.blas import one_blas_thread
from lorank.side_information import KernelPrior
from lorank.side_information.kernel import EXACT_LIMIT, spread
from lorank.types import Array

# What regression kriging tries: lengths in units of the typical distance between places, nuggets of the variance.
LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
NUGGETS = (0.001, 0.01, 0.1, 0.5)
# A linear drift across the area needs some places to be fitted to.
DRIFT_FROM = 12


@dataclass(frozen=True)
class Kriging:
    """A kriged field: at points p it is prior.covariance(p, prior.points) @ weights (s, n)."""

    prior: KernelPrior
    weights: Array

    @classmethod
    def fit(cls, prior: KernelPrior, values: Array) -> Kriging:
        """Krige values (m, n), NaN where nothing was measured, each column by itself, at the points of a prior (m, d).

        The prior's nugget is the variance of the noise. Columns in which the same places have a value share a
        factorization; each costs places^3 / 3. A column without any value is 0 everywhere.
        """
        measured = np.flatnonzero(~np.isnan(values).all(axis=1))
        prior = KernelPrior(prior.points[measured], prior.kernel, prior.length, prior.nugget, prior.weight)
        values = values[measured]
        weights = np.zeros(values.shape)
        with one_blas_thread():
            K = prior.covariance(prior.points, prior.points)
            K[np.diag_indices_from(K)] += prior.nugget / prior.weight
            for columns, rows in same_places(~np.isnan(values)):
                factor = scipy.linalg.cho_factor(K[np.ix_(rows, rows)], overwrite_a=True, check_finite=False)
                here = np.ix_(rows, columns)
                weights[here] = scipy.linalg.cho_solve(factor, values[here], check_finite=False)
        return cls(prior, weights)

    def at(self, points: Array) -> Array:
        """The field (q, n) at other points (q, d)."""
        with one_blas_thread():
            return self.prior.covariance(points, self.prior.points) @ self.weights


@dataclass(frozen=True)
class RegressionKriging:
    """A linear drift across the area, and kriging of what it leaves: for a few numbers of each place.

    Attributes
    ----------
    slopes : (1, q) or (1 + d, q)
    rest : Kriging, or None where the drift leaves nothing
    """

    slopes: Array
    rest: Kriging | None

    @classmethod
    def fit(cls, points: Array, values: Array) -> RegressionKriging:
        """Fit values (m, q) at points (m, d).

        The kernel is exponential; its length and nugget are those with the least error when each place is predicted
        from all others.
        """
        if len(points) > EXACT_LIMIT:
            some = spread(points, EXACT_LIMIT)
            points, values = points[some], values[some]
        drift = _drift(points)
        if len(points) < DRIFT_FROM:
            drift = drift[:, :1]
        slopes = np.linalg.lstsq(drift, values, rcond=None)[0]
        rest = values - drift @ slopes
        size = rest.std(axis=0)
        if len(points) < 3 or not (size > 0).any():
            return cls(slopes, None)
        unit, least, best = typical_distance(points), np.inf, None
        with one_blas_thread():
            for length in LENGTHS:
                prior = KernelPrior(points, "exponential", unit * length)
                K = prior.covariance(points, points)
                for nugget in NUGGETS:
                    weights, misses = _leave_one_out(K, nugget, rest)
                    error = float(np.mean((misses / np.where(size > 0, size, 1)) ** 2))
                    if error < least:
                        least, best = error, Kriging(prior, weights)
        return cls(slopes, best)

    def at(self, points: Array) -> Array:
        """Values (o, q) at other points (o, d)."""
        trend: Array = _drift(points)[:, : len(self.slopes)] @ self.slopes
        return trend if self.rest is None else trend + self.rest.at(points)


def _leave_one_out(K: Array, nugget: float, y: Array) -> tuple[Array, Array]:
    """Weights (m, q), and by how much each of y (m, q) is missed by kriging from all others.

    With A = K + nugget I = L L^T, the misses are (A^-1 y)_i / (A^-1)_ii, and the diagonal of A^-1 has the squared
    norms of the columns of L^-1: two thirds of m^3 operations, a third of those of an inverse.
    """
    A = K.copy()
    A[np.diag_indices_from(A)] += nugget
    L = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
    inverse, _ = scipy.linalg.lapack.dtrtri(L, lower=1, overwrite_c=1)
    weights = inverse.T @ (inverse @ y)
    return weights, weights / np.einsum("ij,ij->j", inverse, inverse)[:, None]


def typical_distance(points: Array) -> float:
    """Median distance between two of the points (m, d); 1 if there is only one."""
    some = points[:: max(1, len(points) // 500)]
    apart = cdist(some, some)[np.triu_indices(len(some), 1)]
    return float(np.median(apart)) if apart.size else 1.0


def same_places(known: Array) -> Iterator[tuple[Array, Array]]:
    """Columns of known (m, n) in which the same rows are true, and those rows; columns without any are left out."""
    groups: dict[bytes, list[int]] = {}
    for column, rows in enumerate(known.T):
        groups.setdefault(rows.tobytes(), []).append(column)
    for columns in groups.values():
        rows = np.flatnonzero(known[:, columns[0]])
        if rows.size:
            yield np.array(columns), rows


def _drift(points: Array) -> Array:
    return np.column_stack([np.ones(len(points)), points])
