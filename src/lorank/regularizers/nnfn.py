"""The nuclear norm less another norm: NNFN, of singular values and of factors, and truncated l1-2."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from lorank.regularizers.base import (
    Factored,
    Float64Array,
    FloatArray,
    Spectral,
    SpectralValue,
    require,
    scaled_identity,
)
from lorank.regularizers.nuclear import Nuclear


@dataclass(frozen=True, kw_only=True)
class NNFN(Spectral):
    """NNFN, the nuclear norm minus the Frobenius norm.

        lam * (||sigma||_1 - theta * ||sigma||_2)

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

    concave: ClassVar[bool] = True

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
class FactoredNNFN(Factored):
    """NNFN of a product W H^T, as a function of its factors.

        lam/2 * (||W||_F^2 + ||H||_F^2) - theta * lam * ||W H^T||_F

    Not differentiable at W H^T = 0. There the subtracted norm is given the gradient 0, so W = H = 0 looks
    stationary to a solver: start away from it.

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.
    theta : float
        How much of the Frobenius norm is given back, from 0 (factored nuclear norm) to 1 (the paper's NNFN).

    References
    ----------
    Wang, Yao, Kwok, "A scalable, adaptive and sound nonconvex regularizer for low-rank matrix learning",
    WWW 2021.
    """

    theta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.theta <= 1, "theta", self.theta, "between 0 and 1")

    def value(self, GW: FloatArray, GH: FloatArray) -> float:
        ridge = 0.5 * float(np.trace(GW) + np.trace(GH))
        return self.lam * (ridge - self.theta * _product_norm(GW, GH))

    def multipliers(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(lam I - c GH, lam I - c GW) with c = theta * lam / ||W H^T||_F."""
        c = self._pull(GW, GH)
        return scaled_identity(self.lam, GW) - c * GH, scaled_identity(self.lam, GH) - c * GW

    def majorizer(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(lam I, c GH): minus a norm is concave, so it lies below its tangent at W_old."""
        return scaled_identity(self.lam, GW), self._pull(GW, GH) * GH

    def spectral(self) -> NNFN:
        return NNFN(lam=self.lam, theta=self.theta)

    def _pull(self, GW: FloatArray, GH: FloatArray) -> float:
        """c = theta * lam / ||W H^T||_F, and 0 at W H^T = 0, where 0 is a subgradient of the norm."""
        norm = _product_norm(GW, GH)
        return self.theta * self.lam / norm if norm > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class TruncatedL12(SpectralValue):
    """Truncated l1-2, NNFN of all singular values but the t largest.

        lam * (sum_{i > t} sigma_i - sqrt(sum_{i > t} sigma_i^2)),   sigma descending

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

    t: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(isinstance(self.t, (int, np.integer)) and self.t >= 0, "t", self.t, "an integer >= 0")

    def value(self, sigma: FloatArray) -> float:
        tail = np.sort(np.asarray(sigma, dtype=np.float64))[::-1][self.t :]
        return float(self.lam * (np.sum(tail) - np.linalg.norm(tail)))

    def with_threshold(self, threshold: float) -> Self:
        """The same regularizer with lam = threshold, which is the threshold of its convex part."""
        return replace(self, lam=threshold)

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


def _product_norm(GW: FloatArray, GH: FloatArray) -> float:
    """||W H^T||_F; rounding can leave <GW, GH> a little below 0 when the product is 0."""
    return math.sqrt(max(float(np.sum(GW * GH)), 0.0))
