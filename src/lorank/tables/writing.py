"""Tables out: csv, tsv or Parquet, as the name of the file says, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lorank.errors import InputError
from lorank.files import replacing
from lorank.tables import parquet

# Takes the next lines of a table, by column.
Append = Callable[[Mapping[str, Any]], None]


# What a spreadsheet takes for the start of a formula.
FORMULA = "^[=+\\-@\t\r]"


def write(path: str | Path, columns: Mapping[str, Any], *, for_spreadsheets: bool = False) -> None:
    """Write columns of equal length (arrays, or lists) as a table; see `appending`."""
    with appending(Path(path), for_spreadsheets) as append:
        append(columns)


@contextmanager
def appending(path: Path, for_spreadsheets: bool = False) -> Iterator[Append]:
    """A function that adds lines to a table, for tables that are larger than memory.

    Text is written as it is. In a csv file for spreadsheets, text that one of them would run as a formula (=1+1) gets
    an apostrophe in front, so that it is shown and not run; a program that reads the file gets the apostrophe too.
    """
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".txt", *parquet.SUFFIXES):
        raise InputError(f"{path} should end in .csv, .tsv or .parquet.")
    with replacing(path) as beside, ExitStack() as opened:
        sink: Any = None

        def append(columns: Mapping[str, Any]) -> None:
            nonlocal sink
            table, first = pa.table(dict(columns)), sink is None
            if suffix in parquet.SUFFIXES:
                sink = opened.enter_context(pq.ParquetWriter(beside, table.schema)) if first else sink
                sink.write_table(table)
                return
            sink = opened.enter_context(open(beside, "wb")) if first else sink
            table = _harmless(table) if for_spreadsheets else table
            delimiter = "\t" if suffix == ".tsv" else ","
            csv.write_csv(table, sink, csv.WriteOptions(include_header=first, delimiter=delimiter, **_quoting(table)))

        yield append


def _harmless(table: Any) -> Any:
    """The same table with an apostrophe in front of text that begins as formulas do."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            texts = pc.replace_substring_regex(table.column(at), FORMULA, "'\\0")
            table = table.set_column(at, field, texts)
    return table


def _quoting(table: Any) -> dict[str, str]:
    """Quotes only where some text needs them; Arrow would put them around every text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    special = '[",\t\r\n]'
    texts = [
        column for column in table.columns if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ]
    needed = any(pc.any(pc.match_substring_regex(column, special)).as_py() for column in texts)
    in_header = any(character in name for name in table.column_names for character in '",\t\r\n')
    return {
        "quoting_style": "needed" if needed else "none",
        "quoting_header": "needed" if in_header else "none",
    }
