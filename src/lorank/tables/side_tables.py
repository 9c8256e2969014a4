"""Tables about rows or columns: a line for each id, such as the titles of films or the ages of users."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import kind_of, reading_once
from lorank.memory import check_memory
from lorank.observations.identifiers import Identifiers, text_array
from lorank.side_information.encoding import FeatureTable
from lorank.tables.damage import reading
from lorank.tables.delimited import MISSING, sniff
from lorank.tables.names import as_model_spells, position_of, refuse_twice, spelled
from lorank.tables.parquet import SUFFIXES, read_whole
from lorank.types import Array

# Bytes that are read before it is looked whether there is room for as many more, and what a cell takes beside its text.
BLOCK, PER_CELL = 1 << 24, 200


def read_side_table(
    path: str | Path, ids: str | None = None, delimiter: str | None = None, header: bool | None = None
) -> dict[str, Array]:
    """The columns of a table by name, that of the ids first: text of delimited files, Parquet's own types.

    Parameters
    ----------
    path : delimited text, also compressed, or Parquet
    ids : name of the column that holds the ids; the first one if not given.
    delimiter, header : as for long tables; found out if not given.
    """
    path = Path(path)
    columns = read_columns(path, delimiter, header)
    names = list(columns)
    first = names[position_of(ids, names, path)] if ids is not None else names[0]
    if len(names) < 2:
        raise InputError(f"{path} has one column, {first!r}; beside the ids it needs at least one more.")
    twice, times = Counter(map(str, columns[first].tolist())).most_common(1)[0]
    if times > 1:
        raise InputError(f"{path} has the id {twice!r} more than once; keep one line of it.")
    return {first: columns[first], **{name: columns[name] for name in names if name != first}}


def with_titles_of(model: Any, path: str | Path) -> Any:
    """A model with titles of its columns from a table, whose first column has their ids."""
    columns = read_side_table(path)
    first = next(iter(columns))
    return model.with_titles({**columns, first: as_model_spells(columns[first], model.col_ids)})


def read_features(
    path: str | Path, ids: str | None = None, own: Identifiers | None = None, *, wanted: str | None = None
) -> FeatureTable:
    """Features of rows or columns from a table: numbers where all cells of a column are some or missing, or categories.

    Parameters
    ----------
    ids : name of the column that holds the ids
    own : the ids of the data, whose spelling is taken
    wanted : the column of the ids if it is there, and else the first; for callers that only guess.
    """
    path = Path(path)
    if ids is None and wanted is not None and wanted in read_columns(path):
        ids = wanted
    table = read_side_table(path, ids)
    first, *rest = table
    names = table[first].tolist()
    spelled_ids = spelled(list(map(str, names))) if table[first].dtype.kind in "OU" else table[first]
    return FeatureTable({name: _numbers_or_text(table[name]) for name in rest}, as_model_spells(spelled_ids, own))


def _numbers_or_text(cells: Array) -> Array:
    """Floats with NaN for what is missing, if all cells are numbers or missing and one is a number; else text."""
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    texts = text_array(["" if cell is None else str(cell) for cell in cells.tolist()])
    missing = np.isin(texts, MISSING)
    try:
        numbers = np.where(missing, "nan", texts).astype(np.float64)
    except ValueError:
        return texts
    return texts if missing.all() else numbers


def read_columns(path: Path, delimiter: str | None = None, header: bool | None = None) -> dict[str, Array]:
    """All columns of a table by name."""
    with reading_once(), reading(path, "a table"):
        if kind_of(path) in SUFFIXES:
            table: Any = read_whole(path)
            names = table.column_names
            columns = [column.to_numpy(zero_copy_only=False) for column in table.columns]
        else:
            file = sniff(path, delimiter, header)
            lines: list[list[str]] = []
            taken = checked = 0
            for line in file.records():
                lines.append(line)
                taken += sum(PER_CELL + len(cell) for cell in line)
                if taken > checked:
                    checked = taken + BLOCK
                    check_memory(BLOCK, f"{len(lines)} lines of {path} and more", "give a smaller table")
            names, columns = file.columns, [text_array(list(part)) for part in zip(*lines)]
        if not columns or not len(columns[0]):
            raise InputError(f"{path} has a header and no lines.")
        refuse_twice(names, names, path)
    return dict(zip(names, columns))
