"""xarray and NetCDF: coordinates and attributes come back as they were, with nothing missing and errors beside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorank.errors import InputError
from lorank.spatial.completion import SpatialCompletion

if TYPE_CHECKING:
    import xarray


def complete(
    da: xarray.DataArray,
    dim: str = "location",
    lat: str = "lat",
    lon: str = "lon",
    time: str = "time",
    **parameters: Any,
) -> xarray.DataArray:
    """Fill the missing values of a DataArray of places and times.

    Parameters
    ----------
    da : DataArray
        Over (dim, time) in any order, with coordinates lat and lon along dim; or a grid over (lat, lon, time).
    dim : str
        The dimension of the places; not needed for a grid.
    lat, lon, time : str
        What the coordinates are called. Times are dates where the normalisation asks for months.
    parameters
        Of `SpatialCompletion`. Those that are not given are tuned on held-out places.

    Returns
    -------
    DataArray
        With the coordinates, attributes and order of dimensions of da; what was measured is unchanged. Its coordinate
        `estimated_error` is the estimated root mean squared error of what was filled in at each place.
    """
    return _completed(da, dim, lat, lon, time, parameters)[0]


def complete_file(
    source: str | Path,
    target: str | Path,
    variable: str | None = None,
    dim: str = "location",
    lat: str = "lat",
    lon: str = "lon",
    time: str = "time",
    **parameters: Any,
) -> dict[str, Any]:
    """Fill a variable of a NetCDF file and write the file anew, with a variable <variable>_error beside it.

    Parameters
    ----------
    source, target : paths; the target is written only when all went well.
    variable : str, optional; not needed if the file has one variable over places and times.
    others : as for `complete`.

    Returns
    -------
    The parameters that were used.
    """
    import xarray as xr

    source, target = Path(source), Path(target)
    if not source.exists():
        raise InputError(f"There is no file {source}.")
    with xr.open_dataset(source, engine="h5netcdf") as opened:
        data = opened.load()
    if variable is None:
        able = [str(name) for name in data.data_vars if data[name].ndim >= 2]
        if len(able) != 1:
            raise InputError(f"{source.name} holds {', '.join(able) or 'no matrix'}; say which variable to fill.")
        variable = able[0]
    elif variable not in data.data_vars:
        raise InputError(f"There is no variable {variable!r} among {', '.join(map(str, data.data_vars))}.")
    filled, model = _completed(data[variable], dim, lat, lon, time, parameters)
    error = filled.coords["estimated_error"]
    out = data.assign({variable: filled.drop_vars("estimated_error")})
    out[f"{variable}_error"] = error.drop_vars("estimated_error", errors="ignore")
    out.to_netcdf(target, engine="h5netcdf")
    return model.parameters_


def _completed(
    da: xarray.DataArray, dim: str, lat: str, lon: str, time: str, parameters: dict[str, Any]
) -> tuple[xarray.DataArray, SpatialCompletion]:
    import xarray as xr

    if not isinstance(da, xr.DataArray):
        raise InputError(f"complete needs an xarray DataArray, not {type(da).__name__}; pick a variable of a Dataset.")
    grid = dim not in da.dims and lat in da.dims and lon in da.dims
    if grid:
        table = da.stack({dim: (lat, lon)})
    elif dim in da.dims:
        table = da
    else:
        raise InputError(
            f"There is no dimension {dim!r} among {', '.join(map(str, da.dims))}; name that of the places."
        )
    others = [name for name in table.dims if name != dim]
    if others != [time]:
        raise InputError(f"Besides {dim!r} there must be the one dimension {time!r}; there are {others}.")
    for name in (lat, lon):
        if name not in table.coords or table.coords[name].dims != (dim,):
            raise InputError(f"The coordinate {name!r} must run along {dim!r}: one number for each place.")
    table = table.transpose(dim, time)
    when = table.coords[time].values if time in table.coords else None
    model = SpatialCompletion(**parameters)
    model.fit(table.values, table.coords[lat].values, table.coords[lon].values, when)
    filled = table.copy(data=model.complete().astype(da.dtype if da.dtype.kind == "f" else np.float64))
    about = {"long_name": "estimated root mean squared error of filled values"}
    if "units" in da.attrs:
        about["units"] = da.attrs["units"]
    error = xr.DataArray(model.error_, dims=(dim,), coords={dim: table.coords[dim]} if dim in table.coords else None)
    if grid:
        filled, error = filled.unstack(dim).reindex_like(da), error.unstack(dim).reindex({lat: da[lat], lon: da[lon]})
    filled = filled.transpose(*da.dims).assign_coords(estimated_error=error.assign_attrs(about))
    filled.attrs.update(da.attrs)
    return filled, model
