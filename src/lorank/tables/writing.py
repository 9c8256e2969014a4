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


def write(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write columns of equal length (arrays, or lists) as a table."""
    with appending(Path(path)) as append:
        append(columns)


@contextmanager
def appending(path: Path) -> Iterator[Append]:
    """A function that adds lines to a table, for tables that are larger than memory."""
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
            delimiter = "\t" if suffix == ".tsv" else ","
            csv.write_csv(table, sink, csv.WriteOptions(include_header=first, delimiter=delimiter, **_quoting(table)))

        yield append


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
