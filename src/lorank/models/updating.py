"""A model that takes in more: entries of its rows and columns, and rows and columns that it does not have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.models.contents import Contents
from lorank.models.intervals import Calibration
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers
from lorank.types import Array


@dataclass(frozen=True)
class Grown:
    """What a fit goes on from: all entries, factors with a line for each row and column, and the calibration."""

    observations: Observations
    start: Factors
    calibration: Calibration | None


def grown(model: Contents, newer: Observations) -> Grown:
    """A model's entries and factors beside further entries, which replace its own where both have one.

    Rows and columns that are new come after the model's own, by id, or by position where there are no ids. They start
    at zero, from which the first sweep takes them, and their intervals are those of a line without entries.
    """
    older = model.observations
    if older is None:
        raise InputError("This model was saved without its data, so that more cannot be added to it; fit it again.")
    sides = [
        _joined(old, new, size, other, what)
        for old, new, size, other, what in zip(
            (older.row_ids, older.col_ids), (newer.row_ids, newer.col_ids), older.shape, newer.shape, ("row", "column")
        )
    ]
    shape = sides[0][2], sides[1][2]
    for axis, side in enumerate(("row_side", "col_side")):
        if shape[axis] > older.shape[axis] and model.params.get(side) is not None:
            raise InputError(
                f"There are new {('rows', 'columns')[axis]}, and {side} has nothing about them; "
                "fit all of them again with theirs."
            )
    ids = sides[0][0], sides[1][0]
    placed = Observations.from_coo(
        sides[0][1][newer.rows], sides[1][1][newer.cols], newer.values, shape, *ids, newer.weights
    )
    whole = Observations.from_coo(older.rows, older.cols, older.values, shape, *ids, older.weights)
    summary, calibration = model.result.summary, model.calibration
    start = replace(summary, left=_lengthened(summary.left, shape[0]), right=_lengthened(summary.right, shape[1]))
    if calibration is not None:
        scales = [
            np.concatenate([own[:-1], np.full(size - (own.size - 1), own[-1]), own[-1:]])
            for own, size in zip((calibration.row_scale, calibration.col_scale), shape)
        ]
        calibration = replace(calibration, row_scale=scales[0], col_scale=scales[1])
    return Grown(updated(whole, placed), start, calibration)


def _joined(
    old: Identifiers | None, new: Identifiers | None, size: int, other: int, what: str
) -> tuple[Identifiers | None, Array, int]:
    """Ids of the old and the new lines together, the position of each new line among them, and how many there are."""
    if old is None or new is None:
        if (old is None) != (new is None) and other != size:
            raise InputError(f"The model and the new entries must both have {what} ids, or neither.")
        return old, np.arange(other), max(size, other)
    found = old.find(new.values)
    unknown = found < 0
    found = found.copy()
    found[unknown] = size + np.arange(np.count_nonzero(unknown))
    if not unknown.any():
        return old, found, size
    values, added = old.values, new.values[unknown]
    if values.dtype.kind != added.dtype.kind:  # text beside numbers: each stays what it is
        values, added = values.astype(object), added.astype(object)
    return Identifiers(np.concatenate([values, added])), found, size + int(np.count_nonzero(unknown))


def grown_names(model: Contents, shape: tuple[int, int]) -> dict[str, Any]:
    """The names of a model's table and its titles, for a model that has grown to this shape; new lines have none."""
    titles = [
        {name: np.concatenate([texts, np.full(size - len(texts), "", object)]) for name, texts in own.items()}
        for own, size in zip((model.row_titles, model.col_titles), shape)
    ]
    return {"columns": model.columns, "row_titles": titles[0], "col_titles": titles[1]}


def _lengthened(padded: Array, lines: int) -> Array:
    if lines == len(padded):
        return padded
    out = np.zeros((lines, padded.shape[1]), padded.dtype)
    out[: len(padded)] = padded
    return out


def updated(older: Observations, newer: Observations) -> Observations:
    """Both observations of one matrix together; where both have an entry, the newer value."""
    n = older.shape[1]
    cells, replaced = (part.rows.astype(np.int64) * n + part.cols for part in (older, newer))
    kept = older.subset(~np.isin(cells, replaced))
    rows, cols = np.concatenate([kept.rows, newer.rows]), np.concatenate([kept.cols, newer.cols])
    values = np.concatenate([kept.values, newer.values.astype(older.dtype)])
    weights = None
    if kept.weights is not None or newer.weights is not None:
        ones = (np.ones(part.nnz) if part.weights is None else part.weights for part in (kept, newer))
        weights = np.concatenate(list(ones))
    return Observations.from_coo(rows, cols, values, older.shape, older.row_ids, older.col_ids, weights)
