"""The file of results: one JSON object a line, only ever appended to.

A line is written by one call and forced to the disk, so that a run that is killed at any moment leaves whole lines and
at most one torn one at the end, which the next run cuts off.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from lorank.errors import InputError
from lorank.experiments.settings import Cell, Suite
from lorank.files import sha256

Row = dict[str, Any]

# How the remark of a cell begins whose search the clock ended.
OUT_OF_TIME = "The search was out of time before all of its"


def fingerprint(cell: Cell) -> str:
    """Short digest of the settings of a cell."""
    text = json.dumps(cell.settings, sort_keys=True)
    return sha256(text.encode())[:12]


def read(path: Path) -> dict[str, Row]:
    """The last whole record of each cell, by key; a torn line is passed over."""
    rows: dict[str, Row] = {}
    if path.exists():
        for line in path.read_bytes().split(b"\n"):
            try:
                row = json.loads(line)
                rows[row["key"]] = row
            except (ValueError, TypeError, KeyError):
                continue
    return rows


def matching(rows: Mapping[str, Row], suites: Sequence[Suite]) -> dict[str, Row]:
    """The records that were made under the settings of these suites: a quick run and a full one may share a file."""
    seeds = 1 + max((row["seed"] for row in rows.values()), default=0)
    current = {cell.key: fingerprint(cell) for suite in suites for cell in suite.cells(seeds)}
    return {key: row for key, row in rows.items() if row["fingerprint"] == current.get(key)}


class Records:
    """The file, open for one run at a time."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise InputError(f"Another run writes to {path}; wait for it, or choose another --out.") from None
        self._cut_torn_line()
        self.rows = read(path)

    def _cut_torn_line(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a record; it is on the disk when this returns."""
        line = json.dumps(row, allow_nan=False, sort_keys=True) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)
        self.rows[row["key"]] = dict(row)

    def is_done(self, cell: Cell) -> bool:
        """Whether a record of this cell under the same settings is there; what was skipped may be possible by now."""
        row = self.rows.get(cell.key)
        return row is not None and row["fingerprint"] == fingerprint(cell) and row["status"] != "skipped"

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
