"""What a search tried and what came of it, as a table and as a plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

import numpy as np

from lorank.results_table import Table
from lorank.types import Array

# The parameter that says in plain words which kind of model a trial is of, where several kinds were tried.
CANDIDATE = "candidate"


class TrialStatus(StrEnum):
    """How a trial ended."""

    FINISHED = "finished"
    GIVEN_UP = "given up"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True)
class Trial:
    """One candidate, its error on the held-out part, and what it cost.

    Attributes
    ----------
    parameters : mapping
        What was tried, by name; each is also an attribute of the trial (`trial.lam`).
    error : float
        Root mean squared, on the held-out part; infinite if there is none.
    sweeps : int or None
        None where the judge fits more than once, or does not say.
    seconds : float
    status : TrialStatus
    reason : str
        Why it ended like that, where the status alone does not say it.
    chosen : bool
    comparable : float or None
        The error that goes with those of simpler kinds of models, for one that was compared with them: it may have been
        judged on fewer of their held-out entries, and by fewer draws than a fit has.
    """

    parameters: Mapping[str, Any]
    error: float
    sweeps: int | None = None
    seconds: float = 0.0
    status: TrialStatus = TrialStatus.FINISHED
    reason: str = ""
    chosen: bool = False
    comparable: float | None = None

    def __getattr__(self, name: str) -> Any:
        parameters = self.__dict__.get("parameters", {})
        if name not in parameters:
            raise AttributeError(f"A trial of {', '.join(parameters)} has no {name}.")
        return parameters[name]

    @property
    def name(self) -> str:
        """What kind of model it is, in plain words; empty where there was one only."""
        return "offsets alone" if self.parameters.get("rank") == 0 else str(self.parameters.get(CANDIDATE, ""))

    @property
    def kind_error(self) -> float:
        """The error by which kinds of models are compared."""
        return self.error if self.comparable is None else self.comparable

    def row(self) -> dict[str, Any]:
        """Parameters, error and all else by name."""
        return {**self.parameters, **{name: getattr(self, name) for name in _OUTCOME}}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Trial:
        """The trial that `row` was made of."""
        outcome = {name: row[name] for name in _OUTCOME if name in row}  # older files lack some
        outcome["status"] = TrialStatus(outcome["status"])
        return cls({name: value for name, value in row.items() if name not in outcome}, **outcome)


_OUTCOME = tuple(field.name for field in fields(Trial) if field.name != "parameters")


class Trials(Sequence[Trial]):
    """Every candidate that was tried, in order: a table of trials, with `.columns()`, `.to_frame()` and `.plot()`.

    The one marked as chosen is what the model was fitted with.
    """

    def __init__(self, trials: Iterable[Trial]) -> None:
        self._trials = tuple(trials)

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, index: Any) -> Any:
        return Trials(self._trials[index]) if isinstance(index, slice) else self._trials[index]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    @property
    def chosen(self) -> Trial:
        """The trial that was chosen."""
        return next(trial for trial in self if trial.chosen)

    @property
    def seconds(self) -> float:
        """What the whole search took."""
        return float(sum(trial.seconds for trial in self))

    def choosing(self, chosen: Trial) -> Trials:
        """The same table with this one of its trials marked."""
        return Trials(replace(trial, chosen=trial is chosen) for trial in self)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a trial, all with the same names: a parameter that a trial does not have is None."""
        names = dict.fromkeys(name for trial in self for name in trial.parameters)
        return [{**names, **trial.row()} for trial in self]

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Trials:
        """The table that `rows` was made of."""
        return cls(map(Trial.from_row, rows))

    def columns(self) -> dict[str, Array]:
        """The table as arrays by name."""
        rows = self.rows()
        return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}

    @property
    def candidates(self) -> Table:
        """A line for each kind of model: the error of its best trial, what all of its trials took, and the verdict."""
        groups: dict[str, list[Trial]] = {}
        for trial in self:
            groups.setdefault(trial.name, []).append(trial)
        best = {
            name: min(trials, key=lambda t: (not t.chosen, " than " not in t.reason, t.error))
            for name, trials in groups.items()
        }
        return Table(
            [
                {
                    CANDIDATE: name,
                    "error": best[name].kind_error,
                    "trials": len(trials),
                    "seconds": sum(trial.seconds for trial in trials),
                    "reason": best[name].reason,
                    "chosen": "<- chosen" if best[name].chosen else "",
                }
                for name, trials in groups.items()
            ]
        )

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, one line a trial."""
        return Table(self.rows()).to_frame()

    def plot(self, ax: Any = None) -> Any:
        """Held-out error against lam, one line for each set of the other parameters; the chosen one is circled."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(7, 4.5), layout="constrained")[1] if ax is None else ax
        groups: dict[str, list[Trial]] = {}
        weighted = [trial for trial in self if trial.parameters.get("lam") is not None]
        for trial in weighted:
            groups.setdefault(_label(trial), []).append(trial)
        for trial in self:
            if trial not in weighted:
                ax.axhline(trial.error, linewidth=1, linestyle="--", label=_label(trial))
        for label, trials in groups.items():
            trials = sorted(trials, key=lambda trial: trial.lam)
            ax.plot([t.lam for t in trials], [t.error for t in trials], "o-", markersize=4, label=label)
        for trial in weighted:
            if trial.chosen:
                ax.plot(trial.lam, trial.error, "o", markersize=12, fillstyle="none", color="black", label="chosen")
        ax.set(xscale="log", xlabel="lam", ylabel="held-out RMSE")
        ax.legend(fontsize="small")
        return ax

    def __repr__(self) -> str:
        rows = [{**row, "chosen": "<- chosen" if row["chosen"] else ""} for row in self.rows()]
        kinds = self.candidates
        summary = f"{kinds}\n\n" if len(kinds.rows) > 1 else ""
        return f"{len(self)} trials in {self.seconds:.2f} s\n{summary}{Table(rows)}"


def _label(trial: Trial) -> str:
    """All parameters but lam in words; what is off or the method's default is left out."""
    parts = []
    for name, value in trial.parameters.items():
        if name != "lam" and value is not None and value is not False:
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            parts.append(name if value is True else f"{name} {shown}")
    return ", ".join(parts)
