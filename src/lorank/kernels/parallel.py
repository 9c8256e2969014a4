"""Threads for the kernels. Kernels release the interpreter's lock, so plain threads run them side by side."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

# Below this many multiply-adds a second thread costs more than it brings.
WORTH_A_THREAD = 2_000_000
# Chunks per thread: enough that a slow chunk does not leave the others waiting.
CHUNKS = 4
# Threads at most, whoever asks for more: a model file, for one.
MOST = 1024


def available_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can tell
        return os.cpu_count() or 1


class Workers:
    """A pool of threads, started when there is work for them.

    n_jobs: None for all cores, a positive number, or a negative one counted from the cores as in joblib.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        cores = available_cores()
        self.threads = cores if n_jobs is None else min(MOST, max(1, n_jobs if n_jobs > 0 else cores + 1 + n_jobs))
        self._pool: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """End the threads; a later run starts them anew."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def run(
        self, kernel: Any, pointers: Any, *args: Any, work_per_entry: float = 1.0, work_per_line: float = 1.0
    ) -> None:
        """Call kernel(*args, lo, hi) until all lines are done; chunks hold equal shares of the work."""
        lines = pointers.size - 1
        work = work_per_entry * float(pointers[-1]) + work_per_line * lines
        if self.threads == 1 or work < WORTH_A_THREAD:
            kernel(*args, 0, lines)
            return
        done = pointers * work_per_entry + np.arange(lines + 1) * work_per_line
        shares = np.linspace(0, work, self.threads * CHUNKS + 1)[1:-1]
        self._run_chunks(kernel, np.searchsorted(done, shares), lines, args)

    def run_evenly(self, kernel: Any, count: int, *args: Any, work_per_line: float = 1.0) -> None:
        """The same for lines that all cost alike."""
        if self.threads == 1 or work_per_line * count < WORTH_A_THREAD:
            kernel(*args, 0, count)
            return
        self._run_chunks(kernel, np.linspace(0, count, self.threads * CHUNKS + 1)[1:-1], count, args)

    def _run_chunks(self, kernel, inner, lines, args):
        cuts = np.unique(np.concatenate([[0], inner, [lines]]).astype(np.int64)).tolist()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lorank")
        for future in [self._pool.submit(kernel, *args, lo, hi) for lo, hi in pairwise(cuts)]:
            future.result()
