"""Kriging: a smooth field at places where it was not measured, from those where it was.

A field of covariance kernel(distance / length), measured at places x with noise of variance nugget (both in units of
the field's own variance), has at other places p the mean

    K(p, x) weights,   weights = (K(x, x) + nugget I)^-1 y

given the values y that were measured. This is the baseline that low rank is compared with, exact and with all places;
residuals are kriged from the nearest (`neighbours`), level and season with a drift (`drift`), and a `KernelPrior` has
its own weights, since its factors are fitted together with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from lorank.linalg.blas import one_blas_thread
from lorank.side_information import KernelPrior
from lorank.types import Array


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
