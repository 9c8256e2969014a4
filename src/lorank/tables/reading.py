"""Tables of every common format as observations.

A long table has an entry on each line: a row id, a column id, a value. A wide table is the matrix itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import DuplicateError, InputError
from lorank.files import kind_of, reading_once
from lorank.memory import check_memory
from lorank.observations import Observations
from lorank.tables import arrays, parquet
from lorank.tables.damage import reading
from lorank.tables.delimited import sniff
from lorank.tables.names import Numbering, listed, position_of, refuse_twice
from lorank.tables.translation import PLAIN, Habits, translated
from lorank.tables.wide import WideTable
from lorank.types import Array

Say = Callable[[str], None]

DUPLICATES = ("error", "mean", "last")
# Names of a third column that is no value, if nobody says that it is one.
TIMES = ("time", "timestamp", "date", "datetime", "when", "ts")


@dataclass(frozen=True)
class LongTable:
    """Line t says that the entry (row_ids[rows[t]], col_ids[cols[t]]) is values[t]; NaN where it says nothing.

    `columns` are the names of the three columns in the file.
    """

    rows: Array
    cols: Array
    values: Array
    row_ids: Array
    col_ids: Array
    columns: tuple[str, ...]

    def counted(self) -> Observations:
        """Each pair with the number of lines that have it: the entries of a table without values, such as clicks."""
        m, n = self.row_ids.size, self.col_ids.size
        pairs, counts = np.unique(self.rows.astype(np.int64) * n + self.cols, return_counts=True)
        return Observations.from_coo(pairs // n, pairs % n, counts.astype(float), (m, n), self.row_ids, self.col_ids)

    def observations(self, duplicates: str = "error", weights: Array | None = None) -> Observations:
        """The entries that have a value. A pair that comes twice is an error, or its mean or last value counts.

        Weights, if there are any, are one for each line.
        """
        if duplicates not in DUPLICATES:
            raise InputError(f"duplicates must be one of {', '.join(DUPLICATES)}; got {duplicates!r}.")
        m, n = self.row_ids.size, self.col_ids.size
        rows, cols, values = self.rows, self.cols, self.values
        if np.isnan(values).all():
            raise InputError("No line of the table has a value: there is nothing to learn from.")
        # Both directions of compressed lines are built while the columns of the file are still held.
        check_memory(24 * values.size + 8 * (m + n), f"{values.size} entries", "keep fewer of them")
        if duplicates != "error":
            if weights is not None:
                raise InputError("A pair that is given more than once has no one weight; drop duplicates, or weights.")
            rows, cols, values = _one_each(rows, cols, values, n, duplicates)
        try:
            return Observations.from_coo(rows, cols, values, (m, n), self.row_ids, self.col_ids, weights)
        except DuplicateError as error:
            raise DuplicateError(
                f"{str(error).split(';')[0]}; choose duplicates 'mean' or 'last', or drop it."
            ) from None


def _one_each(rows: Array, cols: Array, values: Array, n: int, keep: str) -> tuple[Array, Array, Array]:
    """One value for each pair: the mean of those given, or the last."""
    known = ~np.isnan(values)
    rows, cols, values = rows[known], cols[known], values[known]
    pair = rows.astype(np.int64) * n + cols
    order = np.argsort(pair, kind="stable")
    starts = np.flatnonzero(np.diff(pair[order], prepend=-1))
    ends = np.append(starts[1:], order.size)
    if keep == "last":
        chosen = order[ends - 1]
        return rows[chosen], cols[chosen], values[chosen]
    first = order[starts]
    return rows[first], cols[first], np.add.reduceat(values[order], starts) / (ends - starts)


def read(
    path: str | Path,
    row: str | None = None,
    col: str | None = None,
    value: str | None = None,
    *,
    weight: str | None = None,
    time: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    habits: Habits = PLAIN,
    sheet: str | None = None,
    duplicates: str = "error",
    say: Say = lambda text: None,
    advance: Callable[[int], None] | None = None,
) -> tuple[Observations, tuple[str, ...] | None]:
    """Observations from a file.

    Parameters
    ----------
    path : csv, tsv or other delimited text, parquet, Excel, JSON lines, npz, npy, Matrix Market (mtx), NetCDF (nc)
        Text may be compressed: gz, xz, bz2, zip.
    row, col, value : names of columns
        Of a long table. Without them a table of three columns is taken as long, any other as wide; `row` alone names
        the column that holds the row names of a wide table, and `value` alone the variable of a NetCDF file.
    weight : name of a column of a long table
        Weights of the entries.
    time : name of a column of a long table
        It is left alone: `lorank.tables.times` reads it.
    delimiter, header
        Found out from the first lines if not given. Without a header columns are called 1, 2, 3 ...
    habits : Habits
        Of text: its encoding, decimal commas, words for missing values, comment lines.
    sheet : str, optional
        Of an Excel file; the first one if not given.
    duplicates : "error", "mean" or "last"
        What becomes of a pair that is given more than once.
    say : called with a sentence about each guess that was made.
    advance : called with the number of bytes just read.

    Returns
    -------
    (observations, (row, col, value)), the latter None if the table is wide.
    """
    path = Path(path)
    with reading_once(), reading(path, "a table"), translated(path, habits, delimiter, sheet) as plain:
        kind = kind_of(plain)
        if kind in arrays.READERS:
            return arrays.READERS[kind](plain, value), None
        delimiter = find_delimiter(plain, delimiter, (row, col, value))
        columns = column_names(plain, delimiter, header)
        for name in (name for name in (weight, time) if name is not None):
            position_of(name, columns, path)
            columns = tuple(other for other in columns if other != name)
        chosen = choose_columns(columns, row, col, value, path, say)
        if chosen is None and (weight is not None or time is not None):
            raise InputError(
                f"Weights and times are those of a long table; say which columns of {path} are row, col and value."
            )
        if chosen is None:
            if kind in parquet.SUFFIXES:
                return parquet.read_wide(plain, row), None
            return _read_wide(plain, row, delimiter, header, say), None
        table = read_long(plain, *chosen, delimiter=delimiter, header=header, advance=advance)
        weights = None
        if weight is not None:
            weights = read_long(plain, chosen[0], chosen[1], weight, delimiter=delimiter, header=header).values
        if chosen[2] is None and weights is None:
            return table.counted(), table.columns
        if chosen[2] is None:
            table = replace(table, values=np.ones(table.rows.size))
        return table.observations(duplicates, weights), table.columns


def find_delimiter(path: Path, delimiter: str | None, names: tuple[str | None, ...]) -> str | None:
    """The delimiter of a text file: the given one, or one under which it has columns of these names."""
    if delimiter is not None or kind_of(path) in parquet.SUFFIXES or not any(names):
        return delimiter
    return sniff(path, names=names).delimiter


def column_names(path: Path, delimiter: str | None = None, header: bool | None = None) -> tuple[str, ...]:
    """Names of a table's columns."""
    with reading(path, "a table"):
        if kind_of(path) in parquet.SUFFIXES:
            return parquet.column_names(path)
        return sniff(path, delimiter, header).columns


def choose_columns(
    columns: tuple[str, ...], row: str | None, col: str | None, value: str | None, path: Path, say: Say
) -> tuple[str, str, str | None] | None:
    """The columns of a long table, of which the third is None where there are but two; None for a wide one."""
    named = [name for name in (row, col, value) if name is not None]
    for name in columns if len(columns) == 3 else named:
        position_of(name, columns, path)  # refuses a name that is there twice, too
    for name in named:
        position_of(name, columns, path)
    if len(columns) == 2 and value is None and named != [row]:
        rest = iter([name for name in columns if name not in named])
        row, col = (next(rest) if name is None else name for name in (row, col))
        say(f"Taking column {row!r} as rows and {col!r} as columns: there are no values, so that lines are counted.")
        return row, col, None
    if len(columns) == 3 and (len(named) != 1 or named[0] != row):
        rest = iter([name for name in columns if name not in named])
        row, col, value = (next(rest) if name is None else name for name in (row, col, value))
        if value not in named and value.strip().lower() in TIMES:
            raise InputError(
                f"Column {value!r} of {path} seems to hold times, not values: name it as the column of times (--time), "
                "or as that of the values (--value)."
            )
        if len(named) < 3:
            say(f"Taking column {row!r} as rows, {col!r} as columns and {value!r} as values.")
        return row, col, value
    if row is not None and col is not None and value is not None:
        return row, col, value
    if not named or named == [row]:
        return None
    raise InputError(f"A long table needs row, col and value; {path} has the columns {listed(columns)}.")


def read_long(
    path: Path,
    row: str,
    col: str,
    value: str | None,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    advance: Callable[[int], None] | None = None,
) -> LongTable:
    """A long table in text or parquet, read in blocks; without a value column its values are NaN."""
    row_names, col_names = Numbering(), Numbering()
    pieces: tuple[list[Array], list[Array], list[Array]] = ([], [], [])
    lines = 0
    for its_rows, its_cols, its_values in blocks(path, row, col, value, delimiter, header, advance):
        lines += its_values.size
        # A small file may be packed repetition: it is refused before the memory is gone.
        # Of three columns one is held twice while its pieces are joined.
        check_memory(16 * its_values.size + 8 * lines, f"{lines} lines of {path}", "keep fewer of them")
        pieces[0].append(row_names.codes(*its_rows))
        pieces[1].append(col_names.codes(*its_cols))
        pieces[2].append(its_values)
    if not pieces[0]:
        raise InputError(f"{path} has a header and no lines.")
    # Joined one at a time, so that one column is held twice instead of three.
    rows, cols, values = (_joined(piece) for piece in pieces)
    parquet.release_memory()
    names = (row, col) if value is None else (row, col, value)
    return LongTable(rows, cols, values, row_names.finish(rows), col_names.finish(cols), names)


def _joined(pieces: list[Array]) -> Array:
    """The pieces in one array; the list is emptied."""
    array = np.concatenate(pieces)
    pieces.clear()
    return array


Block = tuple[tuple[list[Any], Array], tuple[list[Any], Array], Array]


def blocks(
    path: Path,
    row: str,
    col: str,
    value: str | None,
    delimiter: str | None,
    header: bool | None,
    advance: Callable[[int], None] | None,
) -> Iterator[Block]:
    """For each block of lines: distinct row names and which one is on each line, the same for columns, and values."""
    if row == col or value in (row, col):
        raise InputError(f"Rows, columns and values are three columns of {path}; got {row!r}, {col!r} and {value!r}.")
    with reading_once(), reading(path, "a table"):
        yield from _blocks(path, row, col, value, delimiter, header, advance)


def _blocks(
    path: Path,
    row: str,
    col: str,
    value: str | None,
    delimiter: str | None,
    header: bool | None,
    advance: Callable[[int], None] | None,
) -> Iterator[Block]:
    if kind_of(path) in parquet.SUFFIXES:
        for rows, cols, values, _ in parquet.batches(path, row, col, value):
            yield parquet.encoded(rows), parquet.encoded(cols), values
        return
    table = sniff(path, delimiter, header)
    names = [position_of(name, table.columns, path) for name in (row, col)]
    types: dict[int, Any] = dict.fromkeys(names, str)
    number = None if value is None else position_of(value, table.columns, path)
    if number is not None:
        types[number] = np.float64
    for batch in table.batches(types, advance):
        if not batch.num_rows:
            continue
        ids = []
        for i in names:
            column = batch.column(str(i))
            texts = table.original(column.dictionary.to_pylist())
            if "" in texts:
                table.explain(types)
            ids.append((texts, column.indices.to_numpy()))
        if number is None:
            values = np.full(batch.num_rows, np.nan)
        else:
            values = batch.column(str(number)).to_numpy(zero_copy_only=False)
        yield ids[0], ids[1], values


def _read_wide(path: Path, labels: str | None, delimiter: str | None, header: bool | None, say: Say) -> Observations:
    table = WideTable.read(path, labels, delimiter, header)
    if table.text_columns:
        say(f"Leaving out the columns that hold text: {', '.join(table.text_columns)}.")
    m, n = table.values.shape
    if n == 0:
        raise InputError(f"{path} has no column of numbers.")
    refuse_twice(table.col_ids.tolist(), table.file.columns, path)
    say(f"Taking {path} as a wide table: {m} rows, {n} columns.")
    return Observations.from_dense(table.values, table.row_ids, table.col_ids)
