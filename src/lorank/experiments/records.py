"""The file of results: one JSON object a line, only ever appended to.

A line is written by one call and forced to the disk, so that a run that is killed at any moment leaves whole lines and
at most one torn one at the end, which the next run cuts off.
"""

from __future__ import annotations

import ast
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from lorank.errors import InputError
from lorank.experiments.settings import Cell, Suite
from lorank.files import sha256

Row = dict[str, Any]

# What a cell runs: these rooms, and these files of others.
ROOMS = (
    "datasets",
    "kernels",
    "linalg",
    "losses",
    "observations",
    "problems",
    "registry",
    "regularizers",
    "side_information",
    "solvers",
)
FILES = (
    "estimators/completion.py",
    "estimators/running.py",
    "experiments/baselines.py",
    "experiments/data.py",
    "experiments/run_cell.py",
    "spatial/kriging.py",
    "tuning/budgeted.py",
    "tuning/path.py",
    "tuning/search.py",
)


def fingerprint(cell: Cell) -> str:
    """Short digest of the settings of a cell."""
    text = json.dumps(cell.settings, sort_keys=True)
    return sha256(text.encode())[:12]


@cache
def code_version(package: Path = Path(__file__).parents[1]) -> str:
    """Short digest of the code that cells run; comments, docstrings and layout do not count."""
    files = [path for room in ROOMS for path in (package / room).rglob("*.py")] + [package / name for name in FILES]
    return sha256("".join(_meaning(path, package) for path in sorted(files)).encode())[:12]


def _meaning(path: Path, package: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return f"{path.relative_to(package)} {ast.dump(tree)}"


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
    """The records that were made under the settings of these suites: a quick run and a full one may share a file.

    Those that other code made are among them, so that a run that is going on replaces them one by one.
    """
    seeds = 1 + max((row["seed"] for row in rows.values()), default=0)
    current = {cell.key: fingerprint(cell) for suite in suites for cell in suite.cells(seeds)}
    return {key: row for key, row in rows.items() if row.get("fingerprint") == current.get(key)}


class Records:
    """The file, open for one run at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise InputError(f"{path.parent} cannot be a folder for results ({error.strerror}).") from None
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
        """Whether a record of this cell is there, of the same settings and code; what was skipped is tried again."""
        row = self.rows.get(cell.key, {})
        same = row.get("fingerprint") == fingerprint(cell) and row.get("code") == code_version()
        return same and row["status"] != "skipped"

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
