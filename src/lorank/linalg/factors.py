"""A matrix kept as thin factors, with or without biases; its rank, and factors of a smaller width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank import kernels
from lorank.linalg.blas import one_blas_thread
from lorank.memory import check_memory
from lorank.types import Array

# A direction counts towards the rank while its singular value is above this part of the largest.
RANK_TOLERANCE = 1e-2
# Rows of a factor that are made orthogonal at a time.
QR_BLOCK = 8192


def padded_width(k: int) -> int:
    """Columns of the padded array of a factor of width k: room for a bias and a value, in whole vectors."""
    return -(-(k + 2) // kernels.LANES) * kernels.LANES


def pad(factor: Array, bias: Array | None = None) -> Array:
    """The padded array of an m x k factor: the factor, its bias (or 0), zeros."""
    m, k = factor.shape
    padded = kernels.aligned_zeros((m, padded_width(k)), factor.dtype)
    padded[:, :k] = factor
    if bias is not None:
        padded[:, k] = bias
    return padded


@dataclass(frozen=True)
class Factors:
    """X = W H^T, or X_ij = offset + a_i + b_j + <w_i, h_j> with biases.

    left (m, q) and right (n, q) are padded as the kernels want them; W, H, row_bias and col_bias are views of them.
    They may also be kept elsewhere, as objects with the methods `moved`, `turned` and `is_finite`, without views.
    """

    left: Array
    right: Array
    k: int
    biased: bool = False
    offset: float = 0.0

    @classmethod
    def of(
        cls,
        W: Array,
        H: Array,
        row_bias: Array | None = None,
        col_bias: Array | None = None,
        offset: float = 0.0,
    ) -> Factors:
        """From plain arrays W (m, k) and H (n, k)."""
        return cls(pad(W, row_bias), pad(H, col_bias), W.shape[1], row_bias is not None, offset)

    @property
    def W(self) -> Array:
        return self.left[:, : self.k]

    @property
    def H(self) -> Array:
        return self.right[:, : self.k]

    @property
    def row_bias(self) -> Array:
        return self.left[:, self.k] if self.biased else np.zeros(len(self.left), self.left.dtype)

    @property
    def col_bias(self) -> Array:
        return self.right[:, self.k] if self.biased else np.zeros(len(self.right), self.right.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.left), len(self.right)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.left.dtype

    def transposed(self) -> Factors:
        """The factors of X^T."""
        return replace(self, left=self.right, right=self.left)

    def extrapolated(self, before: Factors, momentum: float) -> Factors:
        """These + momentum (these - before), biases and offset included."""
        left, right = (moved(*sides, momentum) for sides in ((self.left, before.left), (self.right, before.right)))
        return replace(self, left=left, right=right, offset=self.offset + momentum * (self.offset - before.offset))

    def turned(self, A: Array, inverse_transposed: Array) -> Factors:
        """The same X by the factors W A and H A^-T, given A and A^-T."""
        left, right = (turned(side, self.k, by) for side, by in ((self.left, A), (self.right, inverse_transposed)))
        return replace(self, left=left, right=right)

    def astype(self, dtype: npt.DTypeLike) -> Factors:
        """The same factors in this precision."""
        return replace(self, left=self.left.astype(dtype, copy=False), right=self.right.astype(dtype, copy=False))

    def predict(self, rows: Array, cols: Array, workers: kernels.Workers | None = None) -> Array:
        """Entries X[rows_t, cols_t], without forming X."""
        out = np.empty(len(rows), self.dtype)
        args = (rows, cols, self.left, self.right, self.k, self.biased, self.dtype.type(self.offset), out)
        pool = workers or kernels.Workers()
        pool.run_evenly(kernels.predict_pairs, len(rows), *args, work_per_line=self.k)
        return out

    def dense(self) -> Array:
        """X as an m x n array; refused with its size if the machine has not that much memory free."""
        m, n = self.shape
        check_memory(m * n * self.dtype.itemsize, f"The completed matrix of {m} x {n} entries")
        X = self.W @ self.H.T
        if self.biased:
            X += (self.row_bias + self.dtype.type(self.offset))[:, None]
            X += self.col_bias[None, :]
        return X

    def singular_values(self) -> Array:
        """Singular values of W H^T (biases left out), descending, in float64."""
        with one_blas_thread():
            return np.linalg.svd(_triangle(self.W) @ _triangle(self.H).T, compute_uv=False)

    def is_finite(self) -> bool:
        if not isinstance(self.left, np.ndarray):
            return np.isfinite(self.offset) and self.left.is_finite() and self.right.is_finite()
        # A sum is finite only if every term is: one pass, and nothing kept.
        with np.errstate(invalid="ignore", over="ignore"):
            return bool(np.isfinite(self.left.sum() + self.right.sum() + self.offset))


def gram(padded: Array, k: int, workers: kernels.Workers) -> Array:
    """F^T F (k x k, float64) of a padded factor; the same bits for any number of threads."""
    blocks = -(-len(padded) // kernels.GRAM_BLOCK)
    out = np.zeros((blocks, padded.shape[1], padded.shape[1]), padded.dtype)
    workers.run_evenly(kernels.gram_blocks, blocks, padded, k, out, work_per_line=kernels.GRAM_BLOCK * k * k / 2)
    return out.sum(axis=0, dtype=np.float64)[:k, :k]


def moved(side: Any, old: Any, momentum: float) -> Any:
    """side + momentum (side - old)."""
    if not isinstance(side, np.ndarray):
        return side.moved(old, momentum)
    moved = kernels.aligned_zeros(side.shape, side.dtype)  # the only new array: the factors may be long
    np.subtract(side, old, out=moved)
    moved *= side.dtype.type(momentum)
    moved += side
    return moved


def turned(side: Any, k: int, A: Array) -> Any:
    """A padded factor F with F A in its first k columns."""
    if not isinstance(side, np.ndarray):
        return side.turned(k, A)
    turned = side.copy()
    turned[:, :k] = side[:, :k] @ A.astype(side.dtype)
    return turned


def _triangle(factor: Array) -> Array:
    """R of the QR factorization, in float64: block by block, since a long factor must not be copied as a whole."""
    R = np.empty((0, factor.shape[1]))
    for first in range(0, len(factor), QR_BLOCK):
        R = np.asarray(np.linalg.qr(np.vstack([R, factor[first : first + QR_BLOCK]]), mode="r"))
    return R


def effective_rank(sigma: Array) -> int:
    """How many singular values are above RANK_TOLERANCE of the largest."""
    return int(np.count_nonzero(sigma > RANK_TOLERANCE * sigma.max())) if sigma.size and sigma.max() > 0 else 0


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
