"""Counts for monitoring, in the text format of Prometheus, summed over all worker processes.

Every worker has a line of numbers of its own in one memory-mapped file; whoever is asked adds up all lines. A worker
that dies leaves its counts behind, and the one that takes its place goes on from a new line.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

PATHS = ("predict", "recommend", "similar", "fold-in", "health", "page", "other")
STATUSES = (2, 4, 5)
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# Lines in the file: workers that may ever be started; then they share the last one.
LINES = 256
_COUNTS = len(PATHS) * len(STATUSES)
_TIMES = len(PATHS) * (len(BUCKETS) + 1)
# Requests by path and status, times by path and bucket, sums of seconds by path, swaps, failed swaps, answered rows.
WIDTH = _COUNTS + _TIMES + len(PATHS) + 3


class Metrics:
    """The counts of one worker, beside those of the others.

    Parameters
    ----------
    path : file that the workers share; None for a single one.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            self._all = np.zeros((1, WIDTH))
            self._own = self._all[0]
            return
        size = 8 * LINES * WIDTH
        with open(path, "ab") as file:  # made by whoever comes first; zeros
            if file.tell() < size:
                os.truncate(path, size)
        self._all = np.memmap(path, np.float64, "r+", shape=(LINES, WIDTH))
        # A line belongs to whoever can make the file that goes with it.
        for line in range(LINES):
            try:
                os.close(os.open(f"{path}.{line}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                break
            except FileExistsError:
                continue
        self._own = self._all[line]

    def request(self, path: str, status: int, seconds: float) -> None:
        """One request was answered."""
        at = PATHS.index(path if path in PATHS else "other")
        self._own[at * len(STATUSES) + _status(status)] += 1
        bucket = int(np.searchsorted(BUCKETS, seconds))
        self._own[_COUNTS + at * (len(BUCKETS) + 1) + bucket] += 1
        self._own[_COUNTS + _TIMES + at] += seconds

    def swap(self, worked: bool) -> None:
        """Another model took the place of the last one, or could not be read."""
        self._own[-3 if worked else -2] += 1

    def rows(self, count: int) -> None:
        """So many rows, columns or pairs were answered."""
        self._own[-1] += count

    def text(self) -> str:
        """All counts, summed, in the text format of Prometheus."""
        total = self._all.sum(axis=0)
        lines = ["# TYPE lorank_requests_total counter"]
        counts = total[:_COUNTS].reshape(len(PATHS), len(STATUSES))
        times = total[_COUNTS : _COUNTS + _TIMES].reshape(len(PATHS), -1)
        for path, own in zip(PATHS, counts):
            lines += [
                f'lorank_requests_total{{path="{path}",status="{status}xx"}} {count:.0f}'
                for status, count in zip(STATUSES, own)
            ]
        lines.append("# TYPE lorank_request_seconds histogram")
        for path, own, seconds in zip(PATHS, times, total[_COUNTS + _TIMES :]):
            below = np.cumsum(own)
            for bound, count in zip((*BUCKETS, "+Inf"), below):
                lines.append(f'lorank_request_seconds_bucket{{path="{path}",le="{bound}"}} {count:.0f}')
            lines.append(f'lorank_request_seconds_sum{{path="{path}"}} {seconds:.6f}')
            lines.append(f'lorank_request_seconds_count{{path="{path}"}} {below[-1]:.0f}')
        for name, count in zip(("model_swaps", "failed_model_swaps", "answered_rows"), total[-3:]):
            lines += [f"# TYPE lorank_{name}_total counter", f"lorank_{name}_total {count:.0f}"]
        return "\n".join(lines) + "\n"


def _status(status: int) -> int:
    return STATUSES.index(5 if status >= 500 else 4 if status >= 400 else 2)
