"""The trials of a search, reported as they are done and kept on disk, so that an interrupted search goes on.

For the same data and seed a search is the same sequence of trials, so it is resumed by going through it again: a trial
that the checkpoint has is not fitted but answered from there. Factors are saved of those trials only that the search
still refers to, for it can start from no others.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lorank.linalg import Factors
from lorank.solvers import Checkpoint, History, Result, Status
from lorank.tuning.trials import Trial
from lorank.types import Array

# Stands for the fit of a trial that no later one starts from.
_NOT_SAVED = Result(Factors.of(np.empty((0, 0)), np.empty((0, 0))), math.nan, Status.MAX_ITER, "", 0, 0.0, History())

# Called with how many trials are done, and how many there will be, as far as one can say.
OnTrial = Callable[[int, int], None]


@dataclass(frozen=True)
class Fitted:
    """A trial with its fit; the search refers to those that it may still need, and the log to none."""

    trial: Trial
    result: Result | None = None
    losses: Array | None = None
    # Factors of all parts of the data but the first.
    others: tuple[Factors, ...] = ()

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.trial.parameters

    @property
    def error(self) -> float:
        return self.trial.error

    @property
    def factors(self) -> Factors:
        """Of the fit, where its judge hands it on."""
        assert self.result is not None
        return self.result.factors

    @property
    def starts(self) -> tuple[Factors, ...]:
        """Factors of every part of the data, where another fit of that part can start from."""
        return (self.factors, *self.others)


class TrialLog:
    """All trials so far.

    Parameters
    ----------
    checkpoint : Checkpoint, optional
        Trials are saved there.
    on_trial : function of (done, expected), optional
        Called after each trial.
    """

    def __init__(self, checkpoint: Checkpoint | None = None, on_trial: OnTrial | None = None) -> None:
        self.trials: list[Trial] = []
        self._checkpoint, self._on_trial = checkpoint, on_trial
        self._stages: Mapping[str, int] = {}
        self._ahead = self._later = self._others = 0
        self._fits: list[weakref.ref[Fitted]] = []
        self._saved: list[Trial] = []
        if checkpoint is not None and checkpoint.recall():
            self._saved = [Trial.from_row(row) for row in checkpoint.carried.get("trials", ())]

    def expect(self, stages: Mapping[str, int]) -> None:
        """The stages of the search in order, and how many trials each is likely to take."""
        self._stages = stages

    def expect_later(self, trials: int) -> None:
        """About how many trials follow after these stages."""
        self._others = trials

    def begin(self, stage: str) -> None:
        """The trials that come next are of this stage."""
        names = list(self._stages)
        self._later = self._others + sum(self._stages[name] for name in names[names.index(stage) + 1 :])
        self._ahead = self._later + self._stages[stage]

    def saved(self, parameters: Mapping[str, Any]) -> Fitted | None:
        """The next trial, if the checkpoint has it and it is of these parameters."""
        index = len(self.trials)
        if self._checkpoint is None or index >= len(self._saved) or self._saved[index].parameters != parameters:
            return None
        return _load(self._checkpoint, self._saved[index], index)

    def add(self, fitted: Fitted) -> None:
        """A trial is done."""
        self.trials.append(fitted.trial)
        self._fits.append(weakref.ref(fitted))
        self._ahead = max(self._ahead - 1, self._later)
        if self._on_trial is not None:
            self._on_trial(len(self.trials), len(self.trials) + self._ahead)
        if self._checkpoint is not None and self._checkpoint.due:
            self.save()

    def remark(self, fitted: Fitted, reason: str, comparable: float) -> Fitted:
        """The same fit with something to say about it in the table, and an error that goes with others there."""
        index = next(i for i, trial in enumerate(self.trials) if trial is fitted.trial)
        remarked = replace(fitted, trial=replace(fitted.trial, reason=reason, comparable=comparable))
        self.trials[index], self._fits[index] = remarked.trial, weakref.ref(remarked)
        return remarked

    def save(self) -> None:
        """Put on disk what it takes to go on."""
        # While trials are answered from the checkpoint, it holds more than this log.
        if self._checkpoint is not None and len(self.trials) >= len(self._saved):
            self._store(self._checkpoint, [ref() for ref in self._fits])
            self._checkpoint.save_carried()

    def stop_saving(self) -> None:
        """Save the trials so far, and none that comes: the one that runs was interrupted."""
        self.save()
        self._checkpoint = None

    def finish(self, best: Fitted) -> None:
        """The search is over; its outcome is saved now, and with every state of the fit that follows."""
        if self._checkpoint is not None:
            self._store(self._checkpoint, [best if ref() is best else None for ref in self._fits])
            self._checkpoint.carried["finished"] = True
            self._checkpoint.save_carried()

    def outcome(self) -> Fitted | None:
        """The best fit of a search that was over before, if the checkpoint has it; its trials are then in this log."""
        if self._checkpoint is None or "finished" not in self._checkpoint.carried:
            return None
        self.trials = list(self._saved)
        (index,) = map(int, self._checkpoint.carried["fits"])
        return _load(self._checkpoint, self.trials[index], index)

    def _store(self, checkpoint: Checkpoint, fits: list[Fitted | None]) -> None:
        """Give a checkpoint all trials, and the fits that are given."""
        checkpoint.carried = {"trials": [trial.row() for trial in self.trials], "fits": {}}
        checkpoint.arrays = {}
        for index, fitted in enumerate(fits):
            if fitted is not None and fitted.result is not None:
                result = fitted.result
                checkpoint.carried["fits"][str(index)] = {
                    "factors": [[part.k, part.biased, float(part.offset)] for part in fitted.starts],
                    "objective": float(result.objective),
                    "status": result.status.name,
                    "message": result.message,
                    "n_iter": result.n_iter,
                    "seconds": result.seconds,
                    "history": vars(result.history),
                }
                for number, part in enumerate(fitted.starts):
                    checkpoint.arrays |= {f"{index}.{number}.left": part.left, f"{index}.{number}.right": part.right}
                if fitted.losses is not None:
                    checkpoint.arrays[f"{index}.losses"] = fitted.losses


def _load(checkpoint: Checkpoint, trial: Trial, index: int) -> Fitted:
    """A trial with its fit as it was saved."""
    if str(index) not in checkpoint.carried["fits"]:
        return Fitted(trial, _NOT_SAVED)
    about, arrays = dict(checkpoint.carried["fits"][str(index)]), checkpoint.arrays
    first, *others = (
        Factors(arrays[f"{index}.{number}.left"], arrays[f"{index}.{number}.right"], *rest)
        for number, rest in enumerate(about.pop("factors"))
    )
    about |= {"status": Status[about["status"]], "history": History(**about["history"])}
    return Fitted(trial, Result(first, **about), arrays.get(f"{index}.losses"), tuple(others))
