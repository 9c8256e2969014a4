"""What a low-rank field leaves over, kriged month by month.

    z_ij = <w_i, h_j> + r_ij + noise,   r_.j ~ N(0, s^2 exp(-distance / length)) for each time j by itself

The low-rank part carries what recurs: from a few months it learns how a place differs from its neighbours. A field has
more than any rank, though, and what is left over is still smooth over short distances. Its Gaussian process has full
rank and no memory: given the low-rank part it is simple kriging of the residuals, and at rank 0 it is kriging.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from lorank.types import Array


@dataclass(frozen=True)
class Residuals:
    """Kriged residuals: at points p they are exp(-distance(p, points) / length) @ weights (s, n)."""

    points: Array
    length: float
    weights: Array

    @classmethod
    def fit(cls, points: Array, left_over: Array, length: float, nugget: float) -> Residuals:
        """Krige what is left over (m, n), NaN where nothing was observed, at points (m, d).

        nugget is the variance of the noise in units of that of the field. Times at which the same places have a value
        share a factorization; each costs places^3 / 3.
        """
        known = ~np.isnan(left_over)
        some = np.flatnonzero(known.any(axis=1))
        points, known, left_over = points[some], known[some], left_over[some]
        K = np.exp(-cdist(points, points) / length)
        K[np.diag_indices_from(K)] += nugget
        weights = np.zeros(left_over.shape)
        patterns, which = np.unique(known, axis=1, return_inverse=True)
        for p in range(patterns.shape[1]):
            rows, times = np.flatnonzero(patterns[:, p]), np.flatnonzero(which.ravel() == p)
            if rows.size:
                factor = scipy.linalg.cho_factor(K[np.ix_(rows, rows)], overwrite_a=True, check_finite=False)
                here = np.ix_(rows, times)
                weights[here] = scipy.linalg.cho_solve(factor, left_over[here], check_finite=False)
        return cls(points, length, weights)

    def at(self, points: Array) -> Array:
        """Residuals (q, n) at other points (q, d)."""
        return np.exp(-cdist(points, self.points) / self.length) @ self.weights
