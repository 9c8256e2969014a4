"""Rows and columns by the user's names, also those that were not in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.kernels import Workers
from lorank.types import Array

if TYPE_CHECKING:
    from lorank.estimators.completion import MatrixCompletion


def positions(model: MatrixCompletion, rows: npt.ArrayLike, cols: npt.ArrayLike) -> tuple[Array, Array]:
    """Positions of pairs that the user names, one with many or as many of each; -1 for what was not in the data.

    With unseen="error" there is no -1: the error says which name is not known.
    """
    refuse = model.unseen == "error"
    m, n = model.result_.factors.shape
    left = _find(rows, model.observations_.row_ids, m, "row", refuse)
    right = _find(cols, model.observations_.col_ids, n, "column", refuse)
    if left.size != right.size and 1 not in (left.size, right.size):
        raise InputError(f"As many rows as columns are needed to predict; there are {left.size} and {right.size}.")
    left, right = (np.ascontiguousarray(side) for side in np.broadcast_arrays(left, right))
    return left, right


def predict(model: MatrixCompletion, left: Array, right: Array) -> Array:
    """Entries at positions; an unseen row (-1) has no factor and no bias, which leaves offset + the column's bias.

    Without biases nothing is left, and the answer is the mean of what was observed.
    """
    factors, workers = model.result_.factors, Workers(model.n_jobs)
    known = model.result_.summary
    new = (left < 0) | (right < 0)
    if not new.any():
        predicted = factors.predict(left, right, workers)
    else:
        predicted = factors.predict(np.maximum(left, 0), np.maximum(right, 0), workers)
        rest = known.offset if known.biased else model.mean_
        row_bias, col_bias = (
            np.where(index < 0, 0, bias[index]) for bias, index in ((known.row_bias, left), (known.col_bias, right))
        )
        predicted = np.where(new, (rest + row_bias + col_bias).astype(factors.dtype), predicted)
    workers.close()
    return predicted


def _find(names: npt.ArrayLike, ids: Any, size: int, what: str, refuse: bool) -> Array:
    if ids is not None:
        return np.asarray(ids.positions(names, what) if refuse else ids.find(names))
    index = np.atleast_1d(np.asarray(names)).ravel()
    if index.size and not np.issubdtype(index.dtype, np.integer):
        raise InputError(f"The data had no ids, so {what}s are called by position: whole numbers, not {index.dtype}.")
    outside = (index < 0) | (index >= size)
    if (outside & (refuse | (index < 0))).any():
        raise InputError(f"There is no {what} {index[outside][0]}: the matrix has {size}, from 0 to {size - 1}.")
    return np.where(outside, -1, index).astype(np.int64)
