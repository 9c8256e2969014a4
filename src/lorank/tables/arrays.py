"""Files that hold a whole matrix: npz and npy, Matrix Market, NetCDF."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lorank.errors import InputError
from lorank.files import check_exists, open_input
from lorank.linalg.memory import check_memory
from lorank.observations import Observations
from lorank.tables.names import position_of
from lorank.types import Array


def read_npz(path: Path, value: str | None = None) -> Observations:
    """A sparse matrix of `scipy.sparse.save_npz`, triplets `rows`, `cols` and `values`, or one array with NaN."""
    from scipy import sparse

    check_exists(path)
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            return Observations.from_dense(file)
        with file:
            names = set(file.files)
            if "format" in names:
                return Observations.from_sparse(sparse.load_npz(path))
            if {"rows", "cols", "values"} <= names:
                return Observations.from_ids(file["rows"], file["cols"], file["values"])
            if value is None and len(names) != 1:
                raise InputError(f"{path} holds {', '.join(sorted(names))}; name the array that is meant as value.")
            name = value if value is not None else names.pop()
            position_of(name, file.files, path)
            return Observations.from_dense(file[name])
    except InputError:
        raise
    except (ValueError, OSError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{path} cannot be read as an array ({error}).") from None


def read_matrix_market(path: Path, value: str | None = None) -> Observations:
    """A Matrix Market file; every entry that it stores is observed, zeros too."""
    from scipy.io import mminfo, mmread

    check_exists(path)
    try:
        with open_input(path) as file:
            data = io.BytesIO(file.read())
        m, n, entries, *_ = mminfo(data)
        check_memory(24 * entries + 16 * (m + n), f"A matrix of {m} x {n}", "give a smaller one")
        data.seek(0)
        matrix = mmread(data)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} cannot be read as a Matrix Market file ({error}).") from None
    return Observations.from_dense(matrix) if isinstance(matrix, np.ndarray) else Observations.from_sparse(matrix)


def read_netcdf(path: Path, value: str | None = None) -> Observations:
    """A variable of two dimensions; its coordinates are the ids."""
    check_exists(path)
    try:
        import xarray
    except ImportError:
        raise ImportError("NetCDF files need xarray: pip install 'lorank[spatial]'.") from None
    try:
        with xarray.open_dataset(path) as dataset:
            flat = [str(name) for name, variable in dataset.data_vars.items() if variable.ndim == 2]
            if value is None and len(flat) != 1:
                raise InputError(
                    f"{path} has {len(flat)} variables of two dimensions ({', '.join(flat)}); name one as value."
                )
            name = value if value is not None else flat[0]
            position_of(name, [str(variable) for variable in dataset.data_vars], path)
            variable = dataset[name]
            if variable.ndim != 2:
                raise InputError(
                    f"{name!r} of {path} has the dimensions {', '.join(map(str, variable.dims))}; two are needed."
                )
            ids = [variable.coords[dim].values if dim in variable.coords else None for dim in variable.dims]
            return Observations.from_dense(np.asarray(variable.values, np.float64), *map(_coordinate, ids))
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as NetCDF ({error}).") from None


def _coordinate(values: Array | None) -> Array | None:
    """Coordinates as ids: floats become text, for an id is not something to compute with."""
    if values is None:
        return None
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    return values if values.dtype.kind in "iu" else values.astype(str)


READERS: dict[str, Callable[[Path, str | None], Observations]] = {
    ".npz": read_npz,
    ".npy": read_npz,
    ".mtx": read_matrix_market,
    ".nc": read_netcdf,
    ".nc4": read_netcdf,
}
