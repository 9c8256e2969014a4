"""Kriging with drift: a few numbers of each place, known with an error of their own, and the same anywhere on the map.

A number c_i of place i (its mean, the size of its season, ...) is modelled as

    c = F beta + g + own,   cov(g_i, g_j) = variance exp(-distance_ij / length),   var(own_i) = variance * nugget
    y = c + error,   var(error_i) = noise_i

where F holds a constant, the coordinates and the covariates, and the distance has the covariates as further
coordinates, each stretched by a factor of its own: two places on the same map sheet are far from each other if one is
on a mountain. Length, variance, nugget and stretch maximise the restricted likelihood, in which beta is integrated out.

References
----------
Cressie, "Statistics for Spatial Data", Wiley 1993, sections 2.6 and 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from lorank.side_information.kernel import spread
from lorank.types import Array

# The likelihood is taken at no more places than this.
LIKELIHOOD_PLACES = 1000
# More measured places than this are thinned out on the map of their level and season: each keeps its own months.
MOST_PLACES = 2000
# Coordinates take part in the drift if there are so many places for each of its columns.
PLACES_PER_COLUMN = 4


@dataclass(frozen=True)
class Places:
    """Points (m, 3) in 1000 km, and covariates (m, p) in units of their own deviation at the measured places."""

    points: Array
    covariates: Array

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, some: Array | slice) -> Places:
        return Places(self.points[some], self.covariates[some])

    def stretched(self, length: float, stretch: Array) -> Array:
        """Coordinates (m, 3 + p) in units of a length, covariates multiplied by stretch (1000 km per deviation)."""
        return np.column_stack([self.points, self.covariates * stretch]) / length


@dataclass(frozen=True)
class Variogram:
    """The parameters of the model above."""

    length: float
    variance: float
    nugget: float
    stretch: Array

    @classmethod
    def of(cls, theta: Array) -> Variogram:
        """From logarithms, which are searched."""
        length, variance, nugget = np.exp(theta[:3])
        return cls(float(length), float(variance), float(nugget), np.exp(theta[3:]))


@dataclass(frozen=True)
class DriftKriging:
    """A map of y (m, g), fitted: all columns share the variogram, each has its noise (m, g)."""

    places: Places
    y: Array
    noise: Array
    variogram: Variogram

    @classmethod
    def fit(cls, places: Places, y: Array, noise: Array, variogram: Variogram | None = None) -> DriftKriging:
        """Fit y (m, g) with noise (m, g); a variogram that is given stays as it is."""
        if variogram is None:
            variogram = restricted_likelihood(places, y, noise)
        if len(places) > MOST_PLACES:
            some = spread(places.points, MOST_PLACES)
            places, y, noise = places[some], y[some], noise[some]
        return cls(places, y, noise, variogram)

    @cached_property
    def _solved(self) -> list[tuple[Array, Array, Array, Array]]:
        """For each column: A^-1 (m, m), A^-1 F, the inverse of F^T A^-1 F, and beta."""
        v, F = self.variogram, drift_columns(self.places, self.places)
        x = self.places.stretched(v.length, v.stretch)
        K = v.variance * np.exp(-cdist(x, x))
        found: list[tuple[Array, Array, Array, Array]] = []
        for column in range(self.y.shape[1]):
            noise = self.noise[:, column]
            if column and np.array_equal(noise, self.noise[:, column - 1]):
                inverse, AF, small, _ = found[-1]
            else:
                A = K.copy()
                A[np.diag_indices_from(A)] += v.variance * v.nugget + noise
                L = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
                half, _ = scipy.linalg.lapack.dtrtri(L, lower=1, overwrite_c=1)
                inverse = half.T @ half
                AF = inverse @ F
                small = np.linalg.pinv(F.T @ AF)
            found.append((inverse, AF, small, small @ (AF.T @ self.y[:, column])))
        return found

    def from_others(self) -> tuple[Array, Array]:
        """What the other places say of each place: mean and variance (m, g) of c_i without y_i."""
        mean, variance = np.empty_like(self.y), np.empty_like(self.y)
        for column, (inverse, AF, small, beta) in enumerate(self._solved):
            y = self.y[:, column]
            weights = inverse @ y - AF @ beta
            precision = np.diag(inverse) - np.einsum("ij,jk,ik->i", AF, small, AF)
            mean[:, column] = y - weights / precision
            variance[:, column] = np.maximum(1 / precision - self.noise[:, column], 1e-9 * self.variogram.variance)
        return mean, variance

    def at(self, places: Places) -> tuple[Array, Array]:
        """Mean and variance (o, g) of c at other places, what a place has for itself included in the variance."""
        v = self.variogram
        k = v.variance * np.exp(
            -cdist(places.stretched(v.length, v.stretch), self.places.stretched(v.length, v.stretch))
        )
        F = drift_columns(places, self.places)
        mean, variance = np.empty((len(places), self.y.shape[1])), np.empty((len(places), self.y.shape[1]))
        for column, (inverse, AF, small, beta) in enumerate(self._solved):
            weights = inverse @ self.y[:, column] - AF @ beta
            mean[:, column] = F @ beta + k @ weights
            free = F - k @ AF
            variance[:, column] = (
                v.variance * (1 + v.nugget)
                - np.einsum("ij,ij->i", k @ inverse, k)
                + np.einsum("ij,jk,ik->i", free, small, free)
            )
        return mean, np.maximum(variance, 1e-9 * v.variance)


def drift_columns(places: Places, fitted: Places) -> Array:
    """A constant, coordinates along the main axes of the fitted places, and covariates, as many as these bear."""
    affordable = len(fitted) // PLACES_PER_COLUMN - 1
    columns = [np.ones((len(places), 1))]
    if 0 < places.covariates.shape[1] <= affordable:
        columns.append(places.covariates)
        affordable -= places.covariates.shape[1]
    centre = fitted.points.mean(axis=0)
    _, size, axes = np.linalg.svd(fitted.points - centre, full_matrices=False)
    # On a small part of the Earth the third axis is its curvature.
    main = axes[size > 0.1 * size[0]] if size[0] > 0 else axes[:0]
    if len(main) <= affordable:
        columns.append((places.points - centre) @ main.T / (size[0] / np.sqrt(len(fitted))))
    return np.hstack(columns)


def spread_in_pairs(points: Array, count: int) -> Array:
    """At most so many of the points (m, d): half of them spread over the map, and the nearest of each.

    Places that are spread only are far from each other, and say nothing of how alike close ones are.
    """
    some = spread(points, count // 2)
    nearest = np.asarray(cKDTree(points).query(points[some], k=2)[1])
    return np.unique(np.concatenate([some, nearest[:, 1]]))


def restricted_likelihood(places: Places, y: Array, noise: Array) -> Variogram:
    """The variogram with the greatest restricted likelihood of y (m, g); the columns have one noise, their mean."""
    if len(places) > LIKELIHOOD_PLACES:
        some = spread_in_pairs(places.points, LIKELIHOOD_PLACES)
        places, y, noise = places[some], y[some], noise[some]
    noise = 1 / np.mean(1 / noise, axis=1)
    F = drift_columns(places, places)
    near = cdist(places.points, places.points)
    apart = near[np.triu_indices(len(places), 1)]
    unit = float(np.median(apart)) if apart.size else 1.0
    beta = np.linalg.lstsq(F / np.sqrt(noise)[:, None], y / np.sqrt(noise)[:, None], rcond=None)[0]
    size = max(float(np.mean((y - F @ beta) ** 2)), 1e-12 * float(np.mean(y**2)) + 1e-300)
    p = places.covariates.shape[1]
    start = np.log(np.r_[0.5 * unit, size, 0.2, np.full(p, 0.2 * unit)])
    if len(places) < 5:
        return Variogram.of(start)

    def minus_log(theta: Array) -> float:
        if np.abs(theta - start).max() > 8:
            return np.inf
        v = Variogram.of(theta)
        x = places.stretched(v.length, v.stretch)
        A = v.variance * np.exp(-cdist(x, x))
        A[np.diag_indices_from(A)] += v.variance * v.nugget + noise
        try:
            L = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return np.inf
        whitened = scipy.linalg.solve_triangular(L, np.hstack([F, y]), lower=True, check_finite=False)
        Q, R = np.linalg.qr(whitened[:, : F.shape[1]])
        rest = whitened[:, F.shape[1] :]
        rest = rest - Q @ (Q.T @ rest)
        logs = np.log(np.diag(L)).sum() + np.log(np.maximum(np.abs(np.diag(R)), 1e-300)).sum()
        # A weak prior keeps the parameters where the data say nothing of them.
        return float(y.shape[1] * logs + np.sum(rest**2) / 2 + 0.02 * np.sum((theta - start) ** 2))

    simplex = np.vstack([start, start + np.eye(start.size)])
    found = minimize(
        minus_log,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "maxfev": 60 + 25 * p, "xatol": 0.05, "fatol": 0.05},
    )
    return Variogram.of(found.x)
