"""Formats that hold typed arrays: parquet, npz and npy, Matrix Market, NetCDF."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import check_exists, open_input
from lorank.linalg.memory import check_memory
from lorank.observations import Observations
from lorank.tables.names import position_of, spelled
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


def parquet_file(path: Path) -> Any:
    """An open parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    check_exists(path)
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as parquet ({error}).") from None


def parquet_blocks(path: Path, row: str, col: str, value: str | None) -> Iterator[Any]:
    """Blocks of a long table: names and which one is on each line, for rows and for columns, and values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    file = parquet_file(path)
    for name in (row, col) if value is None else (row, col, value):
        position_of(name, file.schema_arrow.names, path)
    if value is not None:
        kind = file.schema_arrow.field(value).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise InputError(f"Column {value!r} of {path} holds {kind}, and values must be numbers.")
    line = 0
    for batch in file.iter_batches(1 << 20, columns=[row, col] if value is None else [row, col, value]):
        names = []
        for name in (row, col):
            column = batch.column(name)
            if column.null_count:
                where = line + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise InputError(f"Line {where + 1} of {path} has no id in column {name!r}; give one or drop the line.")
            encoded = _as_ids(column).dictionary_encode()
            names.append((encoded.dictionary.to_pylist(), encoded.indices.to_numpy()))
        if value is None:
            values = np.full(batch.num_rows, np.nan)
        else:
            values = pc.cast(batch.column(value), pa.float64()).to_numpy(zero_copy_only=False)
        line += batch.num_rows
        yield names[0], names[1], values


def _as_ids(column: Any) -> Any:
    """An Arrow column of int64, microseconds or text."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _as_ids(column.dictionary_decode())
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return column.cast(pa.timestamp("us"), safe=False)
    return column.cast(pa.string())


def read_wide_parquet(path: Path, labels: str | None = None) -> Observations:
    """A wide table: numeric columns are the matrix, the first text column (or `labels`) names its rows."""
    table = parquet_file(path).read()
    values, numeric, label = numeric_columns(table, path, labels)
    if not numeric:
        raise InputError(f"{path} has no column of numbers.")
    row_ids = None if label is None else spelled(_as_ids(table.column(label).combine_chunks()).to_pylist())
    return Observations.from_dense(values, row_ids, np.array(numeric))


def numeric_columns(table: Any, path: Path, labels: str | None) -> tuple[Array, list[str], str | None]:
    """Cells of an Arrow table's numeric columns with NaN for null, their names, and the column that names the rows."""
    import pyarrow as pa

    texts = [f.name for f in table.schema if not (pa.types.is_integer(f.type) or pa.types.is_floating(f.type))]
    if labels is not None:
        position_of(labels, table.column_names, path)
    label = labels if labels is not None else next(iter(texts), None)
    numeric = [name for name in table.column_names if name not in texts and name != label]
    cells = [table.column(name).cast(pa.float64()).to_numpy() for name in numeric]
    return np.column_stack(cells) if cells else np.empty((0, 0)), numeric, label
