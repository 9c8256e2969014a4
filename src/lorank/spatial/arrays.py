"""xarray and NetCDF: coordinates and attributes come back as they were, with nothing missing and errors beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorank.errors import InputError
from lorank.files import replacing
from lorank.linalg.memory import check_memory
from lorank.spatial.completion import SpatialCompletion
from lorank.tables.arrays import check_netcdf
from lorank.tables.damage import reading

if TYPE_CHECKING:
    import xarray

# Names of coordinates that are looked for.
LATITUDE, LONGITUDE = ("lat", "latitude"), ("lon", "longitude")


def complete(
    da: xarray.DataArray,
    dim: str | None = None,
    lat: str | None = None,
    lon: str | None = None,
    time: str | None = None,
    covariates: Sequence[str] = (),
    **parameters: Any,
) -> xarray.DataArray:
    """Fill the missing values of a DataArray of places and times.

    Parameters
    ----------
    da : DataArray
        Over (dim, time) in any order, with coordinates lat and lon along dim; or a grid over (lat, lon, time).
    dim : str, optional
        The dimension of the places; by default the one that latitudes run along.
    lat, lon, time : str, optional
        What the coordinates are called: by default lat or latitude, lon or longitude, and the dimension that is left.
        Seasons need times that are dates.
    covariates : names of coordinates along dim
        What is known of every place, such as its elevation.
    parameters
        Of `SpatialCompletion`. Those that are not given are tuned on held-out values.

    Returns
    -------
    DataArray
        With the coordinates, attributes and order of dimensions of da; what was measured is unchanged. Its coordinate
        `estimated_error` is the estimated standard deviation of the error of each filled value, 0 elsewhere.
    """
    return _completed(da, dim, lat, lon, time, covariates, parameters)[0]


def complete_file(
    source: str | Path,
    target: str | Path,
    variable: str | None = None,
    dim: str | None = None,
    lat: str | None = None,
    lon: str | None = None,
    time: str | None = None,
    covariates: Sequence[str] = (),
    **parameters: Any,
) -> dict[str, Any]:
    """Fill a variable of a NetCDF file and write the file anew, with a variable <variable>_error beside it.

    Parameters
    ----------
    source, target : paths; the target is written only when all went well.
    variable : str, optional; not needed if the file has one variable over places and times.
    others : as for `complete`; covariates may be coordinates or variables of the file.

    Returns
    -------
    The parameters that were used, and how many cells there are and were filled.
    """
    source, target = Path(source), Path(target)
    data = _opened(source)
    # Files often keep latitudes as a variable like any other.
    named = (*LATITUDE, *LONGITUDE, lat, lon, *covariates)
    before, data = data, data.set_coords([name for name in named if name in data.data_vars])
    if variable is None:
        able = [str(name) for name in data.data_vars if data[name].ndim >= 2]
        if len(able) != 1:
            raise InputError(f"{source.name} holds {', '.join(able) or 'no matrix'}; say which variable to fill.")
        variable = able[0]
    elif variable not in data.data_vars:
        raise InputError(f"There is no variable {variable!r} among {', '.join(map(str, data.data_vars))}.")
    filled, model = _completed(data[variable], dim, lat, lon, time, covariates, parameters)
    error = filled.coords["estimated_error"]
    out = data.assign({variable: filled.drop_vars("estimated_error")})
    out[f"{variable}_error"] = error.drop_vars("estimated_error", errors="ignore")
    out = out.reset_coords([name for name in before.data_vars if name in out.coords])
    # A file may keep numbers as small integers: what was filled in must not be rounded to them.
    out[variable].encoding = {}
    with replacing(target) as beside:
        out.to_netcdf(beside, engine="h5netcdf")
    return {**model.parameters_, "filled": int(np.isnan(data[variable].values).sum()), "cells": filled.size}


def _opened(source: Path) -> xarray.Dataset:
    try:
        import xarray as xr
    except ImportError:
        raise ImportError("NetCDF files need xarray and h5netcdf: pip install 'lorank[spatial]'.") from None
    if not source.is_file():
        raise InputError(f"There is no file {source}.")
    check_netcdf(source)
    with reading(source, "NetCDF"), xr.open_dataset(source) as opened:
        check_memory(2 * opened.nbytes, f"All of {source}", "give a smaller one")
        return opened.load()


def _named(da: xarray.DataArray, given: str | None, usual: tuple[str, ...]) -> str:
    """The name that was given, or the usual one that the coordinates have."""
    if given is not None:
        if given not in da.coords:
            raise InputError(f"There is no coordinate {given!r} among {', '.join(map(str, da.coords))}.")
        return given
    found = [name for name in usual if name in da.coords]
    if not found:
        raise InputError(f"There is no coordinate {' or '.join(usual)}; say what it is called.")
    return found[0]


def _completed(
    da: xarray.DataArray,
    dim: str | None,
    lat: str | None,
    lon: str | None,
    time: str | None,
    covariates: Sequence[str],
    parameters: dict[str, Any],
) -> tuple[xarray.DataArray, SpatialCompletion]:
    import xarray as xr

    if not isinstance(da, xr.DataArray):
        raise InputError(f"complete needs an xarray DataArray, not {type(da).__name__}; pick a variable of a Dataset.")
    lat, lon = _named(da, lat, LATITUDE), _named(da, lon, LONGITUDE)
    if dim is None:
        along: tuple[Any, ...] = da.coords[lat].dims if lat in da.coords else ()
        dim = "location" if lat in da.dims or len(along) != 1 else str(along[0])
    grid = dim not in da.dims and lat in da.dims and lon in da.dims
    if grid:
        table = da.stack({dim: (lat, lon)})
    elif dim in da.dims:
        table = da
    else:
        raise InputError(
            f"There is no dimension {dim!r} among {', '.join(map(str, da.dims))}; name that of the places."
        )
    others = [str(name) for name in table.dims if name != dim]
    if time is None:
        time = others[0] if len(others) == 1 else "time"
    if others != [time]:
        raise InputError(f"Besides {dim!r} there must be the one dimension {time!r}; there are {others}.")
    for name in (lat, lon, *covariates):
        if name not in table.coords:
            raise InputError(f"There is no coordinate {name!r} among {', '.join(map(str, table.coords))}.")
        if table.coords[name].dims != (dim,):
            raise InputError(f"The coordinate {name!r} must run along {dim!r}: one number for each place.")
    table = table.transpose(dim, time)
    known = {name: table.coords[name].values for name in covariates} or None
    when = table.coords[time].values if time in table.coords else None
    model = SpatialCompletion(**parameters)
    model.fit(table.values, table.coords[lat].values, table.coords[lon].values, when, known)
    filled = table.copy(data=model.complete().astype(da.dtype if da.dtype.kind == "f" else np.float64))
    about = {"long_name": "estimated standard deviation of the error of filled values"}
    if "units" in da.attrs:
        about["units"] = da.attrs["units"]
    error = table.copy(data=np.where(np.isnan(table.values), model.predict(return_std=True)[1], 0.0))
    if grid:
        filled, error = (part.unstack(dim).reindex_like(da) for part in (filled, error))
    filled = filled.transpose(*da.dims)
    spread = error.transpose(*da.dims).variable
    spread.attrs = about
    filled = filled.assign_coords(estimated_error=spread)
    filled.attrs.update(da.attrs)
    return filled, model
