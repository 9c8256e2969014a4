"""A fit as its user sees it while it runs: first the search for parameters, then the iterations."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lorank.cli.terminal import Bar, say

if TYPE_CHECKING:
    from lorank.estimators import MatrixCompletion
    from lorank.solvers import Progress


class Following:
    """Moves a bar, and says so if the fit goes on from a checkpoint, once that is accepted."""

    def __init__(self, bar: Bar, model: MatrixCompletion, resumed: Path | None) -> None:
        from lorank import registry

        self.bar, self.model, self.resumed = bar, model, resumed
        self.samples = registry.find(model.method).samples
        self.started = time.monotonic()
        self.iterations = 0
        self.before = self.widest = math.nan

    def trial(self, done: int, expected: int) -> None:
        """Called after each trial of the search."""
        self._say_once()
        share = done / expected
        if self.model.max_seconds is not None:  # of which the search may take a half
            share = max(share, (time.monotonic() - self.started) / (self.model.max_seconds / 2))
        self.bar.to(min(share, 1.0), 1.0, f"Choosing parameters, trial {done} of about {expected}")

    def iteration(self, progress: Progress) -> None:
        """Called after each iteration of the fit."""
        self._say_once()
        text = f"Iteration {progress.iteration}, objective {progress.objective:.5g}"
        if not self.iterations:
            self.bar.begin(text)
        self.iterations += 1
        share = self._converged(progress)
        if self.model.max_seconds is not None:
            share = max(share, progress.seconds / self.model.max_seconds)
        self.bar.to(min(max(share, progress.iteration / self.model.max_iter), 1.0), 1.0, text)

    def _converged(self, progress: Progress) -> float:
        """How far towards the tolerance: the logarithm of the objective's change falls about evenly."""
        tol, before, self.before = self.model.tol, self.before, progress.objective
        change = abs(before - progress.objective) / max(abs(before), 1e-300)
        if self.samples or not (tol > 0 and change > 0):  # draws do not converge; NaN at first
            return 0.0
        self.widest = max(change, tol) if math.isnan(self.widest) else self.widest
        return math.log(self.widest / max(change, tol)) / math.log(self.widest / tol) if self.widest > tol else 1.0

    def _say_once(self) -> None:
        if self.resumed is not None:
            say(f"Going on from {self.resumed}.")
            self.resumed = None
