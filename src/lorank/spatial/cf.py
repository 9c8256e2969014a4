"""What the coordinates of a DataArray are: by name, or by the attributes of the CF conventions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

import lorank
from lorank.errors import InputError

if TYPE_CHECKING:
    import xarray

# Names that are looked for, and the standard name and units that CF gives them.
LATITUDE, LONGITUDE = ("lat", "latitude"), ("lon", "longitude")
NORTH = ("degrees_north", "degree_north", "degree_N", "degrees_N", "degreeN", "degreesN")
EAST = ("degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE")


def find_coordinate(da: xarray.DataArray, given: str | None, usual: tuple[str, ...]) -> str:
    """The name that was given, or the coordinate that is a latitude (or a longitude, as `usual` says)."""
    if given is not None:
        if given not in da.coords:
            raise InputError(f"There is no coordinate {given!r} among {', '.join(map(str, da.coords))}.")
        return given
    units = NORTH if usual == LATITUDE else EAST
    for name in usual:
        if name in da.coords:
            return name
    for found, coordinate in da.coords.items():
        if coordinate.attrs.get("standard_name") == usual[1] or coordinate.attrs.get("units") in units:
            return str(found)
    raise InputError(f"There is no coordinate {' or '.join(usual)}; say what it is called.")


def find_time(da: xarray.DataArray, given: str | None, others: list[str]) -> str:
    """The dimension of the times among others: as given, the only one, or by its name, attributes or dates."""
    if given is not None:
        if given not in others:
            raise InputError(f"Besides the places there is no dimension {given!r}; there are {others}.")
        return given
    if len(others) == 1:
        return others[0]
    for name in others:
        about = da.coords[name].attrs if name in da.coords else {}
        if name == "time" or about.get("standard_name") == "time" or about.get("axis") == "T":
            return name
    dated = [name for name in others if name in da.coords and da.coords[name].dtype.kind == "M"]
    if len(dated) == 1:
        return dated[0]
    raise InputError(f"Besides the places there must be one dimension of times; there are {others}: say which it is.")


def error_attributes(da: xarray.DataArray) -> dict[str, Any]:
    """Of the deviation of the errors of da."""
    about: dict[str, Any] = {"long_name": "estimated standard deviation of the error of filled values"}
    if "standard_name" in da.attrs:
        about["standard_name"] = f"{da.attrs['standard_name']} standard_error"
    if "units" in da.attrs:
        about["units"] = da.attrs["units"]
    return about


def with_history(attributes: dict[Any, Any], what: str) -> dict[Any, Any]:
    """Attributes of a file with a line of history above those that it has."""
    line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} lorank {lorank.__version__}: {what}"
    before = str(attributes.get("history", "")).strip()
    return {**attributes, "history": f"{line}\n{before}" if before else line}


def packing(variable: Any, values: Any) -> dict[str, Any]:
    """The encoding by which a file keeps numbers as small integers, if it holds these values; else none."""
    encoding = {name: variable.encoding[name] for name in PACKED if variable.encoding.get(name) is not None}
    kind = np.dtype(encoding.get("dtype", "f8"))
    if kind.kind not in "iu":
        return {name: encoding[name] for name in ("_FillValue",) if name in encoding}
    limits = np.iinfo(kind)
    whole = (np.array([np.nanmin(values), np.nanmax(values)]) - encoding.get("add_offset", 0.0)) / encoding.get(
        "scale_factor", 1.0
    )
    holds = limits.min < whole.min() and whole.max() < limits.max
    return encoding if holds and "_FillValue" in encoding else {}


PACKED = ("dtype", "scale_factor", "add_offset", "_FillValue")
