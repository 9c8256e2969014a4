"""What a regularizer must be able to do: a function of the singular values, or of two factors.

A regularizer holds its own weight ``lam`` and never sees data: ``value`` is added to the objective as it is.
All classes are frozen dataclasses: a path over lam is ``dataclasses.replace(regularizer, lam=...)``. What else a
regularizer has as fields are the parameters of its method; a field may say which values a search tries,
``ridge: float = field(default=0.1, metadata={"search": (0.01, 0.1, 1.0)})``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError

FloatArray = npt.NDArray[np.floating[Any]]
Float64Array = npt.NDArray[np.float64]


def require(allowed: bool, name: str, value: object, rule: str) -> None:
    """Raise `InputError` with one sentence about the parameter ``name``, unless its value is allowed.

    Write the condition so that NaN makes it False: ``0 <= lam < inf``, not ``not lam < 0``.
    """
    if not allowed:
        raise InputError(f"{name} must be {rule}, but it is {value!r}.")


def scaled_identity(scale: float, like: FloatArray) -> FloatArray:
    """scale * I, of the size and precision of ``like``."""
    return scale * np.eye(like.shape[0], dtype=like.dtype)


@dataclass(frozen=True, kw_only=True)
class SpectralValue(ABC):
    """A function of the singular values of a matrix, with its weight; all that an objective needs.

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.
    """

    # Whether it is concave in the singular values (a linear function is), so that its tangent bounds it above.
    concave: ClassVar[bool] = False

    lam: float = 1.0

    def __post_init__(self) -> None:
        require(0 <= self.lam < math.inf, "lam", self.lam, "a finite number >= 0")

    @abstractmethod
    def value(self, sigma: FloatArray) -> float:
        """The regularizer, lam included, at singular values ``sigma`` (nonnegative, in any order)."""


@dataclass(frozen=True, kw_only=True)
class Spectral(SpectralValue):
    """A function of the singular values whose proximal map is known exactly."""

    @abstractmethod
    def prox(self, sigma: FloatArray, step: float) -> Float64Array:
        """A global minimiser over x >= 0 of 1/2 ||x - sigma||^2 + step * value(x).

        Parameters
        ----------
        sigma : array, shape (r,)
            Nonnegative, descending. By von Neumann's trace inequality the proximal point of a whole matrix is
            ``U diag(prox(sigma)) V^T``, with the singular vectors of the matrix itself.
        step : float
            The step size, >= 0; the weight of the penalty in this problem is ``step * lam``.

        Returns
        -------
        x : float64 array, shape (r,)
            Descending (up to rounding), 0 <= x <= sigma.
        """

    @abstractmethod
    def threshold(self, step: float) -> float:
        """The largest z such that ``prox`` sends every singular value <= z to 0, whatever the others are.

        A truncated SVD may stop there, but must always hand over the largest singular value: NNFN can keep
        that one although it is below the threshold.
        """

    def with_threshold(self, threshold: float) -> Self:
        """The same regularizer with the lam whose ``threshold(1)`` is this one; a search goes along thresholds.

        By bisection, unless lam is the threshold itself. A threshold that no lam has leaves lam = threshold.
        """

        def reached(lam: float) -> float:
            return replace(self, lam=lam).threshold(1.0)

        low = high = lam = threshold
        if reached(lam) != threshold:
            while reached(low) > threshold and low > threshold * 1e-100:
                low /= 2
            while reached(high) < threshold and high < threshold * 1e100:
                high *= 2
            if reached(low) <= threshold <= reached(high):
                while low < (lam := (low + high) / 2) < high:
                    low, high = (lam, high) if reached(lam) < threshold else (low, lam)
        return replace(self, lam=lam)


@dataclass(frozen=True, kw_only=True)
class Separable(Spectral):
    """A sum of one penalty over the singular values, so that its prox is a function of one number.

    A subclass gives the penalty, the threshold and the proximal point above it. The threshold alone decides
    which values die: a comparison of two objective values would be decided by rounding next to the jump of a
    nonconvex penalty, and could break the order of the singular values.
    """

    @abstractmethod
    def penalty(self, sigma: Float64Array) -> Float64Array:
        """The penalty of each singular value, lam included; same shape as ``sigma``."""

    @abstractmethod
    def shrink(self, sigma: Float64Array, step: float) -> Float64Array:
        """The proximal point of values that are all above ``threshold(step)``; same shape as ``sigma``."""

    def value(self, sigma: FloatArray) -> float:
        """The sum of ``penalty`` over the singular values."""
        return float(np.sum(self.penalty(np.asarray(sigma, dtype=np.float64))))

    def prox(self, sigma: FloatArray, step: float) -> Float64Array:
        """0 up to ``threshold(step)``, ``shrink`` above it."""
        z = np.asarray(sigma, dtype=np.float64)
        x = np.zeros_like(z)
        alive = z > self.threshold(step)
        # A concave penalty never pushes a value up; rounding might.
        x[alive] = np.minimum(self.shrink(z[alive], step), z[alive])
        return x


@dataclass(frozen=True, kw_only=True)
class Factored(ABC):
    """A function of factors W (m x k) and H (n x k) that needs only GW = W^T W and GH = H^T H (k x k each).

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.
    """

    lam: float = 1.0

    def __post_init__(self) -> None:
        require(0 <= self.lam < math.inf, "lam", self.lam, "a finite number >= 0")

    @abstractmethod
    def value(self, GW: FloatArray, GH: FloatArray) -> float:
        """The regularizer, lam included."""

    @abstractmethod
    def multipliers(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(MW, MH), k x k each, with gradients W @ MW and H @ MH; in the precision of the Grams."""

    @abstractmethod
    def majorizer(self, GW: FloatArray, GH: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(ridge, pull), k x k each: a quadratic in W that bounds the regularizer above while H stays fixed.

            g(W) = 1/2 <W ridge, W> - <W, W_old pull> + const,

        equal to the regularizer at W_old. The first Gram is that of the factor being updated: for the
        half-step in H, call ``majorizer(GH, GW)``.
        """

    @abstractmethod
    def spectral(self) -> Spectral:
        """The spectral regularizer that this one equals at balanced factors W = U sqrt(S), H = V sqrt(S)."""

    def with_threshold(self, threshold: float) -> Self:
        """The same regularizer with the lam whose spectral form has this ``threshold(1)``."""
        return replace(self, lam=self.spectral().with_threshold(threshold).lam)
