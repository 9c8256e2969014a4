"""What every sparse matrix must be before SciPy sees it: its compiled code follows a structure wherever it leads.

SciPy checks a matrix when it is made, and in part; whoever then sets an attribute, or reads one from a file, can have
positions outside of it, pointers that go back, or fewer values than positions. To turn such a matrix into another
format reads and writes memory that is not its own.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from lorank.errors import InputError, one_line
from lorank.observations.checks import check_shape
from lorank.types import Array

# SciPy counts with numbers of this type wherever they suffice for the shape.
LARGEST = np.iinfo(np.int32).max


def check_sparse(matrix: Any) -> None:
    """Refuse a scipy matrix whose structure is wrong, or that holds no numbers.

    Also one of a shape that scipy could not hold in the formats that it goes through: diagonals become lines first.
    """
    known: bool = sp.issparse(matrix)
    if not known:
        raise InputError(f"A sparse matrix of scipy is needed, not {type(matrix).__name__}; from_dense takes arrays.")
    if len(matrix.shape) != 2:
        raise InputError(f"A matrix needs two dimensions; this sparse array has {len(matrix.shape)}.")
    check_shape(matrix.shape)
    try:
        sound = {"coo": _sound_triplets, "dia": _sound_diagonals, "lil": _sound_lists, "dok": _sound_keys}.get(
            matrix.format, _sound_lines
        )(matrix)
        kind = matrix.dtype.kind
    except (ValueError, TypeError, AttributeError, ZeroDivisionError):  # what should be an array is something else
        sound, kind = False, "f"
    if not sound:
        raise InputError("The sparse matrix is damaged: its pointers or indices lead outside of it; make it again.")
    if kind not in "biufc":
        raise InputError(f"Values must be numbers: this sparse matrix holds {matrix.dtype}.")


def as_format(matrix: Any, wanted: str) -> Any:
    """A sparse array in this format, checked before and whatever SciPy says to it."""
    check_sparse(matrix)
    try:
        triplets: Any = sp.coo_array(matrix)
        return triplets.asformat(wanted)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"SciPy cannot read this sparse matrix ({one_line(error)}); make it again.") from None


def _within(positions: Any, size: int) -> bool:
    """Whether these are whole numbers from 0 to size - 1, in one dimension."""
    array = np.asarray(positions)
    if array.size == 0 or array.ndim != 1 or array.dtype.kind != "i":
        return array.size == 0
    return bool(array.min() >= 0 and array.max() < size)


def _sound_lines(matrix: Any) -> bool:
    """csr, csc and bsr: pointers that start at 0 and never go back, to as many indices and values as there are."""
    blocks = matrix.blocksize if matrix.format == "bsr" else (1, 1)
    lines, width = (side // block for side, block in zip(matrix.shape, blocks))
    if matrix.format == "csc":
        lines, width = width, lines
    pointers: Array = np.asarray(matrix.indptr)
    return (
        matrix.data.ndim == (3 if matrix.format == "bsr" else 1)
        and _within(matrix.indices, width)
        and _within(pointers, min(len(matrix.indices), len(matrix.data)) + 1)
        and pointers.size == lines + 1
        and pointers[0] == 0
        and not (pointers[1:] < pointers[:-1]).any()
    )


def _sound_triplets(matrix: Any) -> bool:
    """coo: a row, a column and a value each."""
    return matrix.data.ndim == 1 and all(
        _within(own, size) and len(own) == matrix.data.size for own, size in zip((matrix.row, matrix.col), matrix.shape)
    )


def _sound_diagonals(matrix: Any) -> bool:
    """dia: an offset for each line of values, which may be outside of the matrix, none twice."""
    offsets: Array = np.asarray(matrix.offsets)
    return (
        matrix.data.ndim == 2
        and _within(np.abs(offsets), max(LARGEST, *matrix.shape))
        and len(offsets) == len(matrix.data)
        and len(np.unique(offsets)) == len(offsets)
    )


def _sound_lists(matrix: Any) -> bool:
    """lil: in each row as many columns as values."""
    rows, data = matrix.rows, matrix.data
    sizes = [len(own) for own in rows]
    columns = list(chain.from_iterable(rows))
    return len(sizes) == matrix.shape[0] and sizes == [len(own) for own in data] and _within(columns, matrix.shape[1])


def _sound_keys(matrix: Any) -> bool:
    """dok: a row and a column as the key of each value."""
    keys = np.array(list(matrix.keys())).reshape(-1, 2)
    return all(_within(own, size) for own, size in zip(keys.T, matrix.shape))
