"""BLAS on one thread: factors are thin, and threads of BLAS cost many times what they bring there.

The threads belong to the kernels, and a result must not depend on how many there are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# How many blocks are inside `one_blas_thread`, in all threads, and the numbers of threads before the first of them.
_inside = 0
_before: list[int] = []
_guard = threading.Lock()
# How many of them this thread is inside.
_own = threading.local()


@cache
def _libraries() -> list[Any]:
    # Looking up the loaded BLAS libraries takes milliseconds, as long as a small fit: once per process is enough.
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _numbers() -> list[int]:
    return [library.num_threads for library in _libraries()]


def _set(numbers: list[int]) -> None:
    for library, number in zip(_libraries(), numbers):
        library.set_num_threads(number)


@cache
def _shared() -> list[bool]:
    """Which libraries have one number of threads for the whole process; others have one for each thread.

    Found out by asking: even two builds of the same library differ. A thread that has never set its number may have
    that of the process, so that this one sets it first.
    """
    before, other = _numbers(), [number + 1 for number in _numbers()]
    _set(before)
    thread = threading.Thread(target=_set, args=(other,))
    thread.start()
    thread.join()
    found = _numbers()
    _set(before)
    return [now != then for now, then in zip(found, before)]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS runs on one thread.

    Where the number of threads is one of the whole process, the last block that is left sets it back to what it was
    before the first, whatever the order of fits that run side by side.
    """
    global _inside, _before
    with _guard:
        shared, numbers = _shared(), _numbers()
        _before = _before if _inside else numbers
        _inside += 1
        _own.depth = getattr(_own, "depth", 0) + 1
        one = [1] * len(numbers)
        _set(one)
    try:
        yield
    finally:
        with _guard:
            _inside -= 1
            _own.depth -= 1
            of_process, of_thread = one if _inside else _before, one if _own.depth else _before
            _set([first if common else mine for common, first, mine in zip(shared, of_process, of_thread)])
