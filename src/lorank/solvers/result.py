"""What a solver gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.linalg import Factors


class Status(Enum):
    """Why a fit ended."""

    CONVERGED = "the relative change of the objective fell under the tolerance"
    STALLED = "no further decrease was possible in this precision"
    MAX_ITER = "the iteration limit was reached"
    TIME_LIMIT = "the time limit was reached"
    SAMPLED = "all the draws that were asked for were made"
    STOPPED = "it was stopped early"
    DIVERGED = "a value that is not finite appeared"


@dataclass
class History:
    """One number a column and iteration: seconds count solving only, not validation and callbacks."""

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)

    def append(self, iteration: int, seconds: float, objective: float, rank: int, validation: float) -> None:
        row = (iteration, seconds, objective, rank, validation)
        for column, value in zip(vars(self).values(), row):
            column.append(value)

    def __len__(self) -> int:
        return len(self.iteration)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The columns as arrays, by name."""
        return {name: np.array(column) for name, column in vars(self).items()}


@dataclass(frozen=True)
class Result:
    """A solution and how it was reached.

    `objective` belongs to `factors`; `status` and `message` say why the solver ended, `history` how it went there.
    """

    factors: Factors
    objective: float
    status: Status
    message: str
    n_iter: int
    seconds: float
    history: History

    @property
    def success(self) -> bool:
        """Whether the solver ended by its own criterion."""
        return self.status in (Status.CONVERGED, Status.STALLED, Status.SAMPLED)

    @property
    def summary(self) -> Factors:
        """Factors of the rank that was asked for: those that predict, unless the result is an average of many."""
        return self.factors

    def predict(self, rows: npt.NDArray[Any], cols: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Entries of X at these positions."""
        return self.factors.predict(rows, cols)
