"""What a search tried, as a table and as a plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.tuning.setting import Setting


@dataclass(frozen=True)
class Trial:
    """One setting, its root mean squared error on the held-out part, and what it cost."""

    lam: float
    rank: int
    theta: float | None
    biases: bool
    error: float
    sweeps: int
    seconds: float
    chosen: bool = False
    parameters: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        # JSON has lists only.
        object.__setattr__(self, "parameters", tuple((name, value) for name, value in self.parameters))

    @classmethod
    def of(cls, setting: Setting, error: float, sweeps: int, seconds: float) -> Trial:
        """The trial of a setting."""
        same = setting.lam, setting.rank, setting.theta, setting.biases
        return cls(*same, error, sweeps, seconds, parameters=setting.parameters)

    @property
    def setting(self) -> Setting:
        return Setting(self.lam, self.rank, self.theta, self.biases, self.parameters)

    def facts(self) -> dict[str, Any]:
        """All of it by name, with a name for each of the method's own parameters."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "parameters"}
        return {**shown, **dict(self.parameters)}


class Trials(Sequence[Trial]):
    """Every setting that was tried, in order: a table of trials, with `.columns()`, `.to_frame()` and `.plot()`.

    The one marked as chosen is what the model was fitted with, or, when lam was placed between trials, nearest to it.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
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

    def choosing(self, setting: Setting) -> Trials:
        """The same table with the trial of this setting marked, or the one nearest to it in lam."""
        same = [i for i, trial in enumerate(self) if replace(trial.setting, lam=setting.lam) == setting]
        best = min(same, key=lambda i: abs(np.log(self[i].lam / setting.lam)))
        return Trials([replace(trial, chosen=i == best) for i, trial in enumerate(self)])

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The table as arrays by name."""
        rows = [trial.facts() for trial in self]
        return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, one line a trial."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("A frame needs pandas: pip install pandas; or use .columns().") from None
        return pd.DataFrame([trial.facts() for trial in self])

    def plot(self, ax: Any = None) -> Any:
        """Held-out error against lam, one line for each rank, theta and biases; the chosen one is circled."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(7, 4.5), layout="constrained")[1] if ax is None else ax
        groups: dict[Setting, list[Trial]] = {}
        for trial in self:
            groups.setdefault(replace(trial.setting, lam=1.0), []).append(trial)
        for setting, trials in groups.items():
            trials = sorted(trials, key=lambda trial: trial.lam)
            own = [f"{name} {value:.3g}" for name, value in setting.of_method.items() if value is not None]
            parts = [f"rank {setting.rank}", *own, *(["biases"] if setting.biases else [])]
            ax.plot([t.lam for t in trials], [t.error for t in trials], "o-", markersize=4, label=", ".join(parts))
        for trial in self:
            if trial.chosen:
                ax.plot(trial.lam, trial.error, "o", markersize=12, fillstyle="none", color="black", label="chosen")
        ax.set(xscale="log", xlabel="lam", ylabel="held-out RMSE")
        ax.legend(fontsize="small")
        return ax

    def __repr__(self) -> str:
        head = f"{'lam':>10} {'rank':>5} {'theta':>6} {'biases':>6} {'error':>9} {'sweeps':>6} {'seconds':>8}"
        lines = [
            f"{t.lam:10.4g} {t.rank:5d} {_text(t.theta):>6} {t.biases!s:>6} {t.error:9.5f}"
            + f" {t.sweeps:6d} {t.seconds:8.3f}"
            + "".join(f"  {name}={value}" for name, value in t.parameters)
            + ("  <- chosen" if t.chosen else "")
            for t in self
        ]
        return "\n".join([f"{len(self)} trials in {self.seconds:.2f} s", head, *lines])


def _text(theta: float | None) -> str:
    return "" if theta is None else f"{theta:.2g}"
