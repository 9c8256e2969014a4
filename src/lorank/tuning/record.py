"""The trials of a search: told as they are done, and on disk, so that a search that was cut off goes on.

For the same data and seed a search is the same sequence of trials, so it is resumed by walking it again: a trial that
the checkpoint knows is not fitted but answered from there. Factors are kept of those trials only that the search still
holds when it is cut off, for it can start from no others.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lorank.linalg import Factors
from lorank.solvers import Checkpoint, History, Result, Status
from lorank.tuning.setting import Setting
from lorank.tuning.trials import Trial

# A change of the held-out error by less than this part of it is no change.
SETTLED = 2e-4

# Stands for factors that no later trial starts from.
NOT_KEPT = Factors.of(np.empty((0, 0)), np.empty((0, 0)))

# Told how many trials are done, and how many there will be, as far as one can say.
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Point:
    """A setting, its error on the held-out part, and the fit that had it."""

    setting: Setting
    error: float
    result: Result

    def beats(self, other: Point) -> bool:
        return self.error < (1 - SETTLED) * other.error


class Record:
    """All trials so far.

    Parameters
    ----------
    checkpoint : Checkpoint, optional
        Trials are kept there.
    tell : function of (done, expected), optional
        Called after each trial.
    stages : mapping
        The stages of the search in order, and how many trials each is likely to take.
    """

    def __init__(self, checkpoint: Checkpoint | None, tell: Tell | None, stages: Mapping[str, int]) -> None:
        self.trials: list[Trial] = []
        self._checkpoint, self._tell, self._stages = checkpoint, tell, dict(stages)
        self._ahead = self._later = 0
        self._points: list[weakref.ref[Point]] = []
        self._known: list[Trial] = []
        if checkpoint is not None and checkpoint.recall():
            self._known = [Trial(*row) for row in checkpoint.carried.get("trials", ())]

    def begin(self, stage: str) -> None:
        """The trials that come next are of this stage."""
        names = list(self._stages)
        self._later = sum(self._stages[name] for name in names[names.index(stage) + 1 :])
        self._ahead = self._later + self._stages[stage]

    def known(self, setting: Setting) -> tuple[Trial, Point] | None:
        """The next trial, if the checkpoint has it."""
        index = len(self.trials)
        if self._checkpoint is None or index >= len(self._known) or self._known[index].setting != setting:
            return None
        trial = self._known[index]
        return trial, Point(setting, trial.error, _result(self._checkpoint, index, trial))

    def add(self, trial: Trial, point: Point) -> Point:
        """A trial is done."""
        self.trials.append(trial)
        self._points.append(weakref.ref(point))
        self._ahead = max(self._ahead - 1, self._later)
        if self._tell is not None:
            self._tell(len(self.trials), len(self.trials) + self._ahead)
        if self._checkpoint is not None and self._checkpoint.due:
            self.save()
        return point

    def save(self) -> None:
        """Put on disk what it takes to go on."""
        # While trials are answered from the checkpoint, it holds more than this record.
        if self._checkpoint is not None and len(self.trials) >= len(self._known):
            self._carry(self._checkpoint, [ref() for ref in self._points])
            self._checkpoint.save_carried()

    def cut_off(self) -> None:
        """The trial that runs is interrupted: save those before it, and no more."""
        self.save()
        self._checkpoint = None

    def settle(self, best: Point) -> None:
        """The search is over; its outcome is saved now, and with every state of the fit that follows."""
        if self._checkpoint is not None:
            self._carry(self._checkpoint, [best if ref() is best else None for ref in self._points])
            self._checkpoint.carried["settled"] = True
            self._checkpoint.save_carried()

    def settled(self) -> Point | None:
        """The outcome of the search, if the checkpoint has it; its trials are then those of this record."""
        if self._checkpoint is None or "settled" not in self._checkpoint.carried:
            return None
        self.trials = list(self._known)
        (index,) = map(int, self._checkpoint.carried["factors"])
        trial = self.trials[index]
        return Point(trial.setting, trial.error, _result(self._checkpoint, index, trial))

    def _carry(self, checkpoint: Checkpoint, points: list[Point | None]) -> None:
        """Give a checkpoint all trials, and the factors of those whose points are given."""
        checkpoint.carried = {"trials": [list(vars(trial).values()) for trial in self.trials], "factors": {}}
        checkpoint.arrays = {}
        for index, point in enumerate(points):
            if point is not None:
                factors = point.result.factors
                checkpoint.carried["factors"][str(index)] = [factors.k, factors.biased, float(factors.offset)]
                checkpoint.arrays |= {f"{index}.left": factors.left, f"{index}.right": factors.right}


def _result(checkpoint: Checkpoint, index: int, trial: Trial) -> Result:
    arrays, about = checkpoint.arrays, checkpoint.carried["factors"].get(str(index))
    factors = NOT_KEPT if about is None else Factors(arrays[f"{index}.left"], arrays[f"{index}.right"], *about)
    return Result(
        factors, math.nan, Status.EARLY_STOPPED, "A trial of a search.", trial.sweeps, trial.seconds, History()
    )
