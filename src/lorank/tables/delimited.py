"""Long tables in delimited text, read a block at a time."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from lorank.errors import InputError
from lorank.files import open_input

# Text that means "not known" where a number belongs.
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None")
BLOCK = 1 << 23
SAMPLE = 1 << 16
_CANDIDATES = ("::", "\t", ";", "|", ",", " ")
# Stands for a delimiter of several characters, which the parsers do not know.
_STAND_IN = "\x1f"


@dataclass(frozen=True)
class Dialect:
    """How a text file is laid out. Without a header its columns are called 1, 2, 3 ..."""

    delimiter: str
    header: bool
    columns: tuple[str, ...]
    skip: int

    @property
    def parsed(self) -> str:
        """The delimiter that the parser sees."""
        return self.delimiter if len(self.delimiter) == 1 else _STAND_IN


def sniff(path: Path, delimiter: str | None = None, header: bool | None = None) -> Dialect:
    """The layout of a file, from its first lines where it is not given.

    The delimiter is the one that cuts most of the first lines into the same number of columns, as many as possible. A
    first line of nothing but numbers is data, not a header, and so is one of three fields whose last is a number.
    """
    with open_input(path) as file:
        sample = file.read(SAMPLE)
    try:
        text = sample.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(sample) < SAMPLE or error.start < SAMPLE - 4:  # not just a character that the sample cuts in two
            raise InputError(f"{path} is not UTF-8 text (byte {error.start}); convert it to UTF-8.") from None
        text = sample[: error.start].decode("utf-8-sig")
    if not text.strip():
        raise InputError(f"{path} is empty.")
    if delimiter is None:
        delimiter = "\t" if ".tsv" in path.suffixes else max(_CANDIDATES, key=lambda candidate: _width(text, candidate))
    elif not delimiter:
        raise InputError("The delimiter is empty; give one character or more.")
    dialect = Dialect(delimiter, True, (), 0)
    records = csv.reader(io.StringIO(text.replace(delimiter, dialect.parsed), newline=""), delimiter=dialect.parsed)
    first = next(fields for fields in records if fields)
    first = [field.replace(_STAND_IN, delimiter).strip() for field in first]
    if header is None:
        header = not (all(map(_is_number, first)) or (len(first) == 3 and _is_number(first[2])))
    columns = tuple(first) if header else tuple(str(i + 1) for i in range(len(first)))
    return Dialect(delimiter, header, columns, records.line_num if header else 0)


def _width(text: str, delimiter: str) -> int:
    """Columns that this delimiter makes of most of the first lines; 1 if there is no such number."""
    lines = csv.reader(io.StringIO(text.replace(delimiter, _STAND_IN), newline=""), delimiter=_STAND_IN)
    widths = Counter(len(fields) for fields in islice(lines, 20) if fields)
    width, times = widths.most_common(1)[0]
    return width if 2 * times > widths.total() else 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def batches(
    path: Path, dialect: Dialect, ids: list[int], value: int | None, advance: Callable[[int], None] | None = None
) -> Iterator[Any]:
    """Arrow batches of the id columns (dictionaries of text) and the value column (float64), by position.

    Whatever the parser does not like is looked for again line by line, and told with its line number.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    chosen = ids if value is None else [*ids, value]
    types = {str(i): pa.dictionary(pa.int32(), pa.string()) for i in ids}
    if value is not None:
        types[str(value)] = pa.float64()
    with _opened(path, dialect, advance) as file:
        try:
            yield from arrow.open_csv(
                file,
                arrow.ReadOptions(
                    block_size=BLOCK,
                    skip_rows=dialect.skip,
                    column_names=[str(i) for i in range(len(dialect.columns))],
                ),
                arrow.ParseOptions(delimiter=dialect.parsed, newlines_in_values=True),
                arrow.ConvertOptions(
                    column_types=types, include_columns=[str(i) for i in chosen], null_values=list(MISSING)
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                explain(path, dialect, ids, value)
                raise InputError(f"{path} cannot be read as a table: {error}.") from None


def explain(path: Path, dialect: Dialect, ids: list[int], value: int | None) -> None:
    """Raise the error of the first line that is wrong, with its number."""
    width = len(dialect.columns)
    with _opened(path, dialect, None) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", newline="")
        records = csv.reader(text, delimiter=dialect.parsed)
        number = 0
        try:
            for fields in records:
                number, last = records.line_num, number
                if number <= dialect.skip or not fields:
                    continue
                if len(fields) != width:
                    raise InputError(f"Line {last + 1} of {path} has {len(fields)} columns where {width} are needed.")
                if value is not None and fields[value].strip() not in MISSING and not _is_number(fields[value]):
                    wrong = f"{fields[value]!r} in column {dialect.columns[value]!r}"
                    raise InputError(f"Line {last + 1} of {path} has {wrong}, which is not a number.")
                for i in ids:
                    if not fields[i]:
                        wrong = f"column {dialect.columns[i]!r}"
                        raise InputError(f"Line {last + 1} of {path} has no id in {wrong}; give one or drop the line.")
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8 text after line {number}; convert it to UTF-8.") from None
        except csv.Error as error:
            raise InputError(f"Line {number + 1} of {path} cannot be read ({error}).") from None


class _opened:
    """A file for the parser: a delimiter of several characters is replaced on the way."""

    def __init__(self, path: Path, dialect: Dialect, advance: Callable[[int], None] | None) -> None:
        self._context = open_input(path, advance)
        self._delimiter = dialect.delimiter.encode()

    def __enter__(self) -> IO[bytes]:
        file = self._context.__enter__()
        stream: Any = io.BufferedReader(_Stream(file, self._delimiter), BLOCK)
        return stream

    def __exit__(self, *reason: Any) -> Any:
        return self._context.__exit__(*reason)


class _Stream(io.RawIOBase):
    """Another file's bytes, with a delimiter of several characters replaced by one."""

    def __init__(self, file: IO[bytes], delimiter: bytes) -> None:
        self._file, self._delimiter, self._rest = file, delimiter, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer) - len(self._rest))
        if len(self._delimiter) > 1:
            ended = not data
            data = (self._rest + data).replace(self._delimiter, _STAND_IN.encode())
            # The start of a delimiter at the end waits for what comes next.
            starts = (self._delimiter[:n] for n in range(len(self._delimiter) - 1, 0, -1))
            self._rest = b"" if ended else next((start for start in starts if data.endswith(start)), b"")
            data = data[: len(data) - len(self._rest)]
            if not data and not ended:
                return self.readinto(buffer)
        buffer[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)


def text_of(names: list[str], dialect: Dialect) -> list[str]:
    """Ids as they were before a long delimiter inside quotes was replaced."""
    if dialect.parsed == dialect.delimiter:
        return names
    return [name.replace(_STAND_IN, dialect.delimiter) for name in names]
