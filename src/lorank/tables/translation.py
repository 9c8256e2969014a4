"""Text of other habits, Excel files and JSON lines as the plain delimited text that all readers know.

Decimal commas, other encodings, own words for missing values and comment lines are rewritten into a temporary copy with
the same number of lines, so that errors name the lines of the file itself.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lorank.errors import InputError
from lorank.files import kind_of, open_input
from lorank.memory import check_memory
from lorank.tables.damage import reading
from lorank.tables.delimited import read_all, sniff_text
from lorank.tables.names import listed

EXCEL = (".xlsx", ".xlsm")
JSON_LINES = (".jsonl", ".ndjson", ".json")
# Times the size of a text that it takes in memory until it is written again: an estimate on the safe side.
TIMES = 20
# Bytes that an object or list of JSON takes in memory, and one of its fields, besides the text.
OBJECT, FIELD = 300, 100
# Cells for each byte of a file, at most: one cell in the last corner of a sheet of Excel makes 17 billion empty ones,
# and so do 100,000 objects of JSON that each have a name of their own.
MOST_CELLS = 100
# Times the unpacked size of a part of an Excel file that it takes in memory: sheets and their texts are read in pieces,
# what is in these folders is read at once.
PIECES, AT_ONCE, FOLDERS = 5, 50, {"", "_rels", "docProps", "xl", "xl/_rels", "xl/theme"}
# What an element of XML takes in memory besides its text, and what begins or ends a line of a sheet, or a text of it.
ELEMENT, _LINE_TAG = 150, re.compile(rb"(?:row|si)>")
# A number with a decimal comma, and dots between thousands.
_COMMA = re.compile(r"\s*([+-]?)(\d{1,3}(?:\.\d{3})+|\d*),(\d+(?:[eE][+-]?\d+)?)\s*")
# What a float that is a whole number has behind it.
_WHOLE = re.compile(r"\.0+$")
# Between lines of JSON; `splitlines` also ends one at U+2028 and the like, which texts may hold.
_LINE_ENDS = re.compile(r"[\r\n]+")


@dataclass(frozen=True)
class Habits:
    """How a text file is written where it is not plain.

    encoding : str
        Of the text, such as "latin-1".
    decimal : "." or ","
        What stands before the decimals of a number.
    na : tuple of str
        Words for a missing value, beside the empty cell and NA.
    comment : str
        Lines that begin with it are left out; "" for none.
    """

    encoding: str = "utf-8"
    decimal: str = "."
    na: tuple[str, ...] = ()
    comment: str = ""

    def __post_init__(self) -> None:
        try:
            "".encode(self.encoding)
        except LookupError:
            raise InputError(f"There is no encoding {self.encoding!r}; try utf-8, latin-1, cp1252 or utf-16.") from None
        if self.decimal not in (".", ","):
            raise InputError(f"decimal is '.' or ','; got {self.decimal!r}.")

    @property
    def plain(self) -> bool:
        return self == PLAIN


PLAIN = Habits()


@contextmanager
def translated(path: Path, habits: Habits, delimiter: str | None = None, sheet: str | None = None) -> Iterator[Path]:
    """The file itself if all readers understand it, or else a temporary copy that they do, of the same name."""
    kind = kind_of(path)
    tabular = kind in EXCEL or kind in JSON_LINES
    if not tabular and habits.plain:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"{path.stem if str(path) != '-' else 'stdin'}.{'csv' if tabular else 'txt'}"
        if tabular:
            rows = _excel(path, sheet) if kind in EXCEL else _json(path)
            with copy.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(rows)  # ends lines by "\r\n", and so puts either into quotes
        else:
            copy.write_text(_plain_text(path, habits, delimiter), encoding="utf-8", newline="")
        try:
            yield copy
        except InputError as error:  # the copy says nothing to whoever gave the file
            raise type(error)(str(error).replace(str(copy), str(path))) from None


def _plain_text(path: Path, habits: Habits, delimiter: str | None) -> str:
    with open_input(path) as file:
        data = read_all(file, path, TIMES, "write it as plain UTF-8 text")
    try:
        text = data.decode("utf-8-sig" if habits.encoding.lower().replace("_", "-") == "utf-8" else habits.encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"Line {line} of {path} is not {habits.encoding} text; give its --encoding.") from None
    if habits.comment:
        text = re.sub(rf"(?m)^[ \t]*{re.escape(habits.comment)}.*$", "", text)
    if habits.decimal == "." and not habits.na:
        return text
    between = delimiter or sniff_text(text, path, without="," if habits.decimal == "," else "")
    if len(between) > 1:
        raise InputError(f"--na and --decimal are for a delimiter of one character; {path} has {between!r}.")
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=between)
    missing = set(habits.na)
    for fields in csv.reader(io.StringIO(text, newline=""), delimiter=between):
        writer.writerow([_plain(field, habits.decimal, missing) for field in fields])
    return out.getvalue()


def _plain(field: str, decimal: str, missing: set[str]) -> str:
    if field.strip() in missing:
        return ""
    found = _COMMA.fullmatch(field) if decimal == "," else None
    plain = field if found is None else f"{found[1]}{found[2].replace('.', '') or '0'}.{found[3]}"
    # -999 also stands for -999.0, as a program that writes floats has it.
    return "" if _WHOLE.sub("", plain.strip()) in missing else plain


def _excel(path: Path, sheet: str | None) -> Iterable[Sequence[Any]]:
    """The rows of a sheet, of the first one if none is named."""
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("Excel files need openpyxl: pip install 'lorank[excel]'.") from None
    # openpyxl prints some of what it finds wrong, among what this program writes.
    with reading(path, "an Excel file"), redirect_stdout(io.StringIO()):
        _check_parts(path)
        book = load_workbook(path, read_only=True, data_only=True, keep_links=False)
        names = book.sheetnames
        if sheet is not None and sheet not in names:
            raise InputError(f"{path} has no sheet {sheet!r}; there are {listed(names)}.")
        found = book[sheet or names[0]]
        found.reset_dimensions()  # as some programs write them, they are wrong, and cells beyond them would be lost
        rows: list[list[Any]] = []
        width, most = 0, MOST_CELLS * max(path.stat().st_size, 1 << 14)
        for row in found.values:
            rows.append(["" if cell is None else cell for cell in row])
            width = max(width, len(row))
            if (1 + width) * len(rows) > most:
                raise InputError(f"{path} has a sheet with little in it but empty cells; save the table as csv.")
        rows = [row + [""] * (width - len(row)) for row in rows]
    # Empty rows around a table are no part of it; between others they are rows without a value.
    full = [number for number, row in enumerate(rows) if any(cell != "" for cell in row)]
    if not full:
        raise InputError(f"The sheet {sheet or names[0]!r} of {path} is empty.")
    return rows[full[0] : full[-1] + 1]


def _check_parts(path: Path) -> None:
    """Refuse an Excel file whose parts would not fit into memory: a small one may be packed a thousand times."""

    def check(needed: int) -> None:
        check_memory(needed, f"Reading {path}", "save the table as csv")

    with zipfile.ZipFile(path) as archive:
        needed = 0
        for part in archive.infolist():
            folder, _, name = part.filename.rpartition("/")
            needed += part.file_size * (AT_ONCE if folder in FOLDERS and name != "sharedStrings.xml" else PIECES)
        check(needed)
        for part in archive.infolist():
            with archive.open(part) as file:
                check(needed + _memory_of_elements(file, path))


def _memory_of_elements(file: IO[bytes], path: Path) -> int:
    """Bytes that the parser keeps of a part of an Excel file: all of its lines, and of one all that is in it."""
    ends = most = since = 0
    while block := file.read(1 << 20):
        if block[:2] in (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<") or b"<!ENTITY" in block:
            raise InputError(f"{path} is in UTF-16 or has entities, as no Excel file; save the table as csv.")
        first, *others = _LINE_TAG.split(block)
        ends += len(others)
        for piece in (first, *others):
            if piece is not first:
                most, since = max(most, since), 0
            since += piece.count(b"<") + piece.count(b"=")
    return ELEMENT * (ends + 2 * max(most, since))


def _json(path: Path) -> Iterable[Sequence[Any]]:
    """A header and rows from an object on each line, or from one list of objects."""
    with open_input(path) as file, reading(path, "JSON lines"):
        text = read_all(file, path, 2, "write it as csv").decode("utf-8-sig")
    needed = OBJECT * (text.count("{") + text.count("[")) + FIELD * text.count(":") + 2 * len(text)
    check_memory(needed, f"{path} with its cells", "write it as csv")
    size = len(text)
    records: list[Any] = []
    try:
        if text.lstrip().startswith("["):
            records = json.loads(text)
        else:
            records = [json.loads(line) for line in _LINE_ENDS.split(text) if line.strip()]
    except (json.JSONDecodeError, RecursionError):
        raise InputError(f"{path} is no table: a table in JSON has one object on each line.") from None
    if not records or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path} is no table: a table in JSON has one object on each line.")
    names = list(dict.fromkeys(name for record in records for name in record))
    nested = next((n for r in records for n, held in r.items() if isinstance(held, (dict, list))), None)
    if nested is not None:
        raise InputError(f"{path} is no table: its {nested!r} holds more than one value.")
    if (1 + len(names)) * len(records) > MOST_CELLS * max(size, 1 << 14):
        raise InputError(f"{path} is no table: its {len(records)} objects have {len(names)} different names.")
    yield names
    for r in records:
        yield ["" if r.get(name) is None else r[name] for name in names]
