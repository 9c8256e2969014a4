"""The parameters of a matrix completion, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from lorank import registry
from lorank.errors import InputError
from lorank.losses import Loss
from lorank.tuning.choice import EFFORTS
from lorank.tuning.setting import AUTO, Setting

# What is taken where lam is given, so that nothing is searched, and nothing else is said.
DEFAULT_METHOD, DEFAULT_RANK, SQUARED = "nnfn", 10, "squared"
DEFAULT_TOL, DEFAULT_MAX_ITER = 1e-4, 500
# The same for what tells one kind of model from another, which a search may choose among.
SIDES = ("row_side", "col_side")
# What may be more than a number or a word.
SEVERAL = (*SIDES, "random_state")
# The weight of a graph where nothing is searched.
PLAIN = {"graph_weight": 1.0}
OWN = {"method": DEFAULT_METHOD, "loss": SQUARED, "features": None}


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
    graph_weight: float | str
    features: str | None
    effort: str = "balanced"
    goal: str = "values"
    metric: str = "ndcg@10"
    unobserved_weight: Any = None
    unobserved_value: float = 0.0
    frequency_power: Any = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if hasattr(value, "__len__") and not isinstance(value, (str, np.dtype)) and name not in SEVERAL:
                raise InputError(f"{name} must be a single value; got {type(value).__name__}.")
        if self.rank != AUTO and (not isinstance(self.rank, Integral) or isinstance(self.rank, bool) or self.rank < 1):
            raise InputError(f"rank must be a whole number of at least 1, or 'auto'; got {self.rank!r}.")
        for name in ("lam", "theta", "tol", "graph_weight"):
            value = getattr(self, name)
            without = name == "lam" and not self.any_method and not registry.find(self.method).tunes
            optional = (name == "theta" or without) and value is None
            automatic = name in ("lam", "theta", "graph_weight") and value == AUTO
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
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or self.n_jobs == 0):
            raise InputError(f"n_jobs must be a number of threads, or None for all cores; got {self.n_jobs!r}.")
        if self.n_workers is not None and (not isinstance(self.n_workers, Integral) or self.n_workers < 1):
            raise InputError(f"n_workers must be a whole number of at least 1; got {self.n_workers!r}.")
        if self.features not in (None, "implicit", AUTO):
            raise InputError(f"features must be 'implicit', None or 'auto'; got {self.features!r}.")
        if self.effort not in EFFORTS:
            raise InputError(f"effort must be one of {', '.join(EFFORTS)}; got {self.effort!r}.")
        for name in ("unobserved_weight", "frequency_power"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and 0 <= value < np.inf):
                raise InputError(f"{name} must be a number of at least 0, or None; got {value!r}.")
        if not isinstance(self.unobserved_value, Real) or not np.isfinite(self.unobserved_value):
            raise InputError(f"unobserved_value must be a number; got {self.unobserved_value!r}.")
        try:
            kind = np.dtype(self.dtype)
        except TypeError:
            kind = np.dtype(object)
        if kind not in (np.float32, np.float64):
            raise InputError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")

    @property
    def any_method(self) -> bool:
        """Whether the method is to be chosen."""
        return isinstance(self.method, str) and self.method == AUTO

    @property
    def searched(self) -> bool:
        """Whether what is not given is searched: where lam is, or for a method without lam, where no rank is given."""
        if self.lam != AUTO:
            return False
        return self.any_method or registry.find(self.method).tunes or self.rank == AUTO

    @property
    def automatic(self) -> bool:
        """Whether anything is to be tuned."""
        return self.searched or bool(not self.any_method and registry.find(self.method).automatic)

    def for_shape(self, shape: tuple[int, int]) -> Parameters:
        """For a matrix of this shape: its rank is no larger, and where nothing is searched, nothing is "auto".

        What is not given is then NNFN's or the method's own: rank 10, its theta, the squared loss, neither biases nor
        features.
        """
        asked = self
        if not self.searched:
            asked = self._without_auto(
                {**OWN, "rank": DEFAULT_RANK, "lam": None, "theta": None, "biases": False, **PLAIN}
            )
        return asked if asked.rank == AUTO else replace(asked, rank=min(int(asked.rank), *shape))

    def within(self, spent: float) -> Parameters:
        """With what is left of the time after so many seconds; half of it stays whatever the search took."""
        if self.max_seconds is None:
            return self
        return replace(self, max_seconds=max(self.max_seconds - spent, self.max_seconds / 2))

    def chosen(self, given: Mapping[str, Any]) -> Parameters:
        """With the method, the loss and the features that were chosen, where they are "auto"."""
        return self._without_auto({name: given.get(name, own) for name, own in OWN.items()})

    def _without_auto(self, values: Mapping[str, Any]) -> Parameters:
        """With these values in the place of those that are "auto"."""
        return replace(self, **{name: value for name, value in values.items() if _is_auto(getattr(self, name))})

    @property
    def setting(self) -> Setting:
        """What is asked for where nothing is to be tuned."""
        theta = None if self.theta is None else float(self.theta)
        return Setting(None if self.lam is None else float(self.lam), int(self.rank), theta, bool(self.biases))


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO
