"""Matrix sensing: a low-rank matrix from linear measurements of it, b = A(X) + noise.

    F(X) = 1/2 ||A(X) - b||^2 + regularizer(X)

It is the setting of the paper's theorem 1, by which the error grows no faster than the norm of the noise.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from lorank import registry
from lorank.errors import InputError
from lorank.problems import LinearMap, SensingProblem
from lorank.solvers import Result, SensingGradient, Stopping, solve


def sense(
    A: Any,
    b: npt.ArrayLike,
    shape: tuple[int, int],
    *,
    method: Any = "nnfn",
    rank: int = 5,
    lam: float = 1.0,
    theta: float | None = None,
    tol: float = 1e-8,
    max_iter: int = 1000,
    max_seconds: float | None = None,
) -> Result:
    """The low-rank matrix that linear measurements tell of.

    Parameters
    ----------
    A : LinearOperator of shape (q, m * n), or array of shape (q, m, n)
        An operator acts on X as a vector, row after row; an array holds the matrices of q inner products.
    b : array of q measurements
    shape : (m, n)
    method : str, Method, regularizer, or class of regularizers
        As for MatrixCompletion. A factored regularizer is taken in its spectral form, which has the same minimisers.
    rank : int
        The largest rank.
    lam, theta : float
        As for MatrixCompletion.
    tol : float
        Converged when the objective changes by less than this part of itself.
    max_iter, max_seconds
        Limits; reaching one gives a ConvergenceWarning.

    Returns
    -------
    Result
        `result.factors.dense()` is X.

    Examples
    --------
    >>> A = np.random.default_rng(0).standard_normal((60, 8, 6))
    >>> X = np.outer(np.arange(8.0), np.arange(6.0))
    >>> result = sense(A, np.tensordot(A, X), (8, 6), rank=1, lam=1e-6)
    >>> np.allclose(result.factors.dense(), X, atol=1e-3)
    True
    """
    chosen = registry.find(method)
    regularizer = chosen.build_regularizer(float(lam), theta=theta)
    if hasattr(regularizer, "spectral"):
        # Both have the same minimisers, and X is at hand here.
        regularizer = regularizer.spectral()
    if not hasattr(regularizer, "prox"):
        raise InputError(f"Method {chosen.name!r} has no proximal map to sense with; use 'nnfn'.")
    problem = SensingProblem(LinearMap.of(A, b, shape), regularizer, rank)
    return solve(SensingGradient(), problem, stopping=Stopping(tol, max_iter, max_seconds))
