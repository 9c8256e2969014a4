"""Wide tables of delimited text, kept byte for byte: only missing cells can be filled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import open_input
from lorank.memory import check_memory
from lorank.observations.identifiers import text_array
from lorank.tables.delimited import MISSING, DelimitedFile, read_all, sniff
from lorank.tables.names import position_of, spelled
from lorank.types import Array

_MISSING = frozenset(text.encode() for text in MISSING)
# A number of so many characters is parsed alone.
LONGEST = 40
# Bytes that a cell takes in memory, and one of several characters besides: a file is seldom more than its cells.
CELL, TEXT = 36, 50
ADVICE = "give it as a long table, or a smaller one"
_BOM = b"\xef\xbb\xbf"
# A whole number that 64 bits hold.
_WHOLE = re.compile(rb"[+-]?\d{1,18}")


@dataclass(frozen=True)
class Record:
    """One line of a table (several, if a quoted cell holds line ends): the bytes of its cells, and of its end."""

    number: int
    cells: list[bytes]
    end: bytes


class WideTable:
    """A text file whose cells are the cells of a matrix.

    The first column holds the names of the rows if it is text, or if `labels` names it. Columns that are text
    stay out of the matrix; so a column counts as text if most of its cells are no numbers, and otherwise a cell that is
    no number is an error.
    """

    def __init__(self, file: DelimitedFile, records: list[Record], labels: str | None = None) -> None:
        self.path, self.file, self.records = file.path, file, records
        self.body = [record for record in records if record.cells][1 if file.header else 0 :]
        if not self.body:
            raise InputError(f"{file.path} has a header and no lines.")
        width = len(file.columns)
        for record in self.body:
            if len(record.cells) != width:
                raise InputError(
                    f"Line {record.number} of {file.path} has {len(record.cells)} columns where {width} "
                    f"{'is' if width == 1 else 'are'} needed"
                    + ("; leave comments out by --comment '#'." if file.columns[0].startswith("#") else ".")
                )
        self._bare = [[_bare(record.cells[j]) for record in self.body] for j in range(width)]
        self._read = [_numbers(column) for column in self._bare]
        self.label = self._find_labels(labels)
        self.numeric = [
            j
            for j, (values, known) in enumerate(self._read)
            if j != self.label and (not known.any() or 2 * np.isfinite(values).sum() >= known.sum())
        ]
        self._refuse_text(self._bare)

    @classmethod
    def read(
        cls, path: Path, labels: str | None = None, delimiter: str | None = None, header: bool | None = None
    ) -> WideTable:
        file = sniff(path, delimiter, header)
        with open_input(path) as stream:
            data = read_all(stream, path, 2, ADVICE)
        cells = data.count(file.delimiter.encode()) + data.count(b"\n")
        needed = CELL * cells + TEXT * min(cells, (len(data) - cells) // 2)
        check_memory(needed, f"{path} with its cells", ADVICE)
        return cls(file, _records(data, file.delimiter.encode()), labels)

    @cached_property
    def values(self) -> Array:
        """The matrix, one row for each line; NaN is missing."""
        return np.column_stack([self._read[j][0] for j in self.numeric]) if self.numeric else np.empty((0, 0))

    @property
    def row_ids(self) -> Array | None:
        """Names of the rows, or None."""
        if self.label is None:
            return None
        return spelled([_bare(record.cells[self.label]).decode("utf-8", "replace") for record in self.body])

    @property
    def col_ids(self) -> Array:
        """Names of the columns that hold numbers."""
        return text_array([self.file.columns[j] for j in self.numeric])

    @property
    def text_columns(self) -> list[str]:
        """Names of the columns that are neither numbers nor the names of the rows."""
        kept = {*self.numeric, self.label}
        return [name for j, name in enumerate(self.file.columns) if j not in kept]

    @property
    def names(self) -> list[str]:
        """Names of all columns; of those with the same name all but the first have their number behind it."""
        given = self.file.columns
        return [name if name not in given[:j] else f"{name} ({j + 1})" for j, name in enumerate(given)]

    def typed(self) -> Any:
        """All columns as an Arrow table: whole numbers, other numbers or text, null where a cell is missing."""
        import pyarrow as pa

        columns = []
        for j, (cells, (values, known)) in enumerate(zip(self._bare, self._read)):
            there = [cell for cell, seen in zip(cells, known) if seen]
            if j not in self.numeric and not (j == self.label and np.isfinite(values[known]).all()):
                texts = [cell.decode("utf-8", "replace") if seen else None for cell, seen in zip(cells, known)]
                columns.append(pa.array(texts, pa.large_string()))
            elif there and all(map(_WHOLE.fullmatch, there)):
                whole = [int(cell) if seen else None for cell, seen in zip(cells, known)]
                columns.append(pa.array(whole, pa.int64()))
            else:
                columns.append(pa.array(values, mask=~known))
        return pa.table(columns, self.names)

    def filled(self, columns: Mapping[str, Sequence[Any]], spell: Callable[[float], str]) -> bytes:
        """The file with its missing cells filled from these columns, and everything else as it was, byte for byte.

        Text is spelled as where it comes first in the column, whole numbers by their digits, and others by `spell`.
        """
        for j, name in enumerate(self.names):
            known = self._read[j][1]
            spelled_as = {} if j in self.numeric else self._spellings(j)
            for i in np.flatnonzero(~known).tolist():
                cell = columns[name][i]
                if cell is not None:
                    texts = spell(cell) if isinstance(cell, float) else str(cell)
                    self.body[i].cells[j] = spelled_as.get(cell) or texts.encode()
        delimiter = self.file.delimiter.encode()
        return b"".join(delimiter.join(record.cells) + record.end for record in self.records)

    def _spellings(self, j: int) -> dict[str, bytes]:
        """The bytes that stand for each text of a column."""
        found: dict[str, bytes] = {}
        for bare, record in zip(self._bare[j], self.body):
            found.setdefault(bare.decode("utf-8", "replace"), record.cells[j].removeprefix(_BOM))
        return found

    def restored(self, text: str) -> None:
        """Go back to the text that this table was translated from, so that what was there is written as it was."""
        original = {record.number: record for record in _records(text.encode(), self.file.delimiter.encode())}
        self.body = [original[record.number] for record in self.body]
        self.records = list(original.values())

    def _find_labels(self, labels: str | None) -> int | None:
        if labels is not None:
            return position_of(labels, self.file.columns, self.path)
        values, known = self._read[0]
        is_text = 2 * np.isfinite(values).sum() < known.sum()
        return 0 if len(self._read) > 1 and (is_text or not self.file.columns[0]) else None

    def _refuse_text(self, columns: list[list[bytes]]) -> None:
        for j in self.numeric:
            values, known = self._read[j]
            wrong = known & ~np.isfinite(values)
            if wrong.any():
                i = int(np.argmax(wrong))
                text = columns[j][i].decode("utf-8", "replace")
                raise InputError(
                    f"Line {self.body[i].number} of {self.path} has {text!r} in column {self.file.columns[j]!r}, "
                    "which is not a number; if it stands for a missing cell, say so by --na."
                )


def _numbers(cells: list[bytes]) -> tuple[Array, Array]:
    """Numbers of a column, NaN where there is none, and which cells are not missing."""
    known = np.array([cell not in _MISSING for cell in cells])
    try:
        if max(map(len, cells), default=0) > LONGEST:  # numpy would take as much room for every cell
            raise ValueError
        values = np.array([cell if there else b"nan" for cell, there in zip(cells, known)]).astype(np.float64)
    except ValueError:
        values = np.array([_number(cell) for cell in cells])
    return values, known


def _number(cell: bytes) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def _bare(cell: bytes) -> bytes:
    """The text of a cell, without the quotes, spaces and byte order mark around it."""
    cell = cell.removeprefix(_BOM).strip()
    return cell[1:-1].replace(b'""', b'"') if len(cell) > 1 and cell[:1] == b'"' == cell[-1:] else cell


def _records(data: bytes, delimiter: bytes) -> list[Record]:
    """The records of a file; joined again they are the file."""
    records: list[Record] = []
    cell = re.compile(rb'"(?:[^"]|"")*"(?=%b|$)|.*?(?=%b|$)' % (re.escape(delimiter), re.escape(delimiter)), re.S)
    pending: list[bytes] = []
    start, quoted = 1, False
    for number, line in enumerate(data.split(b"\n"), 1):
        pending.append(line)
        quoted ^= line.count(b'"') % 2 == 1
        if quoted:  # a quoted cell goes on in the next line
            continue
        whole = b"\n".join(pending)
        text = whole.removesuffix(b"\r")
        end = whole[len(text) :] + b"\n"
        if not text.strip():
            records.append(Record(start, [], text + end))
        elif b'"' not in text:
            records.append(Record(start, text.split(delimiter), end))
        else:
            records.append(Record(start, _cut(text, delimiter, cell), end))
        pending, start = [], number + 1
    if pending:
        raise InputError(f"The quote that opens in line {start} is never closed.")
    # The file's last line has no end of its own: what was added after it is taken back.
    last = records.pop()
    records.append(Record(last.number, last.cells, last.end[:-1]))
    return records


def _cut(text: bytes, delimiter: bytes, cell: re.Pattern[bytes]) -> list[bytes]:
    """Cells of a line that holds quotes."""
    cells, at = [], 0
    while True:
        found = cell.match(text, at)
        assert found is not None  # the second alternative matches anything
        cells.append(found.group())
        if found.end() >= len(text):
            return cells
        at = found.end() + len(delimiter)
