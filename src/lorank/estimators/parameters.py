"""What the parameters of MatrixCompletion may be."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from lorank.errors import InputError
from lorank.tuning.setting import AUTO

if TYPE_CHECKING:
    from lorank.estimators.completion import MatrixCompletion


def check_parameters(model: MatrixCompletion) -> None:
    """Refuse what cannot be meant, in a sentence that names the parameter."""
    if model.rank != AUTO and (not isinstance(model.rank, Integral) or isinstance(model.rank, bool)):
        raise InputError(f"rank must be a whole number or 'auto'; got {model.rank!r}.")
    for name in ("lam", "theta", "tol", "graph_weight"):
        value = getattr(model, name)
        optional = name == "theta" and value is None
        automatic = name in ("lam", "theta") and value == AUTO
        if not (optional or automatic or isinstance(value, Real)):
            raise InputError(f"{name} must be a number; got {value!r}.")
    if isinstance(model.biases, str) and model.biases != AUTO:
        raise InputError(f"biases must be True, False or 'auto'; got {model.biases!r}.")
    if model.unseen not in ("error", "bias"):
        raise InputError(f"unseen must be 'error' or 'bias'; got {model.unseen!r}.")
    if not isinstance(model.n_fits, Integral) or model.n_fits < 1:
        raise InputError(f"n_fits must be a whole number of at least 1; got {model.n_fits!r}.")
    if not model.tol >= 0:
        raise InputError(f"tol must not be negative; got {model.tol}.")
    if not isinstance(model.max_iter, Integral) or model.max_iter < 1:
        raise InputError(f"max_iter must be a whole number of at least 1; got {model.max_iter!r}.")
    if model.max_seconds is not None and not model.max_seconds > 0:
        raise InputError(f"max_seconds must be positive; got {model.max_seconds}.")
    if model.n_jobs == 0:
        raise InputError("n_jobs must not be 0: give a number of threads, or None for all cores.")
    if np.dtype(model.dtype) not in (np.float32, np.float64):
        raise InputError(f"dtype must be 'float32' or 'float64'; got {model.dtype!r}.")


def check_rank(rank: int, shape: tuple[int, int]) -> None:
    """Refuse a rank that a matrix of this shape cannot have."""
    m, n = shape
    if not 1 <= rank <= min(m, n):
        raise InputError(f"rank must be between 1 and {min(m, n)} for a matrix of {m} x {n}; got {rank}.")
