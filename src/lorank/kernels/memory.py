"""Memory as the kernels want it: arrays that begin at a cache line, and shared ones without a read-only mark."""

import math
from typing import Any

import numpy as np

from lorank.types import Array

CACHE_LINE = 64


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros that begin at a cache line, so that no vector lies across two; numpy's begin 16 bytes behind one."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + CACHE_LINE, np.uint8)
    first = -memory.__array_interface__["data"][0] % CACHE_LINE
    return memory[first : first + size].view(dtype).reshape(shape)


class _Unlocked:
    """A pointer to another array's data, for numpy to wrap; it keeps that array alive."""

    def __init__(self, array: Array) -> None:
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def unlocked(array: Array) -> Array:
    """The same memory without the read-only mark.

    The kernels write to no input; numba would compile each of them anew for read-only arrays, which is what shared and
    mapped memory looks like.
    """
    return array if array.flags.writeable or not array.size else np.asarray(_Unlocked(array))
