"""BLAS on one thread: factors are thin, and threads of BLAS cost many times what they bring there.

The threads belong to the kernels, and a result must not depend on how many there are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# How many blocks are inside `one_blas_thread`, in all threads, and what the last one to leave undoes.
_inside = 0
_undo = ExitStack()
_guard = threading.Lock()


@cache
def _threadpools() -> ThreadpoolController:
    # Looking up the loaded BLAS libraries takes milliseconds, as long as a small fit: once per process is enough.
    return ThreadpoolController()


def _limited() -> Any:
    return _threadpools().limit(limits=1, user_api="blas")


@cache
def _is_shared() -> bool:
    """Whether the number of BLAS threads is one of the whole process, and not of each thread: libraries differ."""

    def numbers() -> list[int]:
        return [pool.num_threads for pool in _threadpools().select(user_api="blas").lib_controllers]

    before, found = numbers(), []

    def look() -> None:
        with _limited():
            reached.set()
            leave.wait(10)

    reached, leave = threading.Event(), threading.Event()
    other = threading.Thread(target=look)
    other.start()
    reached.wait(10)
    found = numbers()
    leave.set()
    other.join()
    return found != before


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS runs on one thread.

    Where the number of threads is one of the whole process, the first block that is entered sets it, and the last one
    that is left sets it back, whatever the order of fits that run side by side.
    """
    global _inside
    with _guard:
        shared = _is_shared()
        if shared:
            if not _inside:
                _undo.enter_context(_limited())
            _inside += 1
    try:
        with nullcontext() if shared else _limited():
            yield
    finally:
        if shared:
            with _guard:
                _inside -= 1
                if not _inside:
                    _undo.pop_all().close()
