"""What a solver gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from lorank.linalg import Factors
from lorank.losses import Loss
from lorank.side_information.new_lines import FeatureMap
from lorank.solvers.posterior import Posterior
from lorank.types import Array


class Status(Enum):
    """Why a fit ended."""

    CONVERGED = "the relative change of the objective fell under the tolerance"
    STALLED = "no further decrease was possible in this precision"
    MAX_ITER = "the iteration limit was reached"
    TIME_LIMIT = "the time limit was reached"
    SAMPLED = "all the draws that were asked for were made"
    EARLY_STOPPED = "the validation error no longer fell, or a callback asked to stop"
    INTERRUPTED = "it was interrupted (Ctrl-C)"
    DIVERGED = "a value that is not finite appeared"
    # An alias: what files of earlier versions call it.
    STOPPED = EARLY_STOPPED


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

    @property
    def change(self) -> float:
        """Of the objective in the last iteration, as a part of it; infinite before there are two."""
        if len(self.objective) < 2:
            return float("inf")
        last, now = self.objective[-2:]
        return abs(last - now) / max(abs(last), 1e-300)

    def until(self, iterations: int) -> History:
        """Of the first so many iterations."""
        return History(*(column[:iterations] for column in vars(self).values()))

    def arrays(self) -> dict[str, Array]:
        """The columns as arrays, by name."""
        return {name: np.array(column) for name, column in vars(self).items()}


@dataclass(frozen=True)
class Result:
    """A solution and how it was reached.

    `objective` belongs to `factors`; `status` and `message` say why the solver ended, `history` how it went there.

    A sampler's result has a `posterior` too. Its `factors` are the posterior mean, as wide as all draws together, and
    its `objective`, like that column of its history, is the root mean squared residual of a draw on the training
    entries. `features` say where rows and columns that are not there yet are expected, `loss` is
    the loss with what it learnt from the data, if it learns anything.
    """

    factors: Factors
    objective: float
    status: Status
    message: str
    n_iter: int
    seconds: float
    history: History
    posterior: Posterior | None = None
    features: tuple[FeatureMap | None, FeatureMap | None] = (None, None)
    loss: Loss | None = None

    @property
    def success(self) -> bool:
        """Whether the solver ended by its own criterion."""
        return self.status in (Status.CONVERGED, Status.STALLED, Status.SAMPLED)

    @property
    def summary(self) -> Factors:
        """Factors of the rank that was asked for: `factors`, or those nearest to the mean of a posterior."""
        return self.factors if self.posterior is None else self.posterior.summary

    def predict(self, rows: Array, cols: Array) -> Array:
        """Entries of X at these positions."""
        return self.factors.predict(rows, cols)
