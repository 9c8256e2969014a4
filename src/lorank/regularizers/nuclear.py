"""The nuclear norm, of singular values and of factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lorank.regularizers.base import Factored, Float64Array, FloatArray, Separable, scaled_identity


@dataclass(frozen=True, kw_only=True)
class Nuclear(Separable):
    """The nuclear norm, the sum of the singular values.

        lam * sum_i sigma_i

    It is convex, and its prox shrinks every singular value by the same amount.

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.

    References
    ----------
    Cai, Candes, Shen, "A singular value thresholding algorithm for matrix completion", SIAM J. Optim. 2010.
    """

    concave: ClassVar[bool] = True

    def penalty(self, sigma: Float64Array) -> Float64Array:
        return self.lam * sigma

    def threshold(self, step: float) -> float:
        return step * self.lam

    def shrink(self, sigma: Float64Array, step: float) -> Float64Array:
        return sigma - step * self.lam

    def factored(self) -> FactoredNuclear:
        """The regularizer of factors whose least value over the factors of X is this one."""
        return FactoredNuclear(lam=self.lam)


@dataclass(frozen=True, kw_only=True)
class FactoredNuclear(Factored):
    """The nuclear norm of a product W H^T, as a ridge on its factors.

        lam/2 * (||W||_F^2 + ||H||_F^2)

    Its least value over all factors of X is lam * ||X||_*; lam = 0 is plain matrix factorization.

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.

    References
    ----------
    Srebro, Rennie, Jaakkola, "Maximum-margin matrix factorization", NeurIPS 2004.
    """

    def value(self, GW: FloatArray, GH: FloatArray) -> float:
        return 0.5 * self.lam * float(np.trace(GW) + np.trace(GH))

    def multipliers(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(lam I, lam I)."""
        return scaled_identity(self.lam, GW), scaled_identity(self.lam, GH)

    def majorizer(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(lam I, 0): the regularizer is this quadratic."""
        return scaled_identity(self.lam, GW), np.zeros_like(GW)

    def spectral(self) -> Nuclear:
        return Nuclear(lam=self.lam)
