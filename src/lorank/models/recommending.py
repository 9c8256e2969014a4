"""Best columns for rows, and columns (or rows) that are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lorank.errors import InputError
from lorank.types import Array

if TYPE_CHECKING:
    from lorank.estimators.completion import MatrixCompletion

# Scores that are held at once: rows are taken in blocks of about this many entries, 32 MB in float64.
BLOCK = 1 << 22


class Ranking(NamedTuple):
    """A long table, best first for each row: columns `rows`, `cols` (ids, or positions without ids) and `scores`."""

    rows: Array
    cols: Array
    scores: Array


def recommend(
    model: MatrixCompletion,
    rows: Any = None,
    n: int = 10,
    *,
    seen: bool = False,
    advance: Callable[[int], None] | None = None,
) -> Ranking:
    """The n columns with the highest predictions for each row.

    Parameters
    ----------
    model : MatrixCompletion, fitted
    rows : ids (positions if the data had no ids); None for all rows, in their order
    n : how many for each row; fewer where not so many are left
    seen : bool
        Whether columns that were observed in a row may be recommended to it again.
    advance : called with the number of rows just done.

    Notes
    -----
    Rows are done in blocks: W_block H^T is formed, what was seen is taken out, and the n best are selected and sorted,
    in O(columns * (rank + 1)) a row and memory that does not grow with the number of rows.
    """
    check_is_fitted(model)
    if n < 1:
        raise InputError(f"n must be at least 1; got {n}.")
    observations = model.observations_
    positions = np.arange(observations.shape[0]) if rows is None else find_rows(model, rows)
    if not positions.size:
        raise InputError("Give at least one row to recommend for.")
    found, cols, scores = [], [], []
    start = 0
    for its_scores, best, there in top_columns(model, positions, n, seen, advance):
        block = positions[start : start + len(best)]
        start += len(best)
        found.append(np.repeat(block, there.sum(axis=1)))
        cols.append(best[there])
        scores.append(its_scores[there])
    names = _names(np.concatenate(found), observations.row_ids), _names(np.concatenate(cols), observations.col_ids)
    return Ranking(*names, np.concatenate(scores))


def find_rows(model: MatrixCompletion, rows: Any) -> Array:
    """Positions of rows that the user names."""
    return _positions(rows, model.observations_.row_ids, model.observations_.shape[0], "row")


def top_columns(
    model: MatrixCompletion, positions: Array, n: int, seen: bool, advance: Callable[[int], None] | None = None
) -> Iterator[tuple[Array, Array, Array]]:
    """For one block of rows after another: scores, columns (both a row's n best, best first) and which are there at
    all, for a row in which nearly everything was seen has fewer than n left."""
    if not seen and not model.observations_.nnz:
        raise InputError(
            "This model was saved without its data, so that what was seen is not known; "
            "save it with its data, or ask for seen columns too."
        )
    factors, lines = model.result_.factors, model.observations_.by_row
    columns = factors.shape[1]
    n = min(n, columns)
    # A bias of the columns is one more factor, next to a column of ones.
    H = np.column_stack([factors.H, factors.col_bias]).T
    size = max(1, BLOCK // columns)
    counts = np.diff(lines.pointers)
    for start in range(0, positions.size, size):
        block = positions[start : start + size]
        scores = np.column_stack([factors.W[block], np.ones(block.size, factors.dtype)]) @ H
        if not seen:
            repeats = counts[block]
            first = np.repeat(lines.pointers[block] - np.concatenate([[0], np.cumsum(repeats)[:-1]]), repeats)
            entries = first + np.arange(repeats.sum())
            scores[np.repeat(np.arange(block.size), repeats), lines.indices[entries]] = -np.inf
        best = np.argpartition(scores, columns - n, axis=1)[:, columns - n :]
        chosen = np.take_along_axis(scores, best, 1)
        order = np.argsort(-chosen, axis=1, kind="stable")
        best, chosen = np.take_along_axis(best, order, 1), np.take_along_axis(chosen, order, 1)
        left = np.isfinite(chosen)
        rest = factors.row_bias[block] + factors.dtype.type(factors.offset)
        yield chosen + rest[:, None], best, left
        if advance is not None:
            advance(block.size)


def similar(model: MatrixCompletion, *, col: Any = None, row: Any = None, n: int = 10) -> tuple[Array, Array]:
    """Columns that are most like a column (or rows like a row), and how much: the cosine of their factors.

    In the balanced frame, W^T W = H^T H = diag(sigma), a direction weighs sqrt(sigma) in a factor: directions that
    matter little in X matter little here.
    """
    check_is_fitted(model)
    if (row is None) == (col is None):
        raise InputError("Give either a row or a column to find its like.")
    if n < 1:
        raise InputError(f"n must be at least 1; got {n}.")
    observations = model.observations_
    if row is not None:
        factor, ids, name, what = model.result_.factors.W, observations.row_ids, row, "row"
    else:
        factor, ids, name, what = model.result_.factors.H, observations.col_ids, col, "column"
    position = int(_positions([name], ids, len(factor), what)[0])
    lengths = np.linalg.norm(factor, axis=1)
    if lengths[position] == 0:
        raise InputError(f"Nothing is known of {what} {name!r}: its factor is zero.")
    cosine = factor @ factor[position] / np.maximum(lengths * lengths[position], np.finfo(factor.dtype).tiny)
    cosine[position] = -np.inf
    n = min(n, cosine.size - 1)
    best = np.argpartition(cosine, cosine.size - n - 1)[-n:] if n else np.empty(0, np.int64)
    best = best[np.argsort(-cosine[best], kind="stable")]
    return _names(best, ids), cosine[best]


def _positions(names: Any, ids: Any, size: int, what: str) -> Array:
    if ids is not None:
        return np.asarray(ids.positions(names, what))
    index = np.atleast_1d(np.asarray(names))
    if index.dtype.kind not in "iu" or (index < 0).any() or (index >= size).any():
        raise InputError(f"The data had no ids: {what}s are called by position, from 0 to {size - 1}.")
    return index


def _names(positions: Array, ids: Any) -> Array:
    return positions if ids is None else np.asarray(ids.values[positions])
