"""What every array must be before compiled code sees it: one place, so that no kernel has to distrust its input.

Kernels index memory without looking: an array of two dimensions, a byte order that is not the machine's, a position out
of bounds or a pointer that goes back would read or write what is not theirs.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank import kernels
from lorank.errors import InputError, one_line
from lorank.memory import check_memory
from lorank.types import Array

# Rows and columns together of which it is looked whether there is room for them.
LARGE = 1 << 20


def index_type(shape: tuple[int, ...]) -> type[np.signedinteger[Any]]:
    """The smallest type of index for a matrix of this shape."""
    return np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64


def unmasked(array: Any) -> Array:
    """An array in which what a mask hides is NaN; numbers become floats for that."""
    if isinstance(array, (list, tuple)) and any(isinstance(part, np.ma.MaskedArray) for part in array):
        array = np.ma.stack(array)
    if isinstance(array, np.ma.MaskedArray):
        if not np.ma.is_masked(array):
            return np.asarray(array.data)
        floats: Any = array.astype(np.result_type(array.dtype, np.float32))
        return np.asarray(floats.filled(np.nan))
    return rectangular(array)


def rectangular(array: Any) -> Array:
    """An array of whatever can be one: not of lists of different lengths."""
    try:
        return np.asarray(array)
    except (ValueError, TypeError) as error:
        raise InputError(f"This is no array: {one_line(error)}.") from None


def refuse_mask(names: Any, what: str) -> None:
    """Refuse ids or positions of which some are masked: there is no telling where their values belong."""
    if np.ma.is_masked(names):
        raise InputError(f"Some {what} are masked; drop those entries, or fill them.")


def same_shape(arrays: Sequence[Array]) -> list[Array]:
    """Triplets in one dimension. (n, 1) and (1, n) are n values; other arrays must all have the same shape."""
    if len({array.size for array in arrays}) > 1:
        sizes = ", ".join(str(array.size) for array in arrays[:-1])
        raise InputError(f"Triplets need one row, column and value each; there are {sizes} and {arrays[-1].size}.")
    flat = [array.ndim == 1 or max(array.shape, default=1) == array.size for array in arrays]
    if not all(flat) and len({array.shape for array in arrays}) > 1:
        shapes = ", ".join(" x ".join(map(str, array.shape)) for array in arrays)
        raise InputError(f"Rows, columns and values of a table have different shapes: {shapes}.")
    return [array.ravel() for array in arrays]


def positions(index: npt.ArrayLike, what: str) -> Array:
    """Positions as int32 or int64 of this machine; what is no whole number is refused."""
    refuse_mask(index, f"{what} positions")
    array = rectangular(index)
    if array.size == 0:
        return array.astype(np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(
            f"{what.capitalize()} positions must be integers, not {array.dtype}; use Observations.from_ids for ids."
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"{what.capitalize()} position {array.max()} is too large for any matrix.")
    return np.ascontiguousarray(array, np.int32 if array.dtype.newbyteorder("=") == np.int32 else np.int64)


def check_bounds(index: Array, size: int, what: str) -> None:
    """Refuse positions outside 0..size - 1."""
    if index.size and (index.min() < 0 or index.max() >= size):
        wrong = index.min() if index.min() < 0 else index.max()
        raise InputError(f"{what.capitalize()} index {wrong} is outside 0..{max(size - 1, 0)}.")


def numbers(values: Any) -> Array:
    """Values as contiguous float32 or float64 of this machine, NaN where masked; text and complex ones are refused."""
    array = unmasked(values)
    if np.issubdtype(array.dtype, np.complexfloating):
        raise InputError("Complex data not supported: take the real part, or fit real and imaginary parts apart.")
    if array.dtype.kind in "US" or array.dtype.kind == "O":
        try:
            if array.dtype.kind != "O":
                raise ValueError(f"{array.flat[0]!r} is text")
            return np.ascontiguousarray(array.astype(np.float64))
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(f"Values must be numbers: {one_line(error)}.") from None
    if array.dtype.kind not in "iufb":
        raise InputError(f"Values must be numbers, not {array.dtype}.")
    kind = np.float32 if array.dtype.newbyteorder("=") == np.float32 else np.float64
    with np.errstate(over="ignore"):  # a long double beyond float64 is infinite then, and refused as such
        # A scalar stays one: ascontiguousarray alone would give it a dimension.
        return np.ascontiguousarray(array, kind).reshape(array.shape)


def two_numbers(shape: Any) -> tuple[int, int]:
    """A shape as two whole numbers."""
    try:
        rows, cols = (operator.index(side) for side in shape)
    except (TypeError, ValueError):
        raise InputError("The shape must be two whole numbers, of rows and of columns.") from None
    return rows, cols


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse a matrix without rows or columns, and one of so many that not even a pointer for each fits into memory."""
    if min(shape) < 1:
        raise InputError(f"The matrix is empty: its shape is {shape[0]} x {shape[1]}.")
    if sum(shape) > LARGE:
        check_memory(
            16 * sum(shape), f"A matrix of {shape[0]} x {shape[1]}", "number rows and columns from 0 on without gaps"
        )


def check_finite(values: Array) -> None:
    """Refuse infinity."""
    if not np.isfinite(values).all():
        raise InputError("The data holds infinity; replace it by a number, or by NaN where the value is unknown.")


# The largest magnitude of the data must be within these bounds, so that squares and their sums neither overflow nor
# vanish.
LARGEST = {np.dtype(np.float32): 1e16, np.dtype(np.float64): 1e140}
SMALLEST = {np.dtype(np.float32): 1e-16, np.dtype(np.float64): 1e-140}


def extremity(size: float, dtype: np.dtype[Any]) -> str | None:
    """What is wrong with data whose largest magnitude is this, if it cannot be computed with."""
    if size == 0 or SMALLEST[dtype] <= size <= LARGEST[dtype]:
        return None
    fault, effect = ("small", "vanish") if size < 1 else ("large", "overflow")
    return f"is too {fault}: squares and their sums would {effect} in {dtype}; scale the data."


def extreme(values: Array) -> int:
    """The position of a value that is too large or too small to be computed with; -1 if there is none."""
    if not values.size:
        return -1
    low, high = float(values.min()), float(values.max())
    top = max(high, -low)
    if extremity(top, values.dtype) is None:
        return -1
    return int(values.argmax() if high == top else values.argmin())


def check_lines(
    pointers: Array, indices: Array, values: Array, shape: tuple[int, int], weights: Array | None = None
) -> None:
    """Refuse compressed lines that are not the rows of a matrix of this shape, with their columns ascending."""
    for array, kinds, what in (
        (pointers, (np.int64,), "pointers"),
        (indices, (np.int32, np.int64), "indices"),
        (values, (np.float32, np.float64), "values"),
        (values if weights is None else weights, (values.dtype,), "weights"),
    ):
        if array.ndim != 1 or array.dtype not in kinds or not array.dtype.isnative or not array.flags.c_contiguous:
            needed = " or ".join(np.dtype(kind).name for kind in kinds)
            raise InputError(
                f"The {what} of lines are one contiguous array of {needed}, one after the other; "
                f"got {array.dtype} with {array.ndim} dimensions."
            )
    if pointers.size != shape[0] + 1 or indices.size != values.size:
        raise InputError(
            f"{shape[0]} lines need {shape[0] + 1} pointers and as many indices as values; there are {pointers.size}, "
            f"{indices.size} and {values.size}."
        )
    if weights is not None and weights.size != values.size:
        raise InputError(f"Every value needs a weight; there are {values.size} values and {weights.size} weights.")
    wrong = kernels.first_wrong_line(pointers, indices, shape[1])
    if wrong >= 0:
        raise InputError(
            f"Line {wrong} of the entries is damaged: its pointers go back or beyond the entries, or its indices do "
            f"not ascend from 0 to {shape[1] - 1}."
        )
