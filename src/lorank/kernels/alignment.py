"""Arrays that begin at a cache line, as no vector of which then lies across two: numpy's begin 16 bytes behind one."""

from typing import Any

import numpy as np

CACHE_LINE = 64


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros that begin at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + CACHE_LINE, np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + size].view(dtype).reshape(shape)
