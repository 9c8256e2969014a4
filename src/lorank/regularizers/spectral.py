"""The nuclear norm and what is made by subtracting a norm from it: NNFN and truncated l1-2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lorank.regularizers.base import Float64Array, FloatArray, Separable, Spectral, SpectralValue, require

if TYPE_CHECKING:
    from lorank.regularizers.factored import FactoredNuclear


@dataclass(frozen=True, kw_only=True)
class Nuclear(Separable):
    """The nuclear norm, lam * sum_i sigma_i: convex, and shrinks every singular value by the same amount.

    References
    ----------
    Cai, Candes, Shen, "A singular value thresholding algorithm for matrix completion", SIAM J. Optim. 2010.
    """

    def penalty(self, sigma: Float64Array) -> Float64Array:
        return self.lam * sigma

    def threshold(self, step: float) -> float:
        return step * self.lam

    def shrink(self, sigma: Float64Array, step: float) -> Float64Array:
        return sigma - step * self.lam

    def factored(self) -> FactoredNuclear:
        """The regularizer of factors whose least value over the factors of X is this one."""
        from lorank.regularizers.factored import FactoredNuclear

        return FactoredNuclear(lam=self.lam)


@dataclass(frozen=True, kw_only=True)
class NNFN(Spectral):
    """Nuclear norm minus Frobenius norm, lam * (||sigma||_1 - theta * ||sigma||_2).

    The larger a singular value, the less it is shrunk. At theta = 1 a matrix of rank one costs nothing,
    so the proximal point of anything but 0 has rank one or more: NNFN with theta = 1 never says "rank 0".

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.
    theta : float
        How much of the Frobenius norm is given back, from 0 (the nuclear norm) to 1 (the paper's NNFN).

    References
    ----------
    Wang, Yao, Kwok, "A scalable, adaptive and sound nonconvex regularizer for low-rank matrix learning",
    WWW 2021.
    Lou, Yan, "Fast L1-L2 minimization via a proximal operator", J. Sci. Comput. 2018 (the prox).
    """

    theta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.theta <= 1, "theta", self.theta, "between 0 and 1")

    def value(self, sigma: FloatArray) -> float:
        z = np.asarray(sigma, dtype=np.float64)
        return float(self.lam * (np.sum(z) - self.theta * np.linalg.norm(z)))

    def threshold(self, step: float) -> float:
        """step * lam; the largest singular value alone survives down to (1 - theta) * step * lam."""
        return step * self.lam

    def prox(self, sigma: FloatArray, step: float) -> Float64Array:
        """With L = step * lam, M = max(sigma) and s = (sigma - L)_+ the minimiser is

        - s * (1 + theta L / ||s||_2)         if M > L;
        - M - (1 - theta) L at one maximum    if (1 - theta) L < M <= L, and 0 elsewhere;
        - 0                                   if M <= (1 - theta) L.

        At M = L every x >= 0 on the maxima with ||x||_2 = theta L is a minimiser: one of rank one is taken.
        Below L only those of rank one are left, and a tie goes to the first maximum.
        """
        z = np.asarray(sigma, dtype=np.float64)
        x = np.zeros_like(z)
        if z.size == 0:
            return x
        weight = step * self.lam
        top = int(np.argmax(z))
        if z[top] > weight:
            s = np.maximum(z - weight, 0.0)
            # Scaled before the norm is taken, so that tiny values do not underflow to 0 / 0.
            direction = s / s[top]
            direction /= np.linalg.norm(direction)
            x = np.minimum(s + self.theta * weight * direction, z)
        elif z[top] > (1.0 - self.theta) * weight:
            x[top] = z[top] - (1.0 - self.theta) * weight
        return x


@dataclass(frozen=True, kw_only=True)
class TruncatedL12(SpectralValue):
    """Truncated l1-2, lam * (sum_{i > t} sigma_i - sqrt(sum_{i > t} sigma_i^2)), sigma descending.

    It has no closed prox. It is a difference of convex functions,

        lam * ||sigma||_1 - lam * (sum_{i <= t} sigma_i + ||tail||_2),   tail = (sigma_i, i > t),

    and a solver linearises the second one at the current point and keeps the first (DCA).

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.
    t : int
        How many of the largest singular values cost nothing, >= 0. t = 0 is NNFN with theta = 1.

    References
    ----------
    Ma, Lou, Huang, "Truncated l1-2 models for sparse recovery and rank minimization", SIAM J. Imaging Sci.
    2017.
    """

    t: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require(isinstance(self.t, (int, np.integer)) and self.t >= 0, "t", self.t, "an integer >= 0")

    def value(self, sigma: FloatArray) -> float:
        tail = np.sort(np.asarray(sigma, dtype=np.float64))[::-1][self.t :]
        return float(self.lam * (np.sum(tail) - np.linalg.norm(tail)))

    def convex_part(self) -> Nuclear:
        """The part that DCA keeps: the nuclear norm with the same lam."""
        return Nuclear(lam=self.lam)

    def subgradient_weights(self, sigma: FloatArray) -> Float64Array:
        """Weights w that make U diag(w) V^T a subgradient, at X = U diag(sigma) V^T, of what is subtracted.

        1 for the t largest, sigma_i / ||tail||_2 for the rest (0 if the tail is 0). lam is left out: the
        linearised regularizer is ``convex_part().value(sigma) - lam * <U diag(w) V^T, X>``.

        Parameters
        ----------
        sigma : array, shape (r,)
            Nonnegative, descending.
        """
        weights = np.array(sigma, dtype=np.float64)
        weights[: self.t] = 1.0
        norm = np.linalg.norm(weights[self.t :])
        if norm > 0:
            weights[self.t :] /= norm
        return weights
