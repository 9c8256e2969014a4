"""Factors of a smaller width, as close to the same matrix as can be."""

from __future__ import annotations

import numpy as np

from lorank.linalg.factors import Factors
from lorank.types import Array


def narrowed(factors: Factors, k: int) -> Factors:
    """The k strongest directions, balanced; biases stay as they are."""
    W, H = _strongest(factors.W, factors.H, k)
    if not factors.biased:
        return Factors.of(W, H)
    return Factors.of(W, H, factors.row_bias, factors.col_bias, factors.offset)


def without_biases(factors: Factors) -> Factors:
    """Plain factors of the same width for offset + a_i + b_j + <w_i, h_j>, which is of rank k + 2 at most."""
    ones = [np.ones((lines, 1), factors.dtype) for lines in factors.shape]
    shifted = (factors.row_bias + factors.dtype.type(factors.offset))[:, None]
    left = np.hstack([factors.W, shifted, ones[0]])
    right = np.hstack([factors.H, ones[1], factors.col_bias[:, None]])
    return Factors.of(*_strongest(left, right, factors.k))


def _strongest(left: Array, right: Array, k: int) -> tuple[Array, Array]:
    """Balanced factors of the best approximation of rank k to left @ right.T."""
    (QL, RL), (QR, RR) = (np.linalg.qr(side.astype(np.float64)) for side in (left, right))
    U, sigma, Vt = np.linalg.svd(RL @ RR.T)
    root = np.sqrt(sigma[:k])
    W, H = QL @ (U[:, :k] * root), QR @ (Vt[:k].T * root)
    return W.astype(left.dtype), H.astype(right.dtype)
