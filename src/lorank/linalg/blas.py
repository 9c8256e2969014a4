"""BLAS on one thread: factors are thin, and threads of BLAS cost many times what they bring there.

The threads belong to the kernels, and a result must not depend on how many there are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _threadpools() -> ThreadpoolController:
    # Looking up the loaded BLAS libraries takes milliseconds, as long as a small fit: once per process is enough.
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """A context in which BLAS runs on one thread."""
    return _threadpools().limit(limits=1, user_api="blas")
