"""Files that hold a whole matrix: npz and npy, NetCDF."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError, one_line
from lorank.files import check_exists, on_disk
from lorank.memory import check_memory, free_memory
from lorank.observations import Observations
from lorank.observations.identifiers import microseconds
from lorank.tables.damage import reading
from lorank.tables.matrix_market import read_matrix_market
from lorank.tables.names import listed, position_of
from lorank.types import Array


def read_npz(path: Path, value: str | None = None) -> Observations:
    """A sparse matrix of `scipy.sparse.save_npz`, triplets `rows`, `cols` and `values`, or one array with NaN."""
    from scipy import sparse

    check_exists(path)
    with reading(path, "an array"):
        file = np.load(on_disk(path), allow_pickle=False)
        if isinstance(file, np.ndarray):
            return Observations.from_dense(file)
        with file:
            _check_sizes(file, path)
            names = set(file.files)
            if "format" in names:
                return Observations.from_sparse(sparse.load_npz(on_disk(path)))
            if {"rows", "cols", "values"} <= names:
                return Observations.from_ids(file["rows"], file["cols"], file["values"])
            if value is None and len(names) != 1:
                raise InputError(f"{path} holds {listed(sorted(names))}; name the array that is meant as value.")
            name = value if value is not None else names.pop()
            position_of(name, file.files, path)
            return Observations.from_dense(file[name])


def _check_sizes(file: Any, path: Path) -> None:
    """Refuse an archive whose arrays would not fit into memory: a small file can be packed zeros."""
    packed = file.zip.infolist()
    check_memory(2 * sum(member.file_size for member in packed), f"The arrays of {path}", "give smaller ones")


def read_netcdf(path: Path, value: str | None = None) -> Observations:
    """A variable of two dimensions; its coordinates are the ids."""
    check_exists(path)
    try:
        import xarray
    except ImportError:
        raise ImportError("NetCDF files need xarray: pip install 'lorank[spatial]'.") from None
    check_netcdf(path)
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
        check_memory(16 * variable.size, f"{name!r} of {path}", "give a smaller one")
        ids = [variable.coords[dim].values if dim in variable.coords else None for dim in variable.dims]
        return Observations.from_dense(np.asarray(variable.values, np.float64), *map(_coordinate, ids))


# Opens a NetCDF file and reads all that fits into memory. A file that cannot be opened is told of by code 2; one of
# whose variables one is damaged may have a good one.
_PROBE = """
import sys, xarray
try:
    dataset = xarray.open_dataset(sys.argv[1])
except Exception as error:
    sys.stdout.buffer.write((str(error) or type(error).__name__).encode(errors="replace"))
    sys.exit(2)
with dataset:
    for variable in dataset.variables.values():
        if variable.size * 16 < int(sys.argv[2]):
            variable.load()
"""
# Seconds that it may take, beside one for so many bytes.
PATIENCE, BYTES_A_SECOND = 60.0, 20e6


def check_netcdf(path: Path) -> None:
    """Refuse a file that the HDF5 library crashes on or never comes back from, found out in a process of its own.

    One that cannot be opened is refused here too: what h5netcdf leaves half open prints a traceback when it goes.
    """
    if not sys.executable:  # inside another program
        return
    limit = PATIENCE + path.stat().st_size / BYTES_A_SECOND
    command = [sys.executable, "-W", "ignore", "-c", _PROBE, os.fspath(on_disk(path)), str(free_memory())]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise InputError(f"{path} is damaged: it cannot be read as NetCDF within {limit:.0f} seconds.") from None
    if ended.returncode < 0:
        raise InputError(
            f"{path} is damaged: the library that reads NetCDF crashes on it (signal {-ended.returncode})."
        )
    if ended.returncode == 2:
        why = one_line(ValueError(ended.stdout.decode(errors="replace")))
        raise InputError(f"{path} is damaged or not NetCDF ({why}).")


def _coordinate(values: Array | None) -> Array | None:
    """Coordinates as ids: floats become text, for an id is not something to compute with."""
    if values is None:
        return None
    if values.dtype.kind == "M":
        return microseconds(values)
    return values if values.dtype.kind in "iu" else values.astype(str)


READERS: dict[str, Callable[[Path, str | None], Observations]] = {
    ".npz": read_npz,
    ".npy": read_npz,
    ".mtx": read_matrix_market,
    ".nc": read_netcdf,
    ".nc4": read_netcdf,
}
