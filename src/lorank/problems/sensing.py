"""Matrix sensing: linear measurements b = A(X) + noise in the place of observed entries.

    F(X) = 1/2 ||A(X) - b||^2 + regularizer(X)

Each measurement may mix all entries, so X is formed here as an m x n array: this is for matrices that fit in memory.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from lorank.errors import InputError
from lorank.observations.checks import unmasked
from lorank.regularizers import Spectral
from lorank.types import Array

# The power method for ||A||_2^2 ends at this relative change, and the estimate is raised by a little more than that.
NORM_TOLERANCE, NORM_MARGIN = 1e-4, 1.01
NORM_PASSES = 100


@dataclass(frozen=True)
class LinearMap:
    """The data term 1/2 ||A(X) - b||^2 of linear measurements of an m x n matrix.

    Parameters
    ----------
    operator : LinearOperator of shape (q, m * n)
        A, which acts on X as a vector, row after row.
    measured : array of shape (q,)
        b.
    shape : (m, n)
    """

    operator: LinearOperator
    measured: Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, A: Any, b: npt.ArrayLike, shape: tuple[int, int]) -> LinearMap:
        """From an operator, or an array (q, m, n) of the matrices of q inner products; what is wrong is refused."""
        m, n = shape
        measured = unmasked(b).astype(np.float64).ravel()
        if not isinstance(A, LinearOperator):
            A = np.asarray(A, dtype=np.float64)
            if A.ndim != 3 or A.shape[1:] != (m, n):
                raise InputError(
                    f"An array of measurements must be q x {m} x {n}; this one is {' x '.join(map(str, A.shape))}."
                )
            A = aslinearoperator(A.reshape(len(A), m * n))
        if A.shape[1] != m * n:
            raise InputError(
                f"An operator on matrices of {m} x {n} takes vectors of length {m * n}; this one takes {A.shape[1]}."
            )
        if A.shape[0] != measured.size:
            raise InputError(f"The operator gives {A.shape[0]} measurements and b has {measured.size}.")
        if not np.isfinite(measured).all():
            raise InputError("The measurements hold NaN or infinity; leave them and their rows of A out.")
        return cls(A, measured, shape)

    def value(self, X: Array) -> float:
        """1/2 ||A(X) - b||^2."""
        residual = self.operator.matvec(X.ravel()) - self.measured
        return 0.5 * float(residual @ residual)

    def gradient(self, X: Array) -> Array:
        """A^T (A(X) - b), m x n."""
        return self.operator.rmatvec(self.operator.matvec(X.ravel()) - self.measured).reshape(self.shape)

    @cached_property
    def lipschitz(self) -> float:
        """A little more than ||A||_2^2, by the power method on A^T A."""
        x = np.random.default_rng(0).standard_normal(self.operator.shape[1])
        size = 0.0
        for _ in range(NORM_PASSES):
            x = self.operator.rmatvec(self.operator.matvec(x / np.linalg.norm(x)))
            last, size = size, float(np.linalg.norm(x))
            if size == 0 or abs(size - last) <= NORM_TOLERANCE * size:
                break
        return NORM_MARGIN * (size or 1.0)


@dataclass(frozen=True)
class SensingProblem:
    """Measurements and a regularizer of the singular values; X has rank `rank` at most."""

    data: LinearMap
    regularizer: Spectral
    rank: int

    def __post_init__(self) -> None:
        m, n = self.data.shape
        if not 1 <= self.rank <= min(m, n):
            raise InputError(f"rank must be between 1 and {min(m, n)} for a matrix of {m} x {n}; got {self.rank}.")

    def running(self) -> AbstractContextManager[None]:
        """The context that a solver runs in: there is nothing to prepare, and BLAS has all cores for the SVDs."""
        return nullcontext()
