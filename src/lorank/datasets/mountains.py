"""Simulated series of stations in mountains: levels that fall with height, seasons, weather, and skewed
precipitation."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from lorank.datasets.stations import StationData
from lorank.side_information.coordinates import sphere
from lorank.types import Array


def mountain_stations(
    variable: Literal["temperature", "precipitation"] = "temperature",
    stations: int = 200,
    months: int = 360,
    seed: int = 0,
) -> StationData:
    """Monthly temperature (degC) or precipitation (mm) at stations of a made-up mountain range, nothing missing.

    Heights are a rough surface from 0 to 3.5 km. Temperature falls by 6 degrees per km, less in winter, when
    cold air fills the valleys; weather comes in twelve large patterns, of which some depend on height, a field of
    short range, and what only the station has. Precipitation grows with height, its season turns from west to east,
    and it varies in proportion to its level: a gamma-like quantity, many small values and a few large ones.

    Parameters
    ----------
    variable : str
    stations, months : int
    seed : int
    """
    rng = np.random.default_rng(seed)
    lat, lon = rng.uniform(36, 48, stations), rng.uniform(-120, -104, stations)
    points = sphere(lat, lon)
    rough = _field(rng, points, 0.08, 1) + 0.8 * _field(rng, points, 0.5, 1)
    height = 3.5 / (1 + np.exp(1.0 - rough[:, 0]))
    east, north = (lon - lon.mean()) / 8, (lat - lat.mean()) / 6
    t = np.arange(months)
    winter = np.cos(2 * np.pi * t / 12)
    shapes = _field(rng, points, 0.9, 12) / (1 + 0.35 * np.arange(12))
    shapes[:, :4] += 0.5 * (height - height.mean())[:, None] * rng.standard_normal(4)
    weather = shapes @ rng.standard_normal((12, months)) + 0.5 * _field(rng, points, 0.15, months)
    own = rng.standard_normal((stations, months))
    time = np.datetime64("1981-01") + t
    names = np.array([f"M{i:04d}" for i in range(stations)])
    if variable == "temperature":
        level = (
            17 - 6 * height - 4 * north + 0.6 * _field(rng, points, 0.2, 1)[:, 0] + 0.3 * rng.standard_normal(stations)
        )
        size = 10 + 1.2 * east - 0.8 * (height - height.mean()) + 0.4 * _field(rng, points, 0.3, 1)[:, 0]
        values = level[:, None] - np.outer(size, winter) + (1 + 0.4 * winter) * weather + 0.4 * own
        return StationData(np.round(values, 2), lat, lon, names, time, "temperature", "degC", 1000 * height)
    logs = (
        3.4 + 0.35 * height - 0.4 * east + 0.3 * _field(rng, points, 0.2, 1)[:, 0] + 0.1 * rng.standard_normal(stations)
    )
    season = np.outer(0.5 - 0.7 * east, winter)
    values = np.exp(logs[:, None] + season + 0.25 * weather + 0.25 * own)
    return StationData(np.round(values, 1), lat, lon, names, time, "precipitation", "mm", 1000 * height)


def _field(rng: np.random.Generator, points: Array, length: float, count: int) -> Array:
    """Gaussian fields (m, count) with an exponential covariance of this length in 1000 km."""
    K = np.exp(-cdist(points, points) / length)
    K[np.diag_indices_from(K)] += 1e-9
    return np.asarray(np.linalg.cholesky(K) @ rng.standard_normal((len(points), count)))
