"""Parquet files and folders of them, read a batch at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import on_disk, remote, url_of
from lorank.memory import check_memory
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers, text_array
from lorank.tables.damage import reading
from lorank.tables.names import position_of, refuse_twice, spelled
from lorank.types import Array

SUFFIXES = (".parquet", ".pq")
# Lines that are held at a time where nothing else is said.
BATCH = 1 << 20
# Times the length of its texts that a column takes while it is made into ids: an estimate on the safe side.
TIMES = 3
WHAT = "Parquet"


def parquet_files(folder: str | Path) -> list[str]:
    """The Parquet files of a folder in the order of their names, or the one file that is given."""
    if (url := url_of(folder)) is not None:
        return _files_in_store(url)
    folder = Path(folder)
    if folder.is_file():
        return [str(folder)]
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}.")
    found = sorted(str(path) for path in folder.rglob("*.parquet") if not path.name.startswith((".", "_")))
    if not found:
        raise InputError(f"There is no Parquet file in {folder}.")
    return found


def _files_in_store(url: str) -> list[str]:
    if remote.kind(url) == "file":
        return [url]
    found = [name for name in remote.files_below(url) if re.search(r"/[^./_][^/]*\.parquet$", name)]
    if not found:
        raise InputError(f"There is no Parquet file in {url}.")
    return found


def open_parquet(path: str | Path, packed: Sequence[str] = ()) -> Any:
    """An open Parquet file, whose pages are checked against their checksums where they have them.

    Texts of the columns `packed` are read as dictionaries: a small file may hold a long one a million times.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'lorank[tables]'.") from None
    with reading(path, WHAT):
        if (url := url_of(path)) is not None:
            file, more = remote.open_file(url), {"pre_buffer": True}
        else:
            file, more = on_disk(Path(path)), {}
        return parquet.ParquetFile(file, page_checksum_verification=True, read_dictionary=list(packed), **more)


def _packed(path: str | Path, names: Iterable[str]) -> Any:
    """The same file with its texts in these columns as dictionaries."""
    import pyarrow as pa

    schema = open_parquet(path).schema_arrow
    return open_parquet(path, [name for name in names if not pa.types.is_nested(schema.field(name).type)])


def _text_size(column: Any) -> int:
    """Bytes that the texts of a column would take, each as often as it is there; of other columns 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type) or pa.types.is_primitive(column.type.value_type):
        return 0
    return pc.sum(pc.take(pc.binary_length(column.dictionary), column.indices)).as_py() or 0


def read_whole(path: str | Path) -> Any:
    """All of a file as an Arrow table, if it fits into memory: a small file may be packed repetition."""
    file = open_parquet(path)
    names = file.schema_arrow.names
    refuse_twice(names, names, path)
    needed = 24 * file.metadata.num_rows * len(names)
    check_memory(needed, f"The table of {path}", "give a smaller one")
    with reading(path, WHAT):
        for batch in _packed(path, names).iter_batches(BATCH):
            needed += TIMES * sum(map(_text_size, batch.columns))
            check_memory(needed, f"The table of {path}", "give a smaller one")
        return file.read()


def column_names(path: str | Path) -> tuple[str, ...]:
    """Names of a Parquet file's columns."""
    return tuple(open_parquet(path).schema_arrow.names)


def count_lines(files: list[str]) -> int:
    """Lines of Parquet files, by their footers."""
    return sum(open_parquet(path).metadata.num_rows for path in files)


def batches(
    path: str | Path, row: str, col: str, value: str | None, size: int = BATCH, weight: str | None = None
) -> Iterator[tuple[Any, Any, Array, Array | None]]:
    """Row ids and column ids (Arrow arrays), values (float64, NaN where missing) and weights, if any, of a long table.

    Ids are int64, text, or dates and times in microseconds; of any other type they stay as they are. Without a value
    column the values are NaN.
    """
    file = open_parquet(path)
    names = [row, col, *(name for name in (value, weight) if name is not None)]
    for name in names:
        position_of(name, file.schema_arrow.names, path)
    line = 0
    with reading(path, WHAT):
        for batch in _packed(path, (row, col)).iter_batches(size, columns=names):
            rows, cols = (_ids(batch.column(name), name, path, line) for name in (row, col))
            values = np.full(batch.num_rows, np.nan) if value is None else _values(batch.column(value), value, path)
            weights = None if weight is None else _values(batch.column(weight), weight, path)
            if weights is not None and not (weights >= 0)[~np.isnan(values)].all():
                raise InputError(
                    f"{path} holds a weight in {weight!r} that is missing or negative; give one of 0 or more."
                )
            line += batch.num_rows
            yield rows, cols, values, weights


def first_ids(files: Sequence[str], row: str, col: str) -> tuple[Identifiers, Identifiers]:
    """A row id and a column id of Parquet files, which say how others are spelled."""
    first = next((batch for path in files for batch in batches(path, row, col, None, 1)), None)
    if first is None:
        raise InputError(f"No value in {Path(files[0]).parent} is known; there is nothing to learn from.")
    rows, cols = (Identifiers(ids.to_numpy(zero_copy_only=False)) for ids in first[:2])
    return rows, cols


def _ids(column: Any, name: str, path: str | Path, line: int) -> Any:
    """The ids of a batch, whose first line is `line` + 1. Integers beyond 64 bits with a sign become text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column.validate(full=True)  # text that is UTF-8, and within a dictionary places that it has
    missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if missing.any():
        where = line + int(np.argmax(missing))
        raise InputError(f"Line {where + 1} of {path} has no id in column {name!r}; give one or drop the line.")
    kind = column.type
    if pa.types.is_dictionary(kind):
        what = f"The ids of {len(column)} lines in column {name!r} of {path}"
        check_memory(TIMES * _text_size(column), what, "give shorter ones")
        texts = column.dictionary.cast(pa.large_string()) if pa.types.is_string(kind.value_type) else column.dictionary
        return _ids(pa.DictionaryArray.from_arrays(column.indices, texts).dictionary_decode(), name, path, line)
    if pa.types.is_integer(kind):
        if pa.types.is_uint64(kind) and (pc.max(column).as_py() or 0) > np.iinfo(np.int64).max:
            return column.cast(pa.large_string())
        return column.cast(pa.int64())
    if pa.types.is_nested(kind):
        raise InputError(f"Column {name!r} of {path} holds {kind}, and ids must be numbers, text or dates.")
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            return column.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:  # two ids would become one
            raise InputError(
                f"Column {name!r} of {path} has times finer than a microsecond or out of range, and ids must differ by "
                "that at least; write them as numbers or text."
            ) from None
    return column.cast(pa.large_string()) if pa.types.is_string(kind) else column


def _values(column: Any, name: str, path: str | Path) -> Array:
    import pyarrow as pa

    try:
        values: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(f"Column {name!r} of {path} holds {column.type}, and values must be numbers.") from None
    if np.isinf(values).any():
        raise InputError(f"{path} holds infinity in {name!r}; replace it by a number, or leave it empty.")
    return values


def release_memory() -> None:
    """Have Arrow return memory that it keeps for tables to come: a fit needs it more."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def encoded(ids: Any) -> tuple[list[Any], Array]:
    """Distinct ids of an Arrow array (integers, datetimes or text), and which of them is on each line."""
    import pyarrow as pa

    if not (pa.types.is_integer(ids.type) or pa.types.is_timestamp(ids.type)):
        ids = ids.cast(pa.large_string())
    dictionary = ids.dictionary_encode()
    return dictionary.dictionary.to_pylist(), dictionary.indices.to_numpy()


def read_wide(path: Path, labels: str | None = None) -> Observations:
    """A wide table: numeric columns are the matrix, the first text column (or `labels`) names its rows."""
    table = read_whole(path)
    values, numeric, label = numeric_columns(table, path, labels)
    if not numeric:
        raise InputError(f"{path} has no column of numbers.")
    row_ids = None
    if label is not None:
        names, which = encoded(_ids(table.column(label).combine_chunks(), label, path, 0))
        row_ids = spelled([names[i] for i in which])
    return Observations.from_dense(values, row_ids, text_array(numeric))


def numeric_columns(table: Any, path: Path, labels: str | None) -> tuple[Array, list[str], str | None]:
    """Cells of an Arrow table's numeric columns with NaN for null, their names, and the column that names the rows."""
    import pyarrow as pa

    refuse_twice(table.column_names, table.column_names, path)
    texts = [f.name for f in table.schema if not (pa.types.is_integer(f.type) or pa.types.is_floating(f.type))]
    if labels is not None:
        position_of(labels, table.column_names, path)
    label = labels if labels is not None else next(iter(texts), None)
    taken = {*texts, label}
    numeric = [name for name in table.column_names if name not in taken]
    cells = [table.column(name).cast(pa.float64(), safe=False).to_numpy() for name in numeric]
    return np.column_stack(cells) if cells else np.empty((0, 0)), numeric, label
