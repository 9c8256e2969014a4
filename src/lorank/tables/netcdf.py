"""NetCDF files, which are opened by another process first: the libraries that read them crash on some."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from lorank.errors import InputError, one_line
from lorank.files import check_exists, on_disk
from lorank.memory import check_memory, free_memory
from lorank.observations import Observations
from lorank.observations.identifiers import microseconds
from lorank.tables import netcdf_probe
from lorank.tables.damage import reading
from lorank.tables.names import listed, position_of
from lorank.types import Array

# Seconds that it may take to open a file and read it, beside one for so many bytes.
PATIENCE, BYTES_A_SECOND = 60.0, 20e6


def read_netcdf(path: Path, value: str | None = None) -> Observations:
    """A variable of two dimensions; its coordinates are the ids."""
    check_exists(path)
    try:
        import xarray
    except ImportError:
        raise ImportError("NetCDF files need xarray: pip install 'lorank[spatial]'.") from None
    damaged = damaged_variables(path)
    with reading(path, "NetCDF"), xarray.open_dataset(on_disk(path)) as dataset:
        flat = [str(name) for name, variable in dataset.data_vars.items() if variable.ndim == 2]
        if value is None and len(flat) != 1:
            raise InputError(f"{path} has {len(flat)} variables of two dimensions ({listed(flat)}); name one as value.")
        name = value if value is not None else flat[0]
        position_of(name, [str(variable) for variable in dataset.data_vars], path)
        variable = dataset[name]
        if variable.ndim != 2:
            raise InputError(
                f"{name!r} of {path} has the dimensions {listed([str(dim) for dim in variable.dims])}; two are needed."
            )
        check_memory(netcdf_probe.bytes_of(variable), f"{name!r} of {path}", "give a smaller one, or larger chunks")
        _refuse(path, {key: why for key, why in damaged.items() if key in (name, *variable.dims)})
        ids = [variable.coords[dim].values if dim in variable.coords else None for dim in variable.dims]
        return Observations.from_dense(np.asarray(variable.values, np.float64), *map(_coordinate, ids))


def check_netcdf(path: Path) -> None:
    """Refuse a file that cannot be opened, or of which a variable cannot be read."""
    _refuse(path, damaged_variables(path))


def _refuse(path: Path, damaged: dict[str, str]) -> None:
    for name, why in damaged.items():
        raise InputError(f"{path} is damaged: {name!r} cannot be read ({one_line(ValueError(why))}).")


def damaged_variables(path: Path) -> dict[str, str]:
    """The variables of a file that cannot be read, and why, found out in a process of its own.

    A file is refused that cannot be opened (what h5netcdf leaves half open prints a traceback when it goes), that the
    HDF5 library crashes on or never comes back from.
    """
    if not sys.executable:  # inside another program
        return {}
    limit = PATIENCE + path.stat().st_size / BYTES_A_SECOND
    # -P: a module that lies in the folder where somebody works is none of ours.
    words = ["-P", "-W", "ignore", netcdf_probe.__file__, os.fspath(on_disk(path)), str(int(limit) + 1)]
    try:
        ended = subprocess.run(
            [sys.executable, *words, str(free_memory())], capture_output=True, timeout=limit, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{path} is damaged: it cannot be read as NetCDF within {limit:.0f} seconds.") from None
    if ended.returncode < 0:
        raise InputError(
            f"{path} is damaged: the library that reads NetCDF crashes on it (signal {-ended.returncode})."
        )
    if ended.returncode > 0:  # not even the process began
        raise InputError(f"{path} cannot be read as NetCDF ({one_line(ValueError(ended.stderr.decode()[-200:]))}).")
    found = json.loads(ended.stdout)
    if found["file"] is not None:
        raise InputError(f"{path} is damaged or not NetCDF ({one_line(ValueError(found['file']))}).")
    return dict(found["variables"])


def _coordinate(values: Array | None) -> Array | None:
    """Coordinates as ids: floats become text, for an id is not something to compute with."""
    if values is None:
        return None
    if values.dtype.kind == "M":
        return microseconds(values)
    return values if values.dtype.kind in "iu" else values.astype(str)
