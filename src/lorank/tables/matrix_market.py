"""Matrix Market files, parsed here: every number is checked, and a damaged file is an error that names its line."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from lorank.errors import InputError
from lorank.files import check_exists, open_input
from lorank.memory import check_memory
from lorank.observations import Observations
from lorank.tables.damage import reading
from lorank.types import Array

# Lines that are parsed at a time.
BLOCK = 1 << 18
LAYOUTS = ("coordinate", "array")
FIELDS = ("real", "integer", "double", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")


def read_matrix_market(path: Path, value: str | None = None) -> Observations:
    """A Matrix Market file; every entry that it stores is observed, zeros too. A pattern has ones.

    Of a symmetric matrix the file has one half, and the other is taken from it.
    """
    check_exists(path)
    with reading(path, "a Matrix Market file"), open_input(path) as file:
        lines = _Lines(path, file)
        layout, field, symmetry = _banner(lines)
        sizes = _sizes(lines, 3 if layout == "coordinate" else 2)
        m, n = sizes[:2]
        if symmetry != "general" and m != n:
            raise InputError(f"{path} says that it is {symmetry}, and it is {m} x {n}.")
        if layout == "array":
            if field == "pattern":
                raise InputError(f"{path} is an array of a pattern, which has no values.")
            check_memory(24 * m * n, f"A matrix of {m} x {n}", "give a smaller one")
            return Observations.from_dense(_dense(lines, m, n, symmetry))
        check_memory(40 * sizes[2] + 16 * (m + n), f"A matrix of {m} x {n}", "give a smaller one")
        rows, cols, values = _coordinates(lines, m, n, sizes[2], field == "pattern")
        if symmetry != "general":
            other = rows != cols
            sign = -1.0 if symmetry == "skew-symmetric" else 1.0
            rows, cols = np.append(rows, cols[other]), np.append(cols, rows[other])
            values = np.append(values, sign * values[other])
        return Observations.from_coo(rows, cols, values, (m, n))


class _Lines:
    """The lines of a file with their numbers, without comments and empty ones."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.number = path, 0
        self._file = io.BufferedReader(file, 1 << 20) if not isinstance(file, io.BufferedReader) else file  # type: ignore[type-var]

    def next(self) -> str:
        """The next line that says something; "" at the end."""
        while line := self._file.readline(1 << 16):
            self.number += 1
            if len(line) == 1 << 16:
                raise InputError(f"Line {self.number} of {self.path} is too long for a Matrix Market file.")
            if line.strip() and not line.startswith(b"%"):
                return line.decode("ascii")
        return ""

    def first(self) -> str:
        """The first line, which begins as a comment does."""
        self.number = 1
        return self._file.readline(1 << 16).decode("ascii")

    def blocks(self, kinds: np.dtype[np.void], count: int) -> Iterator[Array]:
        """So many lines, parsed into records, and nothing after them."""
        left = count
        while left:
            start = self.number + 1
            texts = [text for _ in range(min(left, BLOCK)) if (text := self.next())]
            if len(texts) < min(left, BLOCK):
                there = count - left + len(texts)
                raise InputError(f"{self.path} is cut off: it says that it has {count} entries, and has {there}.")
            found = _parsed(texts, kinds)
            if found is None:
                raise self._wrong(texts, kinds, start)
            left -= found.size
            yield found
        if self.next():
            raise InputError(f"{self.path} says that it has {count} entries, and goes on at line {self.number}.")

    def _wrong(self, texts: list[str], kinds: np.dtype[np.void], start: int) -> InputError:
        """The error of the first line that cannot be parsed; comments between entries are not counted."""
        for number, text in enumerate(texts, start):
            if _parsed([text], kinds) is None:
                what = " ".join(kinds.names or ())
                return InputError(f"Line {number} of {self.path} is {text.strip()[:80]!r}, which is not {what!r}.")
        return InputError(f"The lines from {start} on of {self.path} cannot be read.")


def _parsed(texts: list[str], kinds: np.dtype[np.void]) -> Array | None:
    """Records of these lines; None if one of them has another number of columns, or something that is no number."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns where a position is spelled as a float
            return np.asarray(np.loadtxt(texts, kinds, comments=None, ndmin=1))
    except (ValueError, OverflowError, DeprecationWarning):
        return None


def _banner(lines: _Lines) -> tuple[str, str, str]:
    words = lines.first().lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise InputError(f"{lines.path} does not begin as Matrix Market files do (%%MatrixMarket matrix ...).")
    layout, field, symmetry = words[2:]
    for word, known in ((layout, LAYOUTS), (field, FIELDS), (symmetry, SYMMETRIES)):
        if word not in known:
            raise InputError(f"{lines.path} is {word!r}; lorank reads {', '.join(known)}.")
    return layout, field, symmetry


def _sizes(lines: _Lines, count: int) -> list[int]:
    text = lines.next()
    words = text.split()
    if len(words) != count or not all(word.isdigit() and len(word) < 19 for word in words):
        raise InputError(f"Line {lines.number} of {lines.path} is {text.strip()[:80]!r}; {count} sizes are needed.")
    sizes = [int(word) for word in words]
    if count == 3 and sizes[2] > sizes[0] * sizes[1]:
        raise InputError(f"{lines.path} says that it has {sizes[2]} entries of {sizes[0]} x {sizes[1]}.")
    return sizes


def _coordinates(lines: _Lines, m: int, n: int, count: int, pattern: bool) -> tuple[Array, Array, Array]:
    kinds = np.dtype([("row", np.int64), ("column", np.int64)] + ([] if pattern else [("value", np.float64)]))
    rows, cols, values = np.empty(count, np.int64), np.empty(count, np.int64), np.ones(count)
    at = 0
    for found in lines.blocks(kinds, count):
        span = slice(at, at + found.size)
        rows[span], cols[span] = found["row"] - 1, found["column"] - 1
        if not pattern:
            values[span] = found["value"]
        at = span.stop
    return rows, cols, values


def _dense(lines: _Lines, m: int, n: int, symmetry: str) -> Array:
    """The cells, column by column; of a symmetric matrix only those from the diagonal down (skew: below it)."""
    below = int(symmetry == "skew-symmetric")
    count = m * n if symmetry == "general" else (m - below) * (m + 1 - below) // 2
    kinds = np.dtype([("value", np.float64)])
    cells = np.concatenate([found["value"] for found in lines.blocks(kinds, count)] or [np.empty(0)])
    if symmetry == "general":
        return cells.reshape((m, n), order="F")
    dense = np.zeros((m, n))
    cols, rows = np.triu_indices(m, below)
    dense[rows, cols] = cells
    dense[cols, rows] = -cells if below else cells
    return dense
