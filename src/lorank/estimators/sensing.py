"""Matrix sensing: a low-rank matrix from linear measurements of it, b = A(X) + noise.

    F(X) = 1/2 ||A(X) - b||^2 + regularizer(X)

It is the setting of the paper's Theorem 4, by which the error grows no faster than the norm of the noise. The theorem
is about constrained forms, of which F is the Lagrangian: with r the regularizer at lam = 1,

    min r(X)  subject to  ||A(X) - b|| <= noise        and        min ||A(X) - b||  subject to  r(X) <= bound.

Both are points of one path, on which lam falls: the residual falls with it and r rises, up to where the constraint is
met. Each fit starts from the one before (continuation), and the last step is halved until it is exact enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank import registry
from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.problems import LinearMap, SensingProblem
from lorank.solvers import Result, SensingGradient, Stopping, solve

# Continuation: lam falls from its top by FACTOR, at most to LOWEST of it; then the step in which the constraint comes
# to hold is halved until its ends are NEAR. Measurements without noise are met up to EXACT of their norm.
FACTOR, LOWEST, NEAR, EXACT = 4.0, 1e-12, 1.001, 1e-6


def sense(
    A: Any,
    b: npt.ArrayLike,
    shape: tuple[int, int],
    *,
    method: Any = "nnfn",
    rank: int = 5,
    lam: float = 1.0,
    theta: float | None = None,
    noise: float | None = None,
    bound: float | None = None,
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
    noise : float, optional
        Norm of the noise, instead of lam: the least regularizer with ||A(X) - b|| <= noise; 0 for exact measurements.
    bound : float, optional
        Instead of lam or noise: the least ||A(X) - b|| where the regularizer, at lam = 1, is at most this.
    tol : float
        Converged when the objective changes by less than this part of itself.
    max_iter, max_seconds
        Limits, of each fit where there are several; reaching one gives a ConvergenceWarning.

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
    data, stopping = LinearMap.of(A, b, shape), Stopping(tol, max_iter, max_seconds)

    def fit(weight: float, start: Result | None) -> Result:
        problem = SensingProblem(data, replace(regularizer, lam=weight), rank)
        return solve(SensingGradient(), problem, start=None if start is None else start.factors, stopping=stopping)

    for name, given in (("noise", noise), ("bound", bound)):
        if given is not None and not 0 <= given < math.inf:
            raise InputError(f"{name} must be a number, not negative; got {given!r}.")
    if noise is not None and bound is not None:
        raise InputError("noise and bound are two ways to say how much is fitted; give one of them.")
    top = float(np.linalg.norm(data.gradient(np.zeros(shape)), 2)) or 1.0
    if noise is not None:
        level = max(noise, EXACT * float(np.linalg.norm(data.measured))) or 1.0
        return _crossing(fit, top, lambda X: math.sqrt(2 * data.value(X.dense())) / level)[1]
    if bound is not None:
        unit = replace(regularizer, lam=1.0)
        return _crossing(fit, top, lambda X: bound / max(unit.value(X.singular_values()), 1e-300))[0]
    return fit(float(lam), None)


def _crossing(
    fit: Callable[[float, Result | None], Result], top: float, measure: Callable[[Factors], float]
) -> tuple[Result, Result]:
    """The fits at two neighbouring weights between which a measure, falling with the weight, comes to 1 or less.

    Both are the same where it is so at the top, or nowhere.
    """
    high, below = top, fit(top, None)
    above, low = below, top
    while measure(below.factors) > 1 and low > LOWEST * top:
        high, above, low = low, below, low / FACTOR
        below = fit(low, above)
    if above is below or measure(below.factors) > 1:
        return below, below
    while high > NEAR * low:
        middle = math.sqrt(low * high)
        tried = fit(middle, above)
        if measure(tried.factors) > 1:
            high, above = middle, tried
        else:
            low, below = middle, tried
    return above, below
