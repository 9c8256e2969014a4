"""Measurements at stations over months, and the ways to take their level, season and trend away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.observations import Observations
from lorank.types import Array

Floats = npt.NDArray[np.float64]
Normalisation = Literal["none", "zscore", "anomaly"]


@dataclass(frozen=True)
class StationData:
    """One variable, measured at fixed places every month.

    Attributes
    ----------
    values : float64, (stations, months); NaN is missing.
    latitude, longitude : float64, (stations,), degrees north and east.
    station : (stations,), their ids.
    time : datetime64[M], (months,).
    variable, units : what was measured, and in what.
    """

    values: Floats
    latitude: Floats
    longitude: Floats
    station: Array
    time: npt.NDArray[np.datetime64]
    variable: str
    units: str

    def observations(self, stations: npt.ArrayLike | None = None) -> Observations:
        """What some stations (positions; all by default) measured, in a matrix that has all rows."""
        chosen = np.zeros(len(self.station), bool)
        chosen[slice(None) if stations is None else np.asarray(stations)] = True
        rows, cols = np.nonzero(~np.isnan(self.values) & chosen[:, None])
        return Observations.from_coo(rows, cols, self.values[rows, cols], self.values.shape, self.station, self.time)

    def first(self, months: int | None) -> StationData:
        """The first months only; all of them if None."""
        return replace(self, values=self.values[:, :months], time=self.time[:months])


def normalise(data: StationData, normalisation: Normalisation) -> StationData:
    """The same data on a common scale, each station by itself.

    Parameters
    ----------
    data : StationData
    normalisation :
        - "none": as measured.
        - "zscore": minus the station's mean, over its standard deviation.
        - "anomaly": minus the least-squares fit of twelve month means and a linear trend, over the standard
          deviation of what is left. Season and trend, which all stations share, make a z-score too easy to
          predict.

    Returns
    -------
    StationData in standard deviations (unless "none"). A station that does not vary becomes 0.

    Notes
    -----
    As in the literature on these data, a station that is held out is normalised by its own values; only so
    can errors be compared with those published.
    """
    if normalisation not in get_args(Normalisation):
        raise InputError(f"Unknown normalisation {normalisation!r}: use one of {', '.join(get_args(Normalisation))}.")
    if normalisation == "none":
        return data
    if normalisation == "zscore":
        residual = data.values - _mean(data.values)
    else:
        month = data.time.astype("datetime64[M]").astype(np.int64)
        residual = _without_season(data.values, month)
        # Taking the season out of time too makes the two steps one joint least-squares fit
        # (Frisch-Waugh-Lovell), also where months are missing.
        elapsed = np.where(np.isnan(data.values), np.nan, month - month.mean())
        elapsed = _without_season(elapsed, month)
        spread = np.nansum(elapsed**2, axis=1, keepdims=True)
        slope = np.nansum(elapsed * residual, axis=1, keepdims=True) / np.where(spread > 0, spread, 1)
        residual = residual - slope * elapsed
    deviation = np.sqrt(_mean(residual**2))
    # A constant leaves only rounding: dividing by it would make noise look like data.
    varies = deviation > 1e-12 * np.sqrt(_mean(data.values**2))
    values = np.where(varies, residual / np.where(varies, deviation, 1), residual * 0)
    return replace(data, values=values, units="standard deviations")


def _without_season(values: Floats, month: npt.NDArray[np.int64]) -> Floats:
    residual = np.empty_like(values)
    for which in range(12):
        same = month % 12 == which
        residual[:, same] = values[:, same] - _mean(values[:, same])
    return residual


def _mean(values: Floats) -> Floats:
    """Mean of each row over what is there, as a column; 0 where nothing is."""
    count = (~np.isnan(values)).sum(axis=1, keepdims=True)
    mean: Floats = np.nansum(values, axis=1, keepdims=True) / np.maximum(count, 1)
    return mean
