"""Group-sparse regularizers of factors: whole columns of W and H are driven to 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lorank.errors import InputError
from lorank.regularizers.base import Factored, FloatArray
from lorank.regularizers.concave import SchattenP


@dataclass(frozen=True, kw_only=True)
class FactoredGSR(Factored):
    """The factored group-sparse regularizer of power 1/2, a sum of the norms of the columns of both factors.

        lam/2 * sum_j (||w_j||_2 + ||h_j||_2)

    Its least value over all factors of X is lam * sum_i sigma_i^(1/2), so whole columns are driven to 0.

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.

    References
    ----------
    Fan, Ding, Chen, Udell, "Factor group-sparse regularization for efficient low-rank matrix recovery",
    NeurIPS 2019.
    """

    def value(self, GW: FloatArray, GH: FloatArray) -> float:
        return 0.5 * self.lam * float(np.sum(_column_norms(GW)) + np.sum(_column_norms(GH)))

    def multipliers(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(diag(lam / (2 ||w_j||)), diag(lam / (2 ||h_j||))), with 0 for a column that is 0."""
        return self._gradient_weights(GW), self._gradient_weights(GH)

    def majorizer(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(diag(lam / (2 ||w_j||)), 0): a norm is the square root of its square, and the root is concave.

        A norm is not let below 1e-10 of the largest column's, so that a dead column keeps a finite ridge that
        holds it at 0; there the bound may be short by at most lam/4 times that floor.
        """
        norms = _column_norms(GW)
        largest = float(np.max(norms, initial=0.0))
        floor = 1e-10 * (largest if largest > 0 else 1.0)
        return np.diag(0.5 * self.lam / np.maximum(norms, floor)), np.zeros_like(GW)

    def spectral(self) -> SchattenP:
        return SchattenP(lam=self.lam, p=0.5)

    @property
    def exponents(self) -> tuple[float, float]:
        """(a, b): of all factors of X = U S V^T, W = U S^a and H = V S^b cost least."""
        return 0.5, 0.5

    def shrink_norms(self, norms: FloatArray, step: float, which: int) -> FloatArray:
        """Norms of the columns of W (which = 0) or H (1) after the prox of their part of the sum."""
        return np.maximum(norms - 0.5 * self.lam * step, 0)

    def _gradient_weights(self, gram: FloatArray) -> FloatArray:
        norms = _column_norms(gram)
        weights = np.zeros_like(norms)
        np.divide(0.5 * self.lam, norms, out=weights, where=norms > 0)
        return np.diag(weights)


@dataclass(frozen=True, kw_only=True)
class FactoredGSRTwoThirds(Factored):
    """The factored group-sparse regularizer of power 2/3, a sum of powers of products of column norms.

        lam * sum_j (||w_j||_2 ||h_j||_2)^(2/3)

    It is the least value of lam * 2/3 * sum_j (||w_j||_2 + ||h_j||_2^2 / 2) over all scales s_j of w_j s_j and
    h_j / s_j, and its own least value over all factors of X is lam * sum_i sigma_i^(2/3).

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.

    References
    ----------
    Fan, Ding, Chen, Udell, "Factor group-sparse regularization for efficient low-rank matrix recovery",
    NeurIPS 2019.
    """

    def value(self, GW: FloatArray, GH: FloatArray) -> float:
        return self.lam * float(np.sum((_column_norms(GW) * _column_norms(GH)) ** (2 / 3)))

    def multipliers(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """diag(2/3 lam (||w_j|| ||h_j||)^(2/3) / ||w_j||^2) and likewise for H, with 0 for a column that is 0."""
        return self._weights(GW, GH), self._weights(GH, GW)

    def majorizer(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(the multiplier of W, 0): a power below 1 of ||w_j||^2 is concave.

        As for `FactoredGSR` a dead column keeps a large ridge that holds it at 0.
        """
        norms, others = _column_norms(GW), _column_norms(GH)
        largest = float(np.max(norms, initial=0.0))
        floor = 1e-10 * (largest if largest > 0 else 1.0)
        return np.diag(2 / 3 * self.lam * others ** (2 / 3) * np.maximum(norms, floor) ** (-4 / 3)), np.zeros_like(GW)

    def spectral(self) -> SchattenP:
        return SchattenP(lam=self.lam, p=2 / 3)

    @property
    def exponents(self) -> tuple[float, float]:
        """(a, b): W = U S^a and H = V S^b attain the least value of the sum, not only of the product."""
        return 2 / 3, 1 / 3

    def shrink_norms(self, norms: FloatArray, step: float, which: int) -> FloatArray:
        """Norms of the columns of W (which = 0) or H (1) after the prox of their part of the sum."""
        weight = 2 / 3 * self.lam * step
        return np.maximum(norms - weight, 0) if which == 0 else norms / (1 + weight)

    def _weights(self, gram: FloatArray, other: FloatArray) -> FloatArray:
        norms, others = _column_norms(gram), _column_norms(other)
        weights = np.zeros_like(norms)
        np.divide(2 / 3 * self.lam * (norms * others) ** (2 / 3), norms**2, out=weights, where=norms > 0)
        return np.diag(weights)


def group_sparse(lam: float, p: float) -> FactoredGSR | FactoredGSRTwoThirds:
    """The factored group-sparse regularizer whose least value is lam * sum_i sigma_i^p, for p = 1/2 or 2/3."""
    for power, kind in ((1 / 2, FactoredGSR), (2 / 3, FactoredGSRTwoThirds)):
        if math.isclose(p, power, rel_tol=1e-2):
            return kind(lam=lam)
    raise InputError(f"p must be 1/2 or 2/3 for the factored group-sparse regularizer, but it is {p!r}.")


def _column_norms(gram: FloatArray) -> FloatArray:
    norms: FloatArray = np.sqrt(np.maximum(np.diagonal(gram), 0))
    return norms
