"""Singular values above a threshold, by subspace iteration from a warm start."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from lorank.types import Array

# Directions kept beyond the wanted ones: they speed up convergence and show whether a value has crossed the threshold.
EXTRA = 4


class Operator(Protocol):
    """An m x n matrix known by its products."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def dot(self, B: Array) -> Array: ...

    def transposed_dot(self, B: Array) -> Array: ...


class TruncatedSVD(NamedTuple):
    """U (m, r), sigma (r) descending, V (n, r), and `subspace` (n, r + extra), the warm start of the next call."""

    U: Array
    sigma: Array
    V: Array
    subspace: Array


def truncated_svd(
    operator: Operator,
    subspace: Array,
    threshold: float,
    max_rank: int,
    rng: np.random.Generator,
    tol: float = 1e-3,
    max_passes: int = 20,
) -> TruncatedSVD:
    """The singular triplets of an operator above a threshold, at least one and at most max_rank.

    Block subspace iteration: Q = orth(Z P), P = orth(Z^T Q), from P = subspace (n, r0), which a previous call on a
    similar operator returned; r0 may be 0. The block grows while its smallest value is above the threshold. Stops when
    the wanted values change by less than tol, relative to the largest, from one pass to the next.
    """
    m, n = operator.shape
    limit = min(max_rank + EXTRA, m, n)
    P = subspace[:, :limit]
    if P.shape[1] < min(1 + EXTRA, limit):
        P = _grow(P, min(1 + EXTRA, limit) - P.shape[1], rng)
    last = np.zeros(0)
    passes = 0
    while True:
        Q, _ = np.linalg.qr(operator.dot(P))
        P, R = np.linalg.qr(operator.transposed_dot(Q))
        u, sigma, vt = np.linalg.svd(R.T)
        passes += 1
        wanted = max(1, min(int(np.count_nonzero(sigma > threshold)), max_rank))
        if wanted > len(sigma) - EXTRA and len(sigma) < limit:
            P = _grow(P, min(max(EXTRA, len(sigma) // 2), limit - len(sigma)), rng)
            last = np.zeros(0)
            continue  # Ends, since the block has a limit.
        moved = np.abs(sigma[:wanted] - last[:wanted]).max() if len(last) >= wanted else np.inf
        if moved <= tol * sigma[0] or passes >= max_passes or not np.isfinite(sigma[0]):
            break
        last = sigma
    V = P @ vt.T
    return TruncatedSVD((Q @ u)[:, :wanted], sigma[:wanted], V[:, :wanted], V)


def _grow(P: Array, count: int, rng: np.random.Generator) -> Array:
    """P with so many random directions more, orthonormal."""
    fresh = rng.standard_normal((len(P), count)).astype(P.dtype)
    return np.linalg.qr(np.hstack([P, fresh]))[0]
