"""A folder of Parquet files, read file by file and batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lorank.errors import InputError
from lorank.types import Array

# Lines of a table that a task holds at a time.
BATCH = 1 << 18


@dataclass(frozen=True)
class Columns:
    """Names of the columns that hold the row id, the column id and the value."""

    row: str
    col: str
    value: str


def parquet_files(folder: str | Path) -> list[str]:
    """The Parquet files of a folder in the order of their names, or the one file that is given."""
    folder = Path(folder)
    if folder.is_file():
        return [str(folder)]
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}.")
    found = sorted(str(path) for path in folder.rglob("*.parquet") if not path.name.startswith((".", "_")))
    if not found:
        raise InputError(f"There is no Parquet file in {folder}.")
    return found


def count_lines(files: list[str]) -> int:
    """Lines of the files, by their footers."""
    return sum(_open(path).metadata.num_rows for path in files)


def batches(path: str, columns: Columns) -> Iterator[tuple[pa.Array, pa.Array, Array]]:
    """Row ids, column ids and values; NaN where a value is missing."""
    names = [columns.row, columns.col, columns.value]
    file = _open(path)
    lacking = [name for name in names if name not in file.schema_arrow.names]
    if lacking:
        raise InputError(f"{path} has no column {lacking[0]!r}; it has {', '.join(file.schema_arrow.names)}.")
    try:
        for batch in file.iter_batches(BATCH, columns=names):
            rows, cols = (_ids(batch.column(batch.schema.get_field_index(n)), n, path) for n in names[:2])
            yield rows, cols, _values(batch.column(batch.schema.get_field_index(columns.value)), columns.value, path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _open(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError:
        raise InputError(f"The file {path} is gone; put it back and fit again.") from None
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(f"The file {path} is damaged or not Parquet ({str(error).splitlines()[0]}).")


def _ids(column: pa.Array, name: str, path: str) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise InputError(f"{path} has a line without {name!r}; remove it or name it.")
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.large_string()) if pa.types.is_string(column.type) else column


def _values(column: pa.Array, name: str, path: str) -> Array:
    try:
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(f"The values in {name!r} of {path} must be numbers, not {column.type}.") from None
    if np.isinf(values).any():
        raise InputError(f"{path} holds infinity in {name!r}; replace it by a number, or leave it empty.")
    return values


def positions(ids: pa.Array, known: pa.Array) -> Array:
    """Place of each id among the known ones."""
    return pc.index_in(ids, value_set=known).to_numpy(zero_copy_only=False)
