"""The number of BLAS threads after fits that ran side by side is what it was before."""

import sys
import threading
from contextlib import contextmanager

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from lorank.linalg import blas
from lorank.linalg.blas import one_blas_thread


def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("shared", [None, True])
def test_overlapping_blocks_give_the_threads_back(shared, monkeypatch):
    if shared and not blas._is_shared():  # a library that counts for the process: told by a number of our own
        own = [2]

        @contextmanager
        def limited():
            before, own[0] = own[0], 1
            yield
            own[0] = before

        monkeypatch.setattr(blas, "_limited", limited)
        monkeypatch.setattr(blas, "_is_shared", lambda: True)
        monkeypatch.setattr(sys.modules[__name__], "threads", lambda: {own[0]})
    with threadpool_limits(2, "blas"):
        before = threads()
        entered, leave = threading.Event(), threading.Event()

        def first():
            with one_blas_thread():
                entered.set()
                leave.wait(10)

        other = threading.Thread(target=first)
        other.start()
        entered.wait(10)
        with one_blas_thread():
            assert threads() == {1}
            leave.set()
            other.join()
            assert threads() == {1}  # the first one is gone, this one is not
        assert threads() == before
