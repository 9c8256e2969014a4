"""What a solver is: a first state, a step to the next one, and what it declares about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors, padded_width
from lorank.losses import SQUARED, Loss
from lorank.observations import Observations
from lorank.side_information.base import several, suits
from lorank.solvers.posterior import Posterior


class State(Protocol):
    """A point of a solver's path."""

    @property
    def factors(self) -> Factors:
        """The solution at this point."""

    @property
    def objective(self) -> float:
        """F at this point."""

    @property
    def rank(self) -> int:
        """How many singular values are alive."""

    @property
    def stalled(self) -> bool:
        """Whether no step can decrease F any further."""


class Solver(ABC):
    """A way to decrease a problem's objective, or to sample from its posterior; `solve` runs it.

    The problem and the state that a solver takes are its own affair: its annotations name the part of the problem that
    it works with (`FactoredProblem`, `SpectralProblem`, ...) and its own dataclass of a state.
    """

    # Methods that the regularizer must have, by name.
    requires: ClassVar[tuple[str, ...]] = ()
    # What side information on rows or columns must have, one of these: "energy", a term that is added,
    # "covariance", by which factors are whitened, or "directions", those of features.
    coupling: ClassVar[tuple[str, ...]] = ()
    # Whether it takes any pointwise loss, or only the squared one.
    any_loss: ClassVar[bool] = False
    # Whether what was not observed may count, and whether lines may bear different shares of the regularizer.
    unobserved: ClassVar[bool] = False
    shares: ClassVar[bool] = False
    # Whether its steps need nothing of the entries but regressions or draws of lines, which may be kept elsewhere.
    distributes: ClassVar[bool] = False
    # Whether it draws from a posterior: the limit of iterations is then how many sweeps are made, the last state
    # counts, and a validation set is watched only.
    samples: ClassVar[bool] = False
    # What it holds at once, as measured: padded factors, and arrays of a number for each entry beside the entries by
    # columns.
    held: ClassVar[tuple[float, float]] = (4.5, 0.0)

    def check(self, problem: Any) -> None:
        """Refuse a problem that this solver is not made for, in one sentence."""
        self.check_regularizer(problem.regularizer)
        for side in (*several(problem.row_side), *several(problem.col_side)):
            if not suits(side, self.coupling):
                raise InputError(f"The solver {type(self).__name__} cannot take a {type(side).__name__} into account.")
        self.check_loss(problem.pointwise)
        for asked, taken, name in (
            (problem.unobserved is not None, self.unobserved, "unobserved_weight"),
            (problem.frequency_power, self.shares, "frequency_power"),
        ):
            if asked and not taken:
                raise InputError(
                    f"The solver {type(self).__name__} does not take {name}; use a factored method such as 'nnfn' with "
                    "its own solver."
                )

    def check_loss(self, loss: Loss) -> None:
        """Refuse a loss that this solver does not take."""
        if not (self.any_loss or loss == SQUARED):
            raise InputError(
                f"The solver {type(self).__name__} is for the squared loss; "
                f"{type(loss).__name__} needs a factored method such as 'nnfn'."
            )

    def check_regularizer(self, regularizer: object) -> None:
        """Refuse a regularizer that lacks something."""
        lacking = [name for name in self.requires if not hasattr(regularizer, name)]
        if lacking:
            raise InputError(
                f"The solver {type(self).__name__} needs a regularizer with {' and '.join(lacking)}; "
                f"{type(regularizer).__name__} has not."
            )

    def planned(self, max_iter: int) -> Self:
        """The solver for a fit of at most so many iterations."""
        return self

    def with_effort(self, effort: str) -> Self:
        """The solver for a fit that may take little time ("fast"), the usual time ("balanced") or more ("best")."""
        return self

    def for_trial(self, entries: int) -> tuple[Self, int]:
        """The solver for a trial of a search on so many entries, and how many iterations are enough to compare."""
        return self, 1

    @abstractmethod
    def init(self, problem: Any, start: Factors | None, seed: int | None) -> Any:
        """The first state: at `start`, or a random one."""

    @abstractmethod
    def step(self, problem: Any, state: Any) -> Any:
        """The next state; its objective is not above this one's wherever theory says so."""

    def enough(self, state: Any) -> bool:
        """Whether a solver that samples has drawn enough."""
        return False

    def validated(self, problem: Any, state: Any, held_out: Observations) -> tuple[Any, float]:
        """The error on held-out entries after a step, and the state with what it keeps for the next one."""
        return state, problem.error(state.factors, held_out)

    def remark(self, state: Any) -> str:
        """A sentence about the outcome that the message ends with, if there is something to say."""
        return ""

    def finish(self, problem: Any, state: Any) -> Factors:
        """The factors that are given back for a state; where there is a posterior, its mean takes their place."""
        factors: Factors = state.factors
        return factors

    def posterior(self, problem: Any, state: Any) -> Posterior | None:
        """The posterior that was sampled; None for a solver that goes for one point."""
        return None

    def memory(self, shape: tuple[int, int], entries: int, rank: int, itemsize: int, biased: bool) -> int:
        """Bytes that a fit allocates beside the observations themselves."""
        copies, arrays = self.held
        index = 4 if max(shape) <= np.iinfo(np.int32).max else 8
        # By columns an entry is an index and a value, and where it stands by rows.
        each = 2 * index + itemsize + arrays * itemsize
        return int(entries * each + sum(shape) * (8 + copies * padded_width(rank) * itemsize))
