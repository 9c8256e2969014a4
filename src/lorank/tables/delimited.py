"""Delimited text, read a block at a time."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from lorank.errors import InputError, one_line
from lorank.files import on_disk, open_input
from lorank.memory import check_memory

# Text that means "not known" where a number belongs.
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None")
BLOCK = 1 << 23
SAMPLE = 1 << 16
# Characters of a field at most: Arrow reads it within a block. The limit of the csv module, 131,072, is one of the
# whole process, and is only raised.
csv.field_size_limit(max(BLOCK, csv.field_size_limit()))
# Lines that the sample should have, and bytes that it may take for them; characters of a line that are read at most.
LINES, LONGEST = 10, 1 << 24
_CANDIDATES = ("::", "\t", ";", "|", ",", " ")
# Seconds that Arrow's threads may take to let go of a file.
PATIENCE = 10.0
# Stands for a delimiter of several characters, which the parsers do not know.
_STAND_IN = "\x1f"

Advance = Callable[[int], None]
# What each column that is read holds, by position: `str` for ids, or numpy's type of its numbers.
Types = Mapping[int, Any]
# Takes the text of a row that has another number of columns, and its number among the rows that are not empty, from 1;
# says whether that is as it should be.
OddRow = Callable[[str, int], bool]


@dataclass(frozen=True)
class DelimitedFile:
    """A text file and how it is laid out. Without a header its columns are called 1, 2, 3 ...

    `skip` is the number of lines before the first row, and `member` the file that is meant in a zip of several.
    """

    path: Path
    delimiter: str
    columns: tuple[str, ...]
    header: bool = False
    skip: int = 0
    member: str = ""

    def batches(self, types: Types, advance: Advance | None = None, odd_row: OddRow | None = None) -> Iterator[Any]:
        """Arrow batches of some columns, in the order of `types`: ids as dictionaries of text, numbers with nulls.

        A missing whole number is an error. Whatever the parser refuses is looked for again line by line, and the
        error names its line.
        """
        try:
            import pyarrow as pa
            from pyarrow import csv as arrow
        except ImportError:
            raise ImportError("Reading tables needs pyarrow: pip install 'lorank[tables]'.") from None

        if max(types) >= len(self.columns):
            raise InputError(f"{self.path} has {len(self.columns)} columns where {max(types) + 1} are needed.")
        text = pa.dictionary(pa.int32(), pa.string())
        kinds = {str(i): text if kind is str else pa.from_numpy_dtype(kind) for i, kind in types.items()}

        def decide(row: Any) -> str:
            return "skip" if odd_row is not None and odd_row(row.text, row.number) else "error"

        released, reader = threading.Event(), None
        with self._opened(advance) as file:
            try:
                reader = arrow.open_csv(
                    _Lent(file, released),
                    arrow.ReadOptions(
                        block_size=BLOCK,
                        skip_rows=self.skip,
                        column_names=[str(i) for i in range(len(self.columns))],
                        # Rows are numbered only when they are read in turn; and a small file needs no threads.
                        use_threads=odd_row is None and not is_small(self.path),
                    ),
                    arrow.ParseOptions(
                        delimiter=self._parsed, newlines_in_values=True, invalid_row_handler=odd_row and decide
                    ),
                    arrow.ConvertOptions(column_types=kinds, include_columns=list(kinds), null_values=list(MISSING)),
                )
                for batch in reader:
                    if any(pa.types.is_integer(column.type) and column.null_count for column in batch.columns):
                        self.explain(types, odd_row)
                    yield batch
            except pa.ArrowInvalid as error:
                if "Empty CSV" not in str(error):
                    self.explain(types, odd_row)
                    raise InputError(f"{self.path} cannot be read as a table: {one_line(error)}.") from None
            finally:
                reader = None
                released.wait(PATIENCE)

    def records(self) -> Iterator[list[str]]:
        """The fields of one row after another, as text: for small tables."""
        with self._opened() as file:
            rows = csv.reader(_lines(file), delimiter=self._parsed)
            for fields in rows:
                if rows.line_num <= self.skip or not fields:
                    continue
                if len(fields) != len(self.columns):
                    self.explain({})
                yield self.original(fields)

    def explain(self, types: Types, odd_row: OddRow | None = None) -> None:
        """Raise the error of the first line that is wrong, with its number."""
        width, number, row = len(self.columns), 0, 0
        with self._opened() as file:
            records = csv.reader(_lines(file), delimiter=self._parsed)
            try:
                for fields in records:
                    number, last = records.line_num, number
                    if number <= self.skip or not fields:
                        continue
                    row += 1
                    if len(fields) != width:
                        if odd_row is not None and odd_row(self._parsed.join(fields), row):
                            continue
                        raise InputError(
                            f"Line {last + 1} of {self.path} has {len(fields)} columns where {width} are needed."
                        )
                    for i, kind in types.items():
                        self._check(fields[i], i, kind, last + 1)
            except UnicodeDecodeError:
                raise InputError(f"{self.path} is not UTF-8 text after line {number}; convert it to UTF-8.") from None
            except csv.Error as error:
                raise InputError(f"Line {number + 1} of {self.path} cannot be read ({one_line(error)}).") from None

    def _check(self, field: str, i: int, kind: Any, line: int) -> None:
        where, column = f"Line {line} of {self.path}", f"column {self.columns[i]!r}"
        if kind is str:
            if not field:
                raise InputError(f"{where} has no id in {column}; give one or drop the line.")
        elif np.dtype(kind).kind == "i":
            if not field.strip().removeprefix("-").isdigit():
                raise InputError(f"{where} has {field!r} in {column}, which is not a whole number.")
        elif field.strip() not in MISSING and not _is_number(field):
            raise InputError(f"{where} has {field!r} in {column}, which is not a number.")

    def original(self, names: list[str]) -> list[str]:
        """Ids as they are in the file, also where a long delimiter inside quotes was replaced for the parser."""
        if self._parsed == self.delimiter:
            return names
        return [name.replace(_STAND_IN, self.delimiter) for name in names]

    @property
    def _parsed(self) -> str:
        """The delimiter that the parser sees."""
        return _parsed(self.delimiter)

    @contextmanager
    def _opened(self, advance: Advance | None = None) -> Iterator[IO[bytes]]:
        """The file for the parser: a delimiter of several characters is replaced on the way."""
        with open_input(self.path, advance, self.member) as file:
            stream: Any = io.BufferedReader(_Stream(file, self.delimiter.encode()), BLOCK)
            yield stream


def _lines(file: IO[bytes]) -> Iterator[str]:
    """The lines of a text, one at a time; a small file may unpack to one of gigabytes."""
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    while line := text.readline(LONGEST):
        if len(line) == LONGEST:
            raise csv.Error(f"it has more than {LONGEST} characters")
        yield line


def read_all(stream: IO[bytes], path: Path, times: int, advice: str) -> bytes:
    """All that a stream gives, unless `times` as much does not fit into memory: a small file may be packed zeros."""
    parts: list[bytes] = []
    size = 0
    while part := stream.read(1 << 24):
        parts.append(part)
        size += len(part)
        check_memory(times * size, f"{path} with its cells", advice)
    return b"".join(parts)


def is_small(path: Path) -> bool:
    """Whether a file is smaller than a block. Threads of Arrow that are there when a short program ends abort it."""
    copy = on_disk(path)
    return copy.is_file() and copy.stat().st_size < BLOCK


def _parsed(delimiter: str) -> str:
    return delimiter if len(delimiter) == 1 else _STAND_IN


def sniff(
    path: Path,
    delimiter: str | None = None,
    header: bool | None = None,
    member: str = "",
    names: Sequence[str | None] = (),
) -> DelimitedFile:
    """The layout of a file, from its first lines where it is not given.

    The delimiter is one under which the columns of these names exist, if there are such; then one that cuts all of the
    first lines into the same number of columns, then one that cuts most of them so; and then the one that makes
    the most. A first line of nothing but numbers is data, not a header, and so is one of three whose last is a number.
    """
    with open_input(path, member=member) as file:
        sample = file.read(SAMPLE)
        # Lines may be long: of a wide table, or for one id among others.
        while sample.count(b"\n") < LINES and len(sample) < LONGEST and (more := file.read(len(sample))):
            sample += more
        cut = bool(file.read(1))
    if b"\0" in sample:
        raise InputError(f"{path} is not a table of text; if it is one in UTF-16, give its encoding.")
    try:
        text = sample.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not cut or error.start < len(sample) - 4:  # not just a character that the sample cuts in two
            raise InputError(
                f"{path} is not UTF-8 text (byte {error.start}); give its encoding, or convert it to UTF-8."
            ) from None
        text = sample[: error.start].decode("utf-8-sig")
    if not text.strip():
        raise InputError(f"{path} is empty.")
    if delimiter is None:
        delimiter = sniff_text(text, path, names)
    elif not delimiter:
        raise InputError("The delimiter is empty; give one character or more.")
    first, line = _first(text, delimiter)
    if header is None:
        header = not (all(map(_is_number, first)) or (len(first) == 3 and _is_number(first[2])))
    columns = tuple(first) if header else tuple(str(i + 1) for i in range(len(first)))
    return DelimitedFile(path, delimiter, columns, header, line if header else 0, member)


def sniff_text(text: str, path: Path, names: Sequence[str | None] = (), without: str = "") -> str:
    """The delimiter of a text, from its first lines; `without` is none."""
    if re.match(r"\s*(\{|\[\s*[\[{\]])", text):
        raise InputError(
            f"{path} is no table: it looks like JSON; a table has an object on each line of a .jsonl file."
        )
    if re.match(r"\s*<(!doctype|html|\?xml)", text, re.IGNORECASE):
        raise InputError(f"{path} is no table: it looks like a web page or XML.")
    if ".tsv" in path.suffixes:
        return "\t"
    wanted = {name for name in names if name is not None}

    def merit(candidate: str) -> tuple[bool, bool, int]:
        even, width = _width(text, candidate)
        try:
            has_names = bool(wanted) and wanted <= set(_first(text, candidate)[0])
        except csv.Error:  # under a delimiter that it does not have, a long line is one field, which is too long
            has_names = False
        return has_names, even and width > 1, width

    return max((candidate for candidate in _CANDIDATES if candidate != without), key=merit)


def _first(text: str, delimiter: str) -> tuple[list[str], int]:
    """The fields of the first line that is not empty, and how many lines it ends after."""
    parsed = _parsed(delimiter)
    records = csv.reader(io.StringIO(text.replace(delimiter, parsed), newline=""), delimiter=parsed)
    fields = next((fields for fields in records if fields), [""])
    return [field.replace(_STAND_IN, delimiter).strip() for field in fields], records.line_num


def _width(text: str, delimiter: str) -> tuple[bool, int]:
    """Columns that this delimiter makes of most of the first lines, 1 if there is no such number; and if of all."""
    lines = csv.reader(io.StringIO(text.replace(delimiter, _STAND_IN), newline=""), delimiter=_STAND_IN)
    widths: Counter[int] = Counter()
    with suppress(csv.Error):  # a field that is too long: the lines before it tell
        for fields in islice(lines, 20):
            if fields:
                widths[len(fields)] += 1
    width, times = next(iter(widths.most_common(1)), (0, 0))
    return len(widths) == 1, width if 2 * times > widths.total() else 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Lent:
    """A file that Arrow's threads read, and that says when the last of them has let go of it.

    A thread that lets go after Python's end cannot, and ends the whole process with a signal.
    """

    closed = False

    def __init__(self, file: IO[bytes], released: threading.Event) -> None:
        self._file, self._released = file, released

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def __del__(self) -> None:
        self._released.set()


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
