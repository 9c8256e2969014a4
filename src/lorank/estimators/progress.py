"""One line on standard error that tells how a fit goes."""

from __future__ import annotations

import sys

from lorank.solvers import Progress


class ProgressLine:
    """Rewrites its line on a terminal; elsewhere it prints one line in every ten iterations."""

    def __init__(self, max_iter: int) -> None:
        self.max_iter = max_iter

    def __call__(self, progress: Progress) -> None:
        text = (
            f"iteration {progress.iteration}  {progress.seconds:.2f} s  objective {progress.objective:.6g}  "
            f"rank {progress.rank}"
        )
        if progress.validation == progress.validation:  # NaN without a validation set
            text += f"  validation error {progress.validation:.5f}"
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
        elif progress.iteration % 10 == 1:
            print(text, file=sys.stderr)
