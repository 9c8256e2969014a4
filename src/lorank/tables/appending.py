"""Tables that are written part by part, for those that are larger than memory."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy.typing as npt

from lorank.errors import InputError
from lorank.files import replacing
from lorank.tables.reading import PARQUET

# Takes the next lines of the table, by column.
Append = Callable[[Mapping[str, npt.NDArray[Any]]], None]


@contextmanager
def appending(path: Path | None, as_json: bool = False) -> Iterator[Append]:
    """A table in csv, tsv or parquet, as the name says, whole or not at all; without a name on standard output, as csv
    or a list of JSON objects."""
    if path is None:
        with _json(sys.stdout) if as_json else _text(sys.stdout, ",") as append:
            yield append
        return
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".txt", *PARQUET):
        raise InputError(f"{path} should end in .csv, .tsv or .parquet.")
    with replacing(path) as beside:
        if suffix in PARQUET:
            with _parquet(beside) as append:
                yield append
        else:
            with (
                open(beside, "w", newline="", encoding="utf-8") as file,
                _text(file, "\t" if suffix == ".tsv" else ",") as append,
            ):
                yield append


@contextmanager
def _text(file: IO[str], delimiter: str) -> Iterator[Append]:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    started: list[bool] = []

    def append(columns: Mapping[str, npt.NDArray[Any]]) -> None:
        if not started:
            started.append(True)
            writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values())))

    yield append


@contextmanager
def _json(file: IO[str]) -> Iterator[Append]:
    comma = "["

    def append(columns: Mapping[str, npt.NDArray[Any]]) -> None:
        nonlocal comma
        for values in zip(*(column.tolist() for column in columns.values())):
            file.write(comma + json.dumps(dict(zip(columns, values)), default=str))
            comma = ", "

    yield append
    file.write("[]\n" if comma == "[" else "]\n")


@contextmanager
def _parquet(path: Path) -> Iterator[Append]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def append(columns: Mapping[str, npt.NDArray[Any]]) -> None:
        nonlocal writer
        table = pa.table(dict(columns))
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema)
        writer.write_table(table)

    try:
        yield append
    finally:
        if writer is not None:
            writer.close()
