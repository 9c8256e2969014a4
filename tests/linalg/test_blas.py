"""The number of BLAS threads after fits that ran side by side is what it was before."""

import threading

from threadpoolctl import threadpool_info, threadpool_limits

from lorank.linalg.blas import one_blas_thread


def threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_overlapping_blocks_give_the_threads_back():
    with threadpool_limits(2, "blas"):
        before, of_other = threads(), []
        entered, leave = threading.Event(), threading.Event()

        def first():
            of_other.append(threads())
            with one_blas_thread():
                entered.set()
                leave.wait(10)
                of_other.append(threads())

        other = threading.Thread(target=first)
        other.start()
        entered.wait(10)
        with one_blas_thread(), one_blas_thread():
            assert set(threads()) == {1}
            leave.set()
            other.join()
            assert set(threads()) == {1}  # the first one is gone, this one is not
        assert set(of_other[1]) == {1}
        assert threads() == before


def test_the_last_to_leave_gives_the_threads_back():
    with threadpool_limits(2, "blas"):
        before = threads()
        entered, leave = threading.Event(), threading.Event()

        def last():
            with one_blas_thread():
                entered.set()
                leave.wait(10)

        other = threading.Thread(target=last)
        with one_blas_thread():
            other.start()
            entered.wait(10)
        leave.set()
        other.join()
        assert threads() == before
