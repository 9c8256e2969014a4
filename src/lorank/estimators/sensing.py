"""Matrix sensing: a low-rank matrix from linear measurements of it, b = A(X) + noise.

    F(X) = 1/2 ||A(X) - b||^2 + regularizer(X)

by proximal gradient with momentum. Each measurement may mix all entries, so X is formed here as an m x n array: this is
for matrices that fit in memory. It is the setting of the paper's theorem 1, by which the error grows no faster than the
norm of the noise.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.exceptions import ConvergenceWarning

from lorank import registry
from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.linalg.factors import effective_rank
from lorank.solvers import History, Result, Status
from lorank.types import Array


class _Point(NamedTuple):
    """Where a solver is after an iteration."""

    W: Array
    H: Array
    objective: float


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
    operator, measured = _checked(A, b, shape)
    if not 1 <= rank <= min(shape):
        raise InputError(
            f"rank must be between 1 and {min(shape)} for a matrix of {shape[0]} x {shape[1]}; got {rank}."
        )
    chosen = registry.find(method)
    regularizer = chosen.build_regularizer(float(lam), theta=theta)
    if hasattr(regularizer, "spectral"):
        # Both have the same minimisers, and X is at hand here.
        regularizer = regularizer.spectral()
    if not hasattr(regularizer, "prox"):
        raise InputError(f"Method {chosen.name!r} has no proximal map to sense with; use 'nnfn'.")
    points = _proximal_gradient(operator, measured, shape, regularizer, rank)
    return _follow(points, tol, max_iter, max_seconds)


def _checked(A: Any, b: npt.ArrayLike, shape: tuple[int, int]) -> tuple[LinearOperator, Array]:
    m, n = shape
    measured = np.asarray(b, dtype=np.float64).ravel()
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
    return A, measured


def _follow(points: Iterator[_Point], tol: float, max_iter: int, max_seconds: float | None) -> Result:
    """Take points until they stand still or a limit is reached."""
    history, started = History(), time.perf_counter()
    status, message = Status.MAX_ITER, f"Stopped at the limit of {max_iter} iterations."
    last = next(points)
    for iteration, point in enumerate(points, start=1):
        if not np.isfinite(point.objective):
            status, message = Status.DIVERGED, f"Diverged at iteration {iteration}; the last finite point is kept."
            break
        change = abs(last.objective - point.objective) / max(abs(last.objective), 1e-300)
        last, seconds = point, time.perf_counter() - started
        sigma = np.linalg.svd(np.linalg.qr(point.W).R @ np.linalg.qr(point.H).R.T, compute_uv=False)
        history.append(iteration, seconds, point.objective, effective_rank(sigma), np.nan)
        if change < tol:
            status, message = Status.CONVERGED, f"Converged in {iteration} iterations."
            break
        if max_seconds is not None and seconds >= max_seconds:
            status, message = Status.TIME_LIMIT, f"Stopped at the limit of {max_seconds:g} s."
            break
        if iteration >= max_iter:
            break
    else:
        status, message = Status.STALLED, f"No further decrease was possible after iteration {len(history)}."
    if status in (Status.MAX_ITER, Status.TIME_LIMIT, Status.DIVERGED):
        warnings.warn(f"{message} To mend it, raise the limit or tol.", ConvergenceWarning, stacklevel=3)
    seconds = time.perf_counter() - started
    return Result(Factors.of(last.W, last.H), last.objective, status, message, len(history), seconds, history)


def _proximal_gradient(
    operator: LinearOperator, b: Array, shape: tuple[int, int], regularizer: Any, rank: int
) -> Iterator[_Point]:
    """X <- prox(Y - step A^T (A(Y) - b)) with momentum, which begins anew whenever F would rise."""
    step = 1 / (1.01 * _squared_norm(operator))
    X = before = np.zeros(shape)
    value = 0.5 * float(b @ b)
    rows, cols = shape
    yield _Point(np.zeros((rows, 1)), np.zeros((cols, 1)), value)
    count = 0
    while True:
        for momentum in sorted({count / (count + 3), 0.0}, reverse=True):
            Y = X + momentum * (X - before)
            slope = operator.rmatvec(operator.matvec(Y.ravel()) - b).reshape(shape)
            U, sigma, Vt = np.linalg.svd(Y - step * slope, full_matrices=False)
            sigma = regularizer.prox(sigma, step)
            sigma[rank:] = 0
            trial = (U * sigma) @ Vt
            residual = operator.matvec(trial.ravel()) - b
            found = 0.5 * float(residual @ residual) + regularizer.value(sigma)
            count = count + 1 if momentum > 0 or count == 0 else 1
            if not found > value:
                break
        else:
            return
        X, before, value = trial, X, found
        width = max(1, int(np.count_nonzero(sigma)))
        root = np.sqrt(sigma[:width])
        yield _Point(U[:, :width] * root, Vt[:width].T * root, value)


def _squared_norm(operator: LinearOperator) -> float:
    """||A||_2^2 by the power method on A^T A."""
    x = np.random.default_rng(0).standard_normal(operator.shape[1])
    size = 0.0
    for _ in range(100):
        x = operator.rmatvec(operator.matvec(x / np.linalg.norm(x)))
        last, size = size, float(np.linalg.norm(x))
        if size == 0 or abs(size - last) <= 1e-4 * size:
            break
    return size or 1.0
