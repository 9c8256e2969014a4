"""Measurements at stations over months, and the same on a common scale."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lorank.observations import Observations
from lorank.spatial.normalisation import Normalisation
from lorank.types import Array

Floats = npt.NDArray[np.float64]


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
    elevation : float64, (stations,), metres above the sea; None if it is not known.
    """

    values: Floats
    latitude: Floats
    longitude: Floats
    station: Array
    time: npt.NDArray[np.datetime64]
    variable: str
    units: str
    elevation: Floats | None = None

    def observations(self, stations: npt.ArrayLike | None = None) -> Observations:
        """What some stations (positions; all by default) measured, in a matrix that has all rows."""
        chosen = np.zeros(len(self.station), bool)
        chosen[slice(None) if stations is None else np.asarray(stations)] = True
        rows, cols = np.nonzero(~np.isnan(self.values) & chosen[:, None])
        return Observations.from_coo(rows, cols, self.values[rows, cols], self.values.shape, self.station, self.time)

    def first(self, months: int | None) -> StationData:
        """The first months only; all of them if None."""
        return replace(self, values=self.values[:, :months], time=self.time[:months])


def normalise(data: StationData, normalisation: str) -> StationData:
    """The same data on a common scale.

    Parameters
    ----------
    data : StationData
    normalisation : str
        A name of `lorank.spatial.normalisation`; "zscore-rows" takes each station's mean away and divides by its
        standard deviation, "anomalies-trend" takes twelve month means and a linear trend away before it divides. Season
        and trend, which all stations share, make a z-score too easy to predict.

    Returns
    -------
    StationData in standard deviations (unless "none"). A station that does not vary becomes 0; one that has too few
    values to be normalised by them has none left.

    Notes
    -----
    As in the literature on these data, a station that is held out is normalised by its own values; only so
    can errors be compared with those published.
    """
    if normalisation == "none":
        return data
    fitted = Normalisation.fit(data.values, normalisation, data.time, plain_deviation=True)
    values = np.where(fitted.determined[:, None], fitted.apply(data.values), np.nan)
    return replace(data, values=values, units="standard deviations")
