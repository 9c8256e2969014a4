"""Biases as two more directions of the factors."""

from __future__ import annotations

import numpy as np

from lorank.linalg.factors import Factors


def without_biases(factors: Factors) -> Factors:
    """The best approximation of the same width k to offset + a_i + b_j + <w_i, h_j>, as plain balanced factors."""
    ones = [np.ones((lines, 1), factors.dtype) for lines in factors.shape]
    shifted = (factors.row_bias + factors.dtype.type(factors.offset))[:, None]
    left = np.hstack([factors.W, shifted, ones[0]]).astype(np.float64)
    right = np.hstack([factors.H, ones[1], factors.col_bias[:, None]]).astype(np.float64)
    (QL, RL), (QR, RR) = np.linalg.qr(left), np.linalg.qr(right)
    U, sigma, Vt = np.linalg.svd(RL @ RR.T)
    k = factors.k
    root = np.sqrt(sigma[:k])
    W, H = QL @ (U[:, :k] * root), QR @ (Vt[:k].T * root)
    return Factors.of(W.astype(factors.dtype), H.astype(factors.dtype))
