"""Weights of entries: one of weight c counts as if it were there c times; one of weight 0 is not observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lorank.errors import InputError, one_line
from lorank.observations.checks import refuse_mask
from lorank.observations.sparse import as_format
from lorank.types import Array


def checked_weights(weights: npt.ArrayLike | None, values: Array) -> Array | None:
    """Weights in the type of the values, one for each; None if all are 1."""
    if weights is None:
        return None
    refuse_mask(weights, "weights")
    try:
        array = np.asarray(weights, np.float64).ravel()
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"Weights must be numbers: {one_line(error)}.") from None
    if array.size != values.size:
        raise InputError(f"Every value needs a weight; there are {values.size} values and {array.size} weights.")
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        raise InputError(f"Weights must be finite numbers >= 0; there is {array[wrong][0]:g}.")
    return None if (array == 1).all() else array.astype(values.dtype)


def weights_of_entries(weights: Any, entries: sp.coo_array) -> Array:
    """The values of a sparse matrix of weights, in the order of the entries of another, which must store the same."""
    weights = as_format(weights, "coo")
    orders = [np.lexsort((matrix.col, matrix.row)) for matrix in (entries, weights)]
    its, their = ((matrix.row[order], matrix.col[order]) for matrix, order in zip((entries, weights), orders))
    if entries.shape != weights.shape or not np.array_equal(its, their):
        raise InputError("The matrix of weights must store the same entries as the data.")
    found = np.empty(entries.nnz)
    found[orders[0]] = weights.data[orders[1]]
    return found
