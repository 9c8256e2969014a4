"""The columns of a table: of what kind each is, its cells as numbers, and numbers as cells again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.observations import dataframes as frames
from lorank.types import Array

# What a column can hold. "id" says: leave it alone.
KINDS = ("real", "heavy-tailed", "positive", "bounded", "count", "binary", "ordinal", "categorical", "id")
CLASSES = ("binary", "ordinal", "categorical")
# A column of text with more levels than this is taken for names, and so is one of more than two, none of them twice.
MOST_LEVELS = 50
# Fewer whole numbers than this, all different, are no sign of ids.
FEWEST_IDS = 20


@dataclass(frozen=True)
class Column:
    """One column: its name, its kind, and what its cells may be.

    levels : array or None
        Of a binary, ordinal or categorical column, in order; a cell is then the number of its level, from 0.
    low, high : float
        Bounds of a bounded or positive column, or of counts.
    whole : bool
        Whether what is filled in is rounded to a whole number.
    """

    name: Any
    kind: str
    levels: Array | None = None
    low: float = -np.inf
    high: float = np.inf
    whole: bool = False

    @property
    def is_class(self) -> bool:
        return self.kind in CLASSES

    def numbers(self, cells: Any) -> Array:
        """Cells as floats, NaN where they are missing: numbers as they are, or the number of the level."""
        if self.levels is None:
            return np.asarray(cells, np.float64)
        known = {level: float(number) for number, level in enumerate(self.levels.tolist())}
        found = np.array([np.nan if _missing(cell) else known.get(cell, -1.0) for cell in _listed(cells)])
        if (found < 0).any():
            strange = _listed(cells)[int(np.argmax(found < 0))]
            raise InputError(f"Column {self.name!r} has the level {strange!r}, which it did not have in fit.")
        return found

    def cells(self, numbers: Array) -> Any:
        """What numbers stand for, as the column has it."""
        if self.levels is not None:
            return self.levels[numbers.astype(np.int64)]
        numbers = np.clip(numbers, self.low, self.high)
        return np.rint(numbers) if self.whole else numbers


def describe(
    name: Any, cells: Any, kind: str | Sequence[Any] | None = None, levels: Any = None, whole: bool = False
) -> Column:
    """The column with this name and these cells, of a given kind or, by its type, of one that is found out.

    `kind` may be ("bounded", low, high), or ("ordinal", level, level, ...) in their order. `levels` are those that the
    type lists, in order, and `whole` says that it is one of whole numbers. Text that looks like names is an "id".
    """
    bounds: list[Any] = []
    if kind is not None and not isinstance(kind, str):
        kind, *bounds = list(kind)
    if kind == "ordinal" and bounds:
        levels, bounds = bounds, []
        strange = next((cell for cell in _listed(cells) if not _missing(cell) and cell not in levels), None)
        if strange is not None:
            raise InputError(f"Column {name!r} has the level {strange!r}, which is not among those that are given.")
    if kind is not None and kind not in KINDS:
        raise InputError(f"Column {name!r} cannot be of kind {kind!r}; there are {', '.join(KINDS)}.")
    if bounds and (kind != "bounded" or len(bounds) != 2 or not bounds[0] < bounds[1]):
        raise InputError(f"Bounds are given as ('bounded', low, high) with low < high; got {(kind, *bounds)!r}.")
    if kind == "id":
        return Column(name, kind)
    array = np.asarray(cells)
    is_number = array.dtype.kind in "iuf"
    if kind in CLASSES or (kind is None and not is_number):
        return _of_classes(name, cells, kind, levels)
    if not is_number:
        raise InputError(f"Column {name!r} holds no numbers, so it cannot be of kind {kind!r}.")
    values = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    low, high = (float(values.min()), float(values.max())) if values.size else (-np.inf, np.inf)
    if kind is None:
        return Column(name, "real", whole=whole)
    if kind == "positive" and (values <= 0).any():
        raise InputError(f"Column {name!r} has {low:g}, so it cannot be of kind 'positive'.")
    if kind == "count" and ((values < 0) | (values != np.rint(values))).any():
        raise InputError(f"Column {name!r} cannot be of kind 'count': it has a value that is no whole number >= 0.")
    if kind == "bounded":
        limits = (float(bounds[0]), float(bounds[1])) if bounds else (low, high)
        if low < limits[0] or high > limits[1]:
            raise InputError(f"Column {name!r} goes from {low:g} to {high:g}, beyond {limits[0]:g} to {limits[1]:g}.")
        return Column(name, kind, None, limits[0], limits[1], whole)
    low = 0.0 if kind in ("positive", "count") else -np.inf
    return Column(name, kind, None, low, np.inf, whole or kind == "count")


def _of_classes(name: Any, cells: Any, kind: str | None, levels: Any) -> Column:
    found = [cell for cell in dict.fromkeys(_listed(cells)) if not _missing(cell)]
    if levels is None:
        try:
            found = sorted(found)
        except TypeError:
            found = sorted(found, key=str)
    else:
        # Of what the type lists, what there is: nothing can be said of a level that was never seen.
        found = [level for level in levels if level in set(found)]
    if not found or (kind is None and levels is None and _like_names(found, cells)):
        return Column(name, "id")
    if kind == "binary" and len(found) > 2:
        raise InputError(f"Column {name!r} has {len(found)} levels, so it cannot be of kind 'binary'.")
    kind = "binary" if len(found) <= 2 and kind != "ordinal" else kind or "categorical"
    array = np.empty(len(found), object)
    array[:] = found
    return Column(name, kind, array)


def _listed(cells: Any) -> list[Any]:
    return list(cells.tolist() if isinstance(cells, np.ndarray) else cells)


def _missing(cell: Any) -> bool:
    return cell is None or cell != cell


class Layout:
    """The columns of a table as they were in fit.

    Parameters
    ----------
    columns : list of Column
    frame : bool
        Whether the table is a DataFrame of columns with types of their own, or an array.
    """

    def __init__(self, columns: Sequence[Column], frame: bool) -> None:
        self.columns, self.frame = list(columns), frame
        self.used = [j for j, column in enumerate(self.columns) if column.kind != "id"]

    @classmethod
    def of(cls, X: Any, kinds: Mapping[Any, Any] | None = None) -> Layout:
        """Of an array of numbers, or of a DataFrame; kinds are given by name, or by position for an array."""
        kinds = dict(kinds or {})
        if isinstance(X, np.ndarray):
            columns = [describe(j, X[:, j], kinds.pop(j, None)) for j in range(X.shape[1])]
        else:
            columns, ids, names, left = [], [], [], []
            for name, column in frames.typed_columns(X):
                given = kind = kinds.pop(name, None)
                cells, whole = frames.cells(column), column.dtype.is_integer()
                if kind is None and whole and _like_ids(cells):
                    ids.append(name)
                kind = frames.usual_kind(column) if kind is None else kind
                columns.append(describe(name, cells, kind, frames.listed_levels(column), whole))
                if kind is None and columns[-1].kind == "id":
                    names.append(name)
                elif given is None and kind == "id" and 0 < column.null_count() < len(column):
                    left.append(name)
            if names:
                warnings.warn(
                    "Text with many different values looks like names, and stays as it is: "
                    f"{', '.join(map(repr, names))}. To fill it, give its kind as 'categorical'.",
                    UserWarning,
                    stacklevel=3,
                )
            if left:
                warnings.warn(
                    f"Dates and lists are not filled; these columns keep their gaps: {', '.join(map(repr, left))}.",
                    UserWarning,
                    stacklevel=3,
                )
            if ids:
                warnings.warn(
                    f"Whole numbers that are all different and rise look like ids: {', '.join(map(repr, ids))}. Drop "
                    "such a column, or give its kind as 'id' to leave it as it is.",
                    UserWarning,
                    stacklevel=3,
                )
        if kinds:
            raise InputError(f"kinds names {next(iter(kinds))!r}, and the table has no such column.")
        return cls(columns, not isinstance(X, np.ndarray))

    @staticmethod
    def is_frame(X: Any) -> bool:
        """Whether X is a DataFrame of some library, and can be read as one."""
        looks = hasattr(type(X), "columns") or hasattr(X, "__narwhals_dataframe__")
        return looks and find_spec("narwhals") is not None

    @property
    def mixed(self) -> bool:
        """Whether some column is not one of numbers."""
        return self.frame and any(column.levels is not None or column.kind == "id" for column in self.columns)

    def cells(self, X: Any) -> Array:
        """The cells of the columns that are used, as numbers (rows, used)."""
        if isinstance(X, np.ndarray):
            return np.column_stack([self.columns[j].numbers(X[:, j]) for j in self.used])
        typed = [column for _, column in frames.typed_columns(X)]
        cells = [self.columns[j].numbers(frames.cells(typed[j])) for j in self.used]
        for j, numbers in zip(self.used, cells):
            if np.isinf(numbers).any():
                raise InputError(f"Column {self.columns[j].name!r} holds infinity; give a number, or leave it missing.")
        if not cells:
            raise InputError("The table has no column that could be filled.")
        return np.column_stack(cells)

    def filled(self, X: Any, missing: Array, cells: Array) -> Any:
        """X with its missing cells (rows, used) taken from `cells`, all else as it was; a DataFrame keeps its types."""
        if isinstance(X, np.ndarray):
            out = np.array(X)
            for at, j in enumerate(self.used):
                gaps = missing[:, at]
                out[gaps, j] = self.columns[j].cells(cells[gaps, at])
            return out
        changes = {}
        for at, j in enumerate(self.used):
            gaps = missing[:, at]
            if gaps.any():
                changes[self.columns[j].name] = (gaps, self.columns[j].cells(cells[gaps, at]))
        return frames.replaced(X, changes)

    def with_indicators(self, filled: Any, gaps: Array, which: Array) -> Any:
        """The filled table with a column for each of `which` that says where it had gaps."""
        if isinstance(filled, np.ndarray):
            return np.hstack([filled, gaps])
        names = [f"missingindicator_{self.columns[self.used[j]].name}" for j in which]
        return frames.extended(filled, dict(zip(names, gaps.T)))


def _like_names(found: list[Any], cells: Any) -> bool:
    """Whether text with these different values has too many of them, or none of them twice."""
    seen = sum(not _missing(cell) for cell in _listed(cells))
    return len(found) > MOST_LEVELS or (len(found) == seen and seen > 2)


def _like_ids(values: Array) -> bool:
    """Whether these whole numbers rise from line to line, with none missing."""
    return bool(values.size >= FEWEST_IDS and (np.diff(values) > 0).all())
