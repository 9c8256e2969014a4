"""The parameters of a matrix completion, checked."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from lorank import registry
from lorank.errors import InputError
from lorank.losses import Loss
from lorank.tuning.setting import AUTO, Setting


@dataclass(frozen=True)
class Parameters:
    """What `MatrixCompletion` is asked for, under the same names; what cannot be meant is refused."""

    method: Any
    rank: Any
    lam: Any
    theta: Any
    loss: str | Loss
    solver: Any
    biases: bool | str
    n_fits: int
    tol: float
    max_iter: int
    max_seconds: float | None
    random_state: Any
    n_jobs: int | None
    dtype: Any
    verbose: bool
    backend: str
    n_workers: int | None
    row_side: Any
    col_side: Any
    graph_weight: float
    features: str | None
    goal: str = "values"
    metric: str = "ndcg@10"
    unobserved_weight: Any = None
    unobserved_value: float = 0.0
    frequency_power: Any = None

    def __post_init__(self) -> None:
        if self.rank != AUTO and (not isinstance(self.rank, Integral) or isinstance(self.rank, bool)):
            raise InputError(f"rank must be a whole number or 'auto'; got {self.rank!r}.")
        for name in ("lam", "theta", "tol", "graph_weight"):
            value = getattr(self, name)
            optional = name == "theta" and value is None
            automatic = name in ("lam", "theta") and value == AUTO
            if not (optional or automatic or isinstance(value, Real)):
                raise InputError(f"{name} must be a number; got {value!r}.")
        if isinstance(self.biases, str) and self.biases != AUTO:
            raise InputError(f"biases must be True, False or 'auto'; got {self.biases!r}.")
        if not isinstance(self.n_fits, Integral) or self.n_fits < 1:
            raise InputError(f"n_fits must be a whole number of at least 1; got {self.n_fits!r}.")
        if not self.tol >= 0:
            raise InputError(f"tol must not be negative; got {self.tol}.")
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise InputError(f"max_iter must be a whole number of at least 1; got {self.max_iter!r}.")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise InputError(f"max_seconds must be positive; got {self.max_seconds}.")
        if self.n_jobs == 0:
            raise InputError("n_jobs must not be 0: give a number of threads, or None for all cores.")
        if self.n_workers is not None and (not isinstance(self.n_workers, Integral) or self.n_workers < 1):
            raise InputError(f"n_workers must be a whole number of at least 1; got {self.n_workers!r}.")
        if self.features not in (None, "implicit"):
            raise InputError(f"features must be 'implicit' or None; got {self.features!r}.")
        for name in ("unobserved_weight", "frequency_power"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and 0 <= value < np.inf):
                raise InputError(f"{name} must be a number of at least 0, or None; got {value!r}.")
        if not isinstance(self.unobserved_value, Real) or not np.isfinite(self.unobserved_value):
            raise InputError(f"unobserved_value must be a number; got {self.unobserved_value!r}.")
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise InputError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")

    @property
    def automatic(self) -> bool:
        """Whether anything is to be tuned."""
        searched = any(isinstance(value, str) for value in (self.lam, self.rank, self.theta, self.biases))
        return searched or bool(registry.find(self.method).automatic)

    @property
    def setting(self) -> Setting:
        """What is asked for where nothing is to be tuned."""
        theta = None if self.theta is None else float(self.theta)
        return Setting(float(self.lam), int(self.rank), theta, bool(self.biases))


def check_rank(rank: int, shape: tuple[int, int]) -> None:
    """Refuse a rank that a matrix of this shape cannot have."""
    m, n = shape
    if not 1 <= rank <= min(m, n):
        raise InputError(f"rank must be between 1 and {min(m, n)} for a matrix of {m} x {n}; got {rank}.")
