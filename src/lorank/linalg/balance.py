"""The balanced frame of two factors, from their k x k Grams alone.

X = W H^T has many factorizations: W A and H A^-T give the same X for every invertible A. One of them is balanced,
(W A)^T (W A) = (H A^-T)^T (H A^-T) = diag(sigma), and it has the smallest ||W||_F^2 + ||H||_F^2. Alternating solvers
creep towards it over many sweeps. Here A is computed directly, so that a solver can use the regularizer of the
balanced factors at once, without touching the long sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lorank.types import Array

# Directions below this part of the strongest are numerically dead; this keeps the frame invertible.
DEAD = 1e-10
# A Gram below this is zero: what is left of it would underflow.
NOTHING = 1e-100


@dataclass(frozen=True)
class Frame:
    """W A and H A^-T are balanced, with Grams diag(sigma)."""

    A: Array
    inverse_transposed: Array
    sigma: Array

    @property
    def gram(self) -> Array:
        """The Gram of either balanced factor: diag(sigma)."""
        return np.diag(self.sigma)

    def for_left(self, M: Array) -> Array:
        """A quadratic form on the rows of W A, as one on the rows of W: A M A^T."""
        return self.A @ M @ self.A.T

    def for_right(self, M: Array) -> Array:
        """A quadratic form on the rows of H A^-T, as one on the rows of H."""
        return self.inverse_transposed @ M @ self.inverse_transposed.T


def balance(GW: Array, GH: Array) -> Frame:
    """The frame that balances factors with Grams GW = W^T W and GH = H^T H.

    With GW = L L^T and L^T GH L = V D V^T: A = L^-T V D^(1/4), A^-T = L V D^(-1/4), sigma = D^(1/2), ascending.
    L = E d, from eigenvectors and roots of the eigenvalues of GW rather than Cholesky's: a Gram summed in float32 may
    have eigenvalues a little under zero.
    """
    _check_finite(GW, GH)
    # numpy's LAPACK calls rather than scipy's: a tenth of the overhead, which is what counts for a k x k matrix.
    d, E = np.linalg.eigh(GW)
    # A zero factor gets the unit frame's scale, so that nothing is divided by zero.
    d = np.sqrt(np.maximum(d, DEAD * d[-1] if d[-1] > NOTHING else 1.0))
    L = E * d
    D, V = np.linalg.eigh(L.T @ GH @ L)
    D = np.maximum(D, DEAD**2 * D[-1] if D[-1] > NOTHING**2 else 1.0)
    root = D**0.25
    return Frame((E / d) @ (V * root), L @ (V / root), root**2)


def accurate_balance(GW: Array, GH: Array) -> Frame:
    """The same frame as `balance`, with singular values accurate to the rounding of the largest.

    `balance` takes them as roots of eigenvalues, so that those below 1e-8 of the largest are lost. Here they are those
    of L^T R with GW = L L^T and GH = R R^T: small in both factors, they are small here without a root of what was
    rounded. It takes an SVD more, and is for the last digits of a solution in which directions die.
    """
    _check_finite(GW, GH)
    (d, E), (g, F) = np.linalg.eigh(GW), np.linalg.eigh(GH)
    eps = np.finfo(np.float64).eps
    # What is not invertible is only kept from being divided by: its singular value stays as small as it is.
    d = np.sqrt(np.maximum(d, eps * d[-1] if d[-1] > NOTHING else 1.0))
    U, sigma, _ = np.linalg.svd((E * d).T @ (F * np.sqrt(np.maximum(g, 0.0))))
    U, sigma = U[:, ::-1], sigma[::-1]
    root = np.sqrt(np.maximum(sigma, eps * sigma[-1] if sigma[-1] > NOTHING else 1.0))
    return Frame((E / d) @ (U * root), (E * d) @ (U / root), sigma)


def diagonal_frame(base: Array, ridge: Array, least: float) -> tuple[Array, Array, Array]:
    """T, its inverse, and r with T^T (base + ridge) T = I and T^T ridge T = diag(r), 0 <= r <= 1.

    Eigenvalues of base + ridge that are below a part `least` of the largest are lifted to it.
    """
    d, E = np.linalg.eigh(base + ridge)
    d = np.sqrt(np.maximum(d, least * d[-1] if d[-1] > NOTHING else 1.0))
    r, V = np.linalg.eigh((E / d).T @ ridge @ (E / d))
    return (E / d) @ V, V.T @ (E * d).T, np.clip(r, 0.0, 1.0)


def _check_finite(GW: Array, GH: Array) -> None:
    if not (np.isfinite(GW).all() and np.isfinite(GH).all()):
        raise FloatingPointError("Factors that are not finite have no balanced frame.")
