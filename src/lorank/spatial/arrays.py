"""xarray, NetCDF and Zarr: coordinates and attributes come back as they were, with nothing missing and errors
beside."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorank.errors import InputError
from lorank.files import refuse, replacing, replacing_folder
from lorank.memory import check_memory
from lorank.spatial.cf import (
    LATITUDE,
    LONGITUDE,
    error_attributes,
    find_coordinate,
    find_time,
    packing,
    with_history,
)
from lorank.spatial.completion import SpatialCompletion
from lorank.spatial.grids import GridCompletion
from lorank.spatial.stores import check_codecs, check_members, check_replaceable
from lorank.tables.damage import reading
from lorank.tables.netcdf import check_netcdf
from lorank.tables.netcdf_probe import bytes_of_chunks
from lorank.types import Array

if TYPE_CHECKING:
    import xarray

# Masks of a grid that are no variable: fill cells that have at least one value, or all.
MEASURED, ALL = "measured", "all"
# Files up to so many bytes are read at once; larger ones in blocks.
LOADED = 500e6


def complete(
    da: xarray.DataArray,
    dim: str | None = None,
    lat: str | None = None,
    lon: str | None = None,
    time: str | None = None,
    covariates: Sequence[str] = (),
    mask: str | xarray.DataArray = MEASURED,
    **parameters: Any,
) -> xarray.DataArray:
    """Fill the missing values of a DataArray of places and times, or of a grid over times.

    Parameters
    ----------
    da : DataArray
        Over (dim, time) in any order, with coordinates lat and lon along dim; or a grid over times: lat and lon are
        dimensions, or have two dimensions themselves. Further dimensions of a grid (levels) are filled one by one.
        Arrays of dask are read in blocks.
    dim : str, optional
        The dimension of the places; by default the one that latitudes run along.
    lat, lon, time : str, optional
        What the coordinates are called: by default found by name or CF attributes. Seasons need times that are dates.
    covariates : names of coordinates along dim
        What is known of every place, such as its elevation.
    mask : "measured", "all", or a DataArray
        Grids: which cells are filled. By default those that have at least one value: others are land, or outside.
        "all" predicts those from the places around them, as for stations. A DataArray over the grid is true where
        cells are filled.
    parameters
        Of `SpatialCompletion`, or of `GridCompletion` for grids. Those that are not given are tuned on held-out values.

    Returns
    -------
    DataArray
        With the coordinates, attributes and order of dimensions of da; what was measured is unchanged. Its coordinate
        `estimated_error` is the estimated standard deviation of the error of each filled value, 0 elsewhere.
    """
    return _completed(da, dim, lat, lon, time, covariates, mask, parameters)[0]


def complete_file(
    source: str | Path,
    target: str | Path,
    variable: str | None = None,
    dim: str | None = None,
    lat: str | None = None,
    lon: str | None = None,
    time: str | None = None,
    covariates: Sequence[str] = (),
    mask: str = MEASURED,
    **parameters: Any,
) -> dict[str, Any]:
    """Fill a variable of a NetCDF file or Zarr store and write it anew, with a variable <variable>_error beside it.

    Parameters
    ----------
    source, target : paths; the target is written only when all went well. Numbers packed as integers stay packed.
    variable : str, optional; not needed if the file has one variable over places and times.
    mask : "measured", "all", or the name of a variable of the file
    others : as for `complete`; covariates may be coordinates or variables of the file.

    Returns
    -------
    The parameters that were used, and how many cells there are and were filled.
    """
    source, target = Path(source), Path(target)
    if target.suffix == ".zarr":
        refuse(target, "A Zarr store")
        check_replaceable(target)
    data = open_file(source)
    try:
        # Files often keep latitudes as a variable like any other.
        named = (*LATITUDE, *LONGITUDE, lat, lon, *covariates)
        moved = [name for name in named if name in data.data_vars]
        shown = data.set_coords(moved)
        if variable is None:
            able = [str(name) for name in shown.data_vars if shown[name].ndim >= 2 and name != mask]
            if len(able) != 1:
                raise InputError(f"{source.name} holds {', '.join(able) or 'no matrix'}; say which variable to fill.")
            variable = able[0]
        elif variable not in shown.data_vars:
            raise InputError(f"There is no variable {variable!r} among {', '.join(map(str, shown.data_vars))}.")
        given: Any = mask
        if mask not in (MEASURED, ALL):
            if mask not in data.variables:
                raise InputError(f"There is no variable {mask!r} for the mask; there are {', '.join(map(str, data))}.")
            given = data[mask]
        da = shown[variable]
        filled, used = _completed(da, dim, lat, lon, time, covariates, given, parameters)
        error = filled.coords["estimated_error"].variable
        encoding = packing(da, filled.values)
        out = data.assign({variable: filled.drop_vars("estimated_error").variable})
        out[f"{variable}_error"] = error
        out[variable].attrs["ancillary_variables"] = f"{variable}_error"
        count = int((error.values > 0).sum())
        out.attrs = with_history(out.attrs, f"filled {count} of {filled.size} values of {variable}")
        out[variable].encoding = encoding
        _written(out, target)
    finally:
        data.close()
    return {**used, "filled": count, "cells": filled.size}


def open_file(source: Path) -> xarray.Dataset:
    """A Dataset whose values are read when they are asked for."""
    try:
        import xarray as xr
    except ImportError:
        raise ImportError("NetCDF files need xarray and h5netcdf: pip install 'lorank[spatial]'.") from None
    if not source.exists():
        raise InputError(f"There is no file {source}.")
    if source.is_dir():
        with reading(source, "Zarr"):
            check_codecs(source)
            if not (consolidated := (source / ".zmetadata").exists()):
                check_members(source)
            return _loaded(xr.open_zarr(source, chunks=None, consolidated=consolidated), source)
    check_netcdf(source)
    with reading(source, "NetCDF"):
        return _loaded(xr.open_dataset(source), source)


def _loaded(opened: xarray.Dataset, source: Path) -> xarray.Dataset:
    """A small file at once, so that its damage is found here; a larger one when it is asked for."""
    chunks = sum(map(bytes_of_chunks, opened.variables.values()))
    check_memory(opened.nbytes + chunks, f"All of {source}", "give a smaller one, or larger chunks")
    if opened.nbytes > LOADED:
        return opened
    with opened:
        return opened.load()


def _written(out: xarray.Dataset, target: Path) -> None:
    if target.suffix == ".zarr":
        for name in out.variables:
            # Chunks of the source need not suit.
            out[name].encoding.pop("chunks", None)
        with replacing_folder(target, check_replaceable) as beside:
            out.to_zarr(beside, mode="a", consolidated=False)
        return
    with replacing(target) as beside:
        out.to_netcdf(beside, engine="h5netcdf")


def _completed(
    da: xarray.DataArray,
    dim: str | None,
    lat: str | None,
    lon: str | None,
    time: str | None,
    covariates: Sequence[str],
    mask: Any,
    parameters: dict[str, Any],
) -> tuple[xarray.DataArray, dict[str, Any]]:
    import xarray as xr

    if not isinstance(da, xr.DataArray):
        raise InputError(f"complete needs an xarray DataArray, not {type(da).__name__}; pick a variable of a Dataset.")
    lat, lon = find_coordinate(da, lat, LATITUDE), find_coordinate(da, lon, LONGITUDE)
    along = tuple(str(name) for name in da.coords[lat].dims)
    across = tuple(str(name) for name in da.coords[lon].dims)
    plane = (*along, *across) if len(along) == 1 and along != across else along
    if dim is None and len(plane) == 2:
        if isinstance(mask, str) and mask == ALL:
            if covariates or lat not in da.dims:
                raise InputError("mask='all' fills grids of latitudes by longitudes, without covariates.")
            stacked = da.stack(location=(lat, lon))
            filled, used = _stations(stacked, "location", lat, lon, time, (), parameters)
            back = filled.unstack("location").reindex({lat: da[lat], lon: da[lon]}).transpose(*da.dims)
            return back.assign_attrs(da.attrs), used
        if covariates:
            raise InputError("A grid is filled without covariates; leave them out, or name the dimension of places.")
        return _grid(da, plane, time, mask, parameters)
    if dim is None:
        dim = plane[0] if len(plane) == 1 else "location"
    return _stations(da, dim, lat, lon, time, covariates, parameters)


def _stations(
    da: xarray.DataArray,
    dim: str,
    lat: str,
    lon: str,
    time: str | None,
    covariates: Sequence[str],
    parameters: dict[str, Any],
) -> tuple[xarray.DataArray, dict[str, Any]]:
    if dim not in da.dims:
        raise InputError(
            f"There is no dimension {dim!r} among {', '.join(map(str, da.dims))}; name that of the places."
        )
    others = [str(name) for name in da.dims if name != dim]
    if len(others) != 1 or time not in (None, others[0]):
        raise InputError(f"Besides {dim!r} there must be the one dimension {time or 'time'!r}; there are {others}.")
    for name in (lat, lon, *covariates):
        if name not in da.coords:
            raise InputError(f"There is no coordinate {name!r} among {', '.join(map(str, da.coords))}.")
        if da.coords[name].dims != (dim,):
            raise InputError(f"The coordinate {name!r} must run along {dim!r}: one number for each place.")
    table = da.transpose(dim, others[0])
    known = {name: table.coords[name].values for name in covariates} or None
    when = table.coords[others[0]].values if others[0] in table.coords else None
    values = table.values
    model = SpatialCompletion(**parameters)
    model.fit(values, table.coords[lat].values, table.coords[lon].values, when, known)
    predicted, deviation = model.predict(return_std=True)
    missing = np.isnan(values)
    filled = np.where(missing, predicted, values), np.where(missing, deviation, 0.0)
    return _like(da, (dim, others[0]), *filled), model.parameters_


def _grid(
    da: xarray.DataArray, plane: tuple[str, ...], time: str | None, mask: Any, parameters: dict[str, Any]
) -> tuple[xarray.DataArray, dict[str, Any]]:
    """Fill a grid, each of its levels by itself, reading it in blocks."""
    others = [str(name) for name in da.dims if name not in plane]
    when = find_time(da, time, others)
    levels = [name for name in others if name != when]
    order = (*levels, when, *plane)
    shape = tuple(da.sizes[name] for name in order)
    # Nobody needs sixteen digits of a deviation; a grid may fill half the memory.
    filled, errors = np.empty(shape, da.dtype if da.dtype.kind == "f" else np.float64), np.empty(shape, np.float32)
    allowed = None if isinstance(mask, str) else mask.transpose(*plane).values.astype(bool)
    times = da.coords[when].values if when in da.coords else None
    grids = GridCompletion(**{name: value for name, value in parameters.items() if name != "normalisation"})
    level: tuple[int, ...]
    for level in product(*(range(da.sizes[name]) for name in levels)):
        part = da.isel(dict(zip(levels, level))).transpose(when, *plane)
        grids.fit(_Slices(part, allowed), times)
        for rows, cols, values, deviation in grids.blocks():
            filled[level][:, rows, cols] = values
            errors[level][:, rows, cols] = deviation
    return _like(da, order, filled, errors), grids.parameters_


class _Slices:
    """A DataArray (n, y, x) that is read by slices; cells that the mask (y, x) leaves out are missing."""

    def __init__(self, da: xarray.DataArray, allowed: Array | None) -> None:
        self.da, self.allowed, self.shape = da, allowed, da.shape

    def __getitem__(self, parts: tuple[slice, slice, slice]) -> Array:
        values = np.asarray(self.da[parts].values, dtype=np.float64)
        return values if self.allowed is None else np.where(self.allowed[parts[1:]], values, np.nan)


def _like(da: xarray.DataArray, order: tuple[str, ...], filled: Array, errors: Array) -> xarray.DataArray:
    """Arrays over dimensions in this order as a DataArray like da."""
    axes = [order.index(str(name)) for name in da.dims]
    kind = da.dtype if da.dtype.kind == "f" else np.dtype(np.float64)
    out = da.copy(data=filled.transpose(axes).astype(kind, copy=False))
    error = (da.dims, errors.transpose(axes), error_attributes(da))
    return out.assign_coords(estimated_error=error)
