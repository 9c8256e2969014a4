"""Level and season of every place: from its own months as far as they reach, and from the map beyond.

The values of place i at time t are x_it = b_t^T c_i + anomaly. The basis b_t has a constant, waves with a period of a
year and its parts, and perhaps a trend. c_i varies over the map as `drift` says, and the place's own values weigh as
much as they are worth: a mixed model, with

    c_i | own values ~ N(mu_i + S_i (r_i - D_i mu_i), S_i),   S_i = (D_i + T_i^-1)^-1
    D_i = sum_t p_it b_t b_t^T,   r_i = sum_t p_it b_t x_it

where p_it is one over the variance of the anomaly (0 if x_it is missing), and mu_i, T_i are what the other places say.
With many values this is least squares; a place with a few months keeps the season of its surroundings and shifts it;
without any, it is the map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.spatial.drift import DriftKriging, Places, Variogram
from lorank.types import Array

# Waves of a year that are finer than its sixth belong to the weather.
MOST_WAVES = 6
EM_ROUNDS = 15
# An own estimate whose variance is more than so many times that between places says nothing.
WORTHLESS = 1e3


@dataclass(frozen=True)
class Basis:
    """Functions of time (n, q), those of one order share a variogram; `phase` (n,) numbers the time of the year."""

    values: Array
    order: Array
    phase: Array

    @classmethod
    def of(cls, time: npt.ArrayLike | None, n: int, season: bool, trend: bool) -> Basis:
        """A constant, waves if there is a season, and a trend if it is wanted."""
        columns, order, phase = [np.ones(n)], [0], np.zeros(n, np.int64)
        if season or trend:
            year, phase = _time_of_year(time, n)
        if season:
            phases = np.unique(phase).size
            for wave in range(1, min(MOST_WAVES, phases // 2) + 1):
                columns.append(np.sqrt(2) * np.cos(2 * np.pi * wave * year))
                order.append(min(wave, 3))
                if 2 * wave < phases:
                    columns.append(np.sqrt(2) * np.sin(2 * np.pi * wave * year))
                    order.append(min(wave, 3))
                else:
                    columns[-1] /= np.sqrt(2)
        if trend:
            elapsed = year - year.mean()
            columns.append(elapsed / max(float(elapsed.std()), 1e-12))
            order.append(-1)
        return cls(np.column_stack(columns), np.array(order), phase)


def _time_of_year(time: npt.ArrayLike | None, n: int) -> tuple[Array, Array]:
    """Dates as years, and numbered by the month or the day of the year that they are in."""
    times = np.asarray(time)
    if time is None or times.dtype.kind != "M" or times.shape != (n,):
        raise InputError(
            f"This normalisation needs the date of each of the {n} columns (datetime64); zscore-rows needs none."
        )
    months = times.astype("datetime64[M]")
    month = months.astype(np.int64)
    if np.unique(month).size == n:
        return month / 12.0, month % 12
    begun = times.astype("datetime64[Y]")
    day = (times.astype("datetime64[s]") - begun.astype("datetime64[s]")).astype(np.float64) / 86400
    return begun.astype(np.int64) + day / 365.25, month % 12


@dataclass(frozen=True)
class Climatology:
    """Coefficients (m, q) of every place, their covariance (m, q, q), and the maps they come from by order.

    map_mean and map_variance (m, q) are what the other places say of the coefficients.
    """

    basis: Basis
    coefficients: Array
    covariance: Array
    map_mean: Array
    map_variance: Array
    maps: dict[int, DriftKriging]

    def variance(self, rows: Array) -> Array:
        """Of b_t^T c_i (r, n) at some of the places."""
        b = self.basis.values
        products = (b[:, :, None] * b[:, None, :]).reshape(len(b), -1)
        return np.asarray(self.covariance[rows].reshape(len(rows), -1) @ products.T)

    def at(self, places: Places) -> tuple[Array, Array]:
        """Coefficients (o, q) at other places, and their variances (o, q)."""
        return _at(self.maps, self.basis.order, places)

    @property
    def variograms(self) -> dict[int, Variogram]:
        return {order: fitted.variogram for order, fitted in self.maps.items()}


def fit_climatology(
    values: Array, precision: Array, basis: Basis, places: Places, variograms: dict[int, Variogram] | None = None
) -> Climatology:
    """Fit values (m, n), NaN missing, where precision (m, n) is one over the variance of the anomaly, 0 where missing.

    Variograms of another fit are taken as they are.
    """
    b, q = basis.values, basis.values.shape[1]
    products = (b[:, :, None] * b[:, None, :]).reshape(len(b), -1)
    D = (precision @ products).reshape(-1, q, q)
    r = (precision * np.where(np.isnan(values), 0.0, values)) @ b
    measured = np.flatnonzero(precision.any(axis=1))
    y, noise = _own_estimates(D[measured], r[measured])
    maps = {
        order: DriftKriging.fit(
            places[measured],
            y[:, basis.order == order],
            noise[:, basis.order == order],
            None if variograms is None else variograms[order],
        )
        for order in np.unique(basis.order).tolist()
    }
    mean, variance = np.empty((len(values), q)), np.empty((len(values), q))
    inside = len(next(iter(maps.values())).places) == measured.size
    others = np.ones(len(values), bool)
    if inside:
        others[measured] = False
        for order, fitted in maps.items():
            here = np.ix_(measured, np.flatnonzero(basis.order == order))
            mean[here], variance[here] = fitted.from_others()
    if others.any():
        mean[others], variance[others] = _at(maps, basis.order, places[others])
    covariance = np.linalg.inv(D + np.eye(q) / variance[:, None, :])
    coefficients = mean + np.einsum("iab,ib->ia", covariance, r - np.einsum("iab,ib->ia", D, mean))
    return Climatology(basis, coefficients, covariance, mean, variance, maps)


def _at(maps: dict[int, DriftKriging], order: Array, places: Places) -> tuple[Array, Array]:
    mean, variance = np.empty((len(places), order.size)), np.empty((len(places), order.size))
    for name, fitted in maps.items():
        mean[:, order == name], variance[:, order == name] = fitted.at(places)
    return mean, variance


def _own_estimates(D: Array, r: Array) -> tuple[Array, Array]:
    """What each place's own values say of its coefficients (s, q), one by one, and the variance of each (s, q).

    Without the map: c_i ~ N(centre, diag(between)) by expectation maximisation, and the prior taken out of the
    posterior again. So a place with fewer values than coefficients also says what it knows.
    """
    q = D.shape[1]
    ridge = 1e-3 * np.trace(D, axis1=1, axis2=2).mean() / q
    estimate = np.linalg.solve(D + ridge * np.eye(q), r[:, :, None])[:, :, 0]
    weight = np.einsum("iaa->i", D) / q
    centre = weight @ estimate / weight.sum()
    between = np.maximum(weight @ (estimate - centre) ** 2 / weight.sum(), 1e-12 * np.mean(estimate**2) + 1e-300)
    for _ in range(EM_ROUNDS):
        covariance = np.linalg.inv(D + np.diag(1 / between))
        mean = centre + np.einsum("iab,ib->ia", covariance, r - D @ centre)
        spread = np.einsum("iaa->ia", covariance)
        centre = mean.mean(axis=0)
        between = np.maximum(np.mean((mean - centre) ** 2 + spread, axis=0), 1e-12 * np.mean(mean**2) + 1e-300)
    gained = 1 / spread - 1 / between
    known = gained * between * WORTHLESS > 1
    gained = np.where(known, gained, 1 / (WORTHLESS * between))
    return centre + np.where(known, mean - centre, 0.0) / (spread * gained), 1 / gained
