"""Places on the Earth: checked coordinates, and the distances between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.observations.checks import unmasked
from lorank.types import Array

# Mean radius of the Earth in the unit of every distance here, 1000 km.
EARTH_RADIUS = 6.371


def check_coordinates(latitude: npt.ArrayLike, longitude: npt.ArrayLike, distinct: bool = True) -> tuple[Array, Array]:
    """Degrees north and east as float64 arrays, or an `InputError` that names the place that is wrong.

    Parameters
    ----------
    latitude, longitude : (m,)
        Longitudes may count from -180 or from 0.
    distinct : bool
        Refuse two places at the same point.
    """
    lat, lon = (unmasked(part).astype(np.float64).ravel() for part in (latitude, longitude))
    if lat.size != lon.size:
        raise InputError(f"Each place needs a latitude and a longitude; there are {lat.size} and {lon.size}.")
    missing = ~(np.isfinite(lat) & np.isfinite(lon))
    if missing.any():
        raise InputError(
            f"Place {np.flatnonzero(missing)[0]} has no coordinates (NaN or infinite); drop it or find them."
        )
    beyond = np.abs(lat) > 90
    if beyond.any():
        hint = "; latitudes and longitudes look swapped" if not (np.abs(lon) > 90).any() else ""
        where = int(np.flatnonzero(beyond)[0])
        raise InputError(f"Latitude {lat[where]:g} of place {where} is beyond 90 degrees{hint}.")
    outside = (lon < -180) | (lon > 360)
    if outside.any():
        where = int(np.flatnonzero(outside)[0])
        raise InputError(f"Longitude {lon[where]:g} of place {where} is outside -180..360 degrees.")
    if distinct:
        # A degree is 111 km: places that agree to nine digits are the same.
        pairs = np.round(np.column_stack([lat, np.where(np.abs(lat) == 90, 0, lon % 360)]), 9)
        _, first, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        twice = np.flatnonzero(first[which.ravel()] != np.arange(lat.size))
        if twice.size:
            where = int(twice[0])
            raise InputError(
                f"Places {first[which.ravel()[where]]} and {where} have the same coordinates "
                f"({lat[where]:g}, {lon[where]:g}); average them or keep one."
            )
    return lat, lon


def sphere(latitude: Array, longitude: Array) -> Array:
    """Points (m, 3) on a ball of the Earth's radius, in 1000 km; their straight-line distance is the chord."""
    lat, lon = np.radians(latitude), np.radians(longitude)
    return EARTH_RADIUS * np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def haversine(latitude: Array, longitude: Array) -> Array:
    """All great-circle distances (m, m), in 1000 km."""
    from scipy.spatial.distance import cdist

    points = sphere(latitude, longitude)
    return 2 * EARTH_RADIUS * np.arcsin(np.minimum(cdist(points, points) / (2 * EARTH_RADIUS), 1.0))
