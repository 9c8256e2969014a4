"""Files that hold a whole matrix: npz and npy; and which reader a name asks for."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import check_exists, on_disk
from lorank.memory import check_memory
from lorank.observations import Observations
from lorank.tables.damage import reading
from lorank.tables.matrix_market import read_matrix_market
from lorank.tables.names import listed, position_of
from lorank.tables.netcdf import read_netcdf


def read_npz(path: Path, value: str | None = None) -> Observations:
    """A sparse matrix of `scipy.sparse.save_npz`, triplets `rows`, `cols` and `values`, or one array with NaN."""
    from scipy import sparse

    check_exists(path)
    with reading(path, "an array"):
        if not zipfile.is_zipfile(on_disk(path)):
            check_memory(on_disk(path).stat().st_size, f"The array of {path}", "give a smaller one")
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


READERS: dict[str, Callable[[Path, str | None], Observations]] = {
    ".npz": read_npz,
    ".npy": read_npz,
    ".mtx": read_matrix_market,
    ".nc": read_netcdf,
    ".nc4": read_netcdf,
}
