"""A fit as its user sees it while it runs: first the search for parameters, then the iterations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from lorank.progress import ProgressBar
from lorank.solvers import Progress

# Where there is no terminal, one iteration in so many is printed.
EVERY = 10


class FitProgress:
    """Moves a progress bar as a fit goes on.

    Parameters
    ----------
    model : its `tol`, `max_iter` and `max_seconds` tell how far the fit is.
    bar : the bar to move, which its owner draws. Without it one is drawn here, and where there is no terminal a line is
        printed now and then.
    started : called once, when the first trial or iteration is done.
    samples : whether the fit draws from a posterior, so that its objective does not converge.
    """

    def __init__(
        self,
        model: Any,
        bar: ProgressBar | None = None,
        started: Callable[[], None] | None = None,
        samples: bool = False,
    ) -> None:
        self.model, self.started, self.samples = model, started, samples
        self.own = bar is None
        self.bar = ProgressBar("Fitting") if bar is None else bar
        self.began = time.monotonic()
        self.iterations = 0
        self.searched = 0.0
        self.before = self.widest = math.nan

    def trial(self, done: int, expected: int) -> None:
        """Called after each trial of the search."""
        self._start()
        share = done / expected
        if self.model.max_seconds is not None:  # of which the search may take a half
            share = max(share, (time.monotonic() - self.began) / (self.model.max_seconds / 2))
        self.searched = min(max(share, self.searched), 1.0)  # more trials may turn up; a bar does not go back
        self.bar.to(self.searched, 1.0, f"Choosing parameters, trial {done} of about {expected}")

    def __call__(self, progress: Progress) -> None:
        """Called after each iteration of the fit."""
        self._start()
        text = f"Iteration {progress.iteration}, objective {progress.objective:.5g}, rank {progress.rank}"
        if progress.validation == progress.validation:  # NaN without a validation set
            text += f", validation error {progress.validation:.5f}"
        if not self.iterations:
            self.bar.begin(text)
        self.iterations += 1
        share = self._converged(progress)
        if self.model.max_seconds is not None:
            share = max(share, progress.seconds / self.model.max_seconds)
        self.bar.to(min(max(share, progress.iteration / self.model.max_iter), 1.0), 1.0, text)
        if self.own:
            self.bar.draw()
            if progress.iteration % EVERY == 1:
                self.bar.line(f"{text}, {progress.seconds:.2f} s")

    def _converged(self, progress: Progress) -> float:
        """How far towards the tolerance: the logarithm of the objective's change falls about evenly."""
        tol, before, self.before = self.model.tol, self.before, progress.objective
        change = abs(before - progress.objective) / max(abs(before), 1e-300)
        if self.samples or not (tol > 0 and change > 0):  # draws do not converge; NaN at first
            return 0.0
        self.widest = max(change, tol) if math.isnan(self.widest) else self.widest
        return math.log(self.widest / max(change, tol)) / math.log(self.widest / tol) if self.widest > tol else 1.0

    def _start(self) -> None:
        if self.started is not None:
            self.started()
            self.started = None
