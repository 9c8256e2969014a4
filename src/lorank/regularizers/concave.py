"""Sums of a concave penalty over the singular values: capped-l1, log-sum, MCP and Schatten-p.

Each prox is a global minimiser for every step: with a large step 1/2 (x - z)^2 + step * penalty(x) is no
longer convex, and the answer jumps from 0 to a positive value at the threshold. L stands for step * lam.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from lorank.regularizers.base import Float64Array, Separable, require


@dataclass(frozen=True, kw_only=True)
class CappedL1(Separable):
    """Capped l1, the sum of the singular values up to a cap.

        lam * sum_i min(sigma_i, theta)

    Values well beyond the cap are not shrunk at all.

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.
    theta : float
        The cap, > 0, in the unit of the singular values.

    References
    ----------
    Zhang, "Analysis of multi-stage convex relaxation for sparse regularization", JMLR 2010.
    """

    concave: ClassVar[bool] = True

    theta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.theta < math.inf, "theta", self.theta, "a finite number > 0")

    def penalty(self, sigma: Float64Array) -> Float64Array:
        return self.lam * np.minimum(sigma, self.theta)

    def threshold(self, step: float) -> float:
        """L while the slope is what kills (L < 2 theta); then sqrt(2 L theta), where z^2/2 equals the cap."""
        weight = step * self.lam
        return weight if weight < 2 * self.theta else math.sqrt(2 * weight * self.theta)

    def shrink(self, sigma: Float64Array, step: float) -> Float64Array:
        """z - L up to theta + L/2, where its cost L^2/2 + L (z - L) reaches that of the cap; z beyond."""
        weight = step * self.lam
        if weight >= 2 * self.theta:
            return sigma
        return np.where(sigma > self.theta + weight / 2, sigma, sigma - weight)


@dataclass(frozen=True, kw_only=True)
class LSP(Separable):
    """The log-sum penalty, a sum of logarithms of the singular values.

        lam * sum_i log(1 + sigma_i / theta)

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.
    theta : float
        The scale of the logarithm, > 0, in the unit of the singular values.

    References
    ----------
    Candes, Wakin, Boyd, "Enhancing sparsity by reweighted l1 minimization", J. Fourier Anal. Appl. 2008.
    """

    concave: ClassVar[bool] = True

    theta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.theta < math.inf, "theta", self.theta, "a finite number > 0")

    def penalty(self, sigma: Float64Array) -> Float64Array:
        return self.lam * np.log1p(sigma / self.theta)

    def threshold(self, step: float) -> float:
        """L / theta while the problem is convex (L <= theta^2); beyond, by bisection.

        A stationary x > 0 belongs to z = x + L / (theta + x). It costs as much as x = 0 where
        L (log(1 + x / theta) - x / (theta + x)) = x^2 / 2, which has one root above sqrt(L) - theta.
        """
        weight, theta = step * self.lam, self.theta
        if weight <= theta**2:
            return weight / theta

        def excess(x: float) -> float:
            return weight * (math.log1p(x / theta) - x / (theta + x)) - x**2 / 2

        x = _root_of_decreasing(excess, math.sqrt(weight) - theta, 2 * weight / theta)
        return x + weight / (theta + x)

    def with_threshold(self, threshold: float) -> Self:
        """lam = theta * threshold as long as that is at most theta^2; beyond, by bisection."""
        return (
            replace(self, lam=self.theta * threshold) if threshold <= self.theta else super().with_threshold(threshold)
        )

    def shrink(self, sigma: Float64Array, step: float) -> Float64Array:
        """The larger root of (x - z)(x + theta) + L = 0: ((z - theta) + sqrt((z + theta)^2 - 4 L)) / 2."""
        theta = self.theta
        above = theta * (sigma - step * self.lam / theta)
        gap = sigma - theta
        root = np.sqrt(np.maximum(gap**2 + 4 * above, 0.0))
        # Below theta the two terms cancel; there take the product of the roots over the other root.
        x: Float64Array = (gap + root) / 2
        low = gap < 0
        x[low] = 2 * above[low] / (root[low] - gap[low])
        return x


@dataclass(frozen=True, kw_only=True)
class MCP(Separable):
    """The minimax concave penalty, a parabola that turns flat.

        sum_i lam * sigma_i - sigma_i^2 / (2 theta)   up to sigma_i = theta lam,   theta lam^2 / 2 beyond

    Singular values x beyond theta * lam are not shrunk at all.

    Parameters
    ----------
    lam : float
        The slope at 0, finite and >= 0.
    theta : float
        One over the concavity, > 0, without unit. For steps >= theta the prox is hard thresholding.

    References
    ----------
    Zhang, "Nearly unbiased variable selection under minimax concave penalty", Ann. Statist. 2010.
    """

    concave: ClassVar[bool] = True

    theta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.theta < math.inf, "theta", self.theta, "a finite number > 0")

    def penalty(self, sigma: Float64Array) -> Float64Array:
        bent = np.minimum(sigma, self.theta * self.lam)
        return self.lam * bent - bent**2 / (2 * self.theta)

    def threshold(self, step: float) -> float:
        """L for step < theta; else lam sqrt(step theta), as the problem is concave up to theta lam."""
        return self.lam * (step if step < self.theta else math.sqrt(step * self.theta))

    def shrink(self, sigma: Float64Array, step: float) -> Float64Array:
        """(z - L) / (1 - step / theta) up to theta lam and z beyond; z alone for step >= theta."""
        if step >= self.theta:
            return sigma
        bent = (sigma - step * self.lam) * (self.theta / (self.theta - step))
        return np.where(sigma > self.theta * self.lam, sigma, bent)


@dataclass(frozen=True, kw_only=True)
class SchattenP(Separable):
    """The Schatten-p penalty, a sum of powers of the singular values.

        lam * sum_i sigma_i^p,   0 < p < 1

    Parameters
    ----------
    lam : float
        The weight, finite and >= 0.
    p : float
        The power, strictly between 0 and 1. The prox is closed for 1/2 and 2/3, by Newton's method otherwise.

    References
    ----------
    Nie, Huang, Ding, "Low-rank matrix recovery via efficient Schatten p-norm minimization", AAAI 2012.
    Zuo, Meng, Zhang, Feng, Zhang, "A generalized iterated shrinkage algorithm", ICCV 2013 (the threshold).
    Xu, Chang, Xu, Zhang, "L1/2 regularization: a thresholding representation theory", IEEE TNNLS 2012.
    """

    concave: ClassVar[bool] = True

    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.p < 1, "p", self.p, "strictly between 0 and 1")

    def penalty(self, sigma: Float64Array) -> Float64Array:
        return self.lam * sigma**self.p

    def _jump(self, step: float) -> float:
        """The proximal point just above the threshold, (2 L (1 - p))^(1 / (2 - p))."""
        return float((2 * step * self.lam * (1 - self.p)) ** (1 / (2 - self.p)))

    def threshold(self, step: float) -> float:
        """(2 - p) / (2 (1 - p)) times the jump (2 L (1 - p))^(1 / (2 - p))."""
        return self._jump(step) * (2 - self.p) / (2 * (1 - self.p))

    def with_threshold(self, threshold: float) -> Self:
        """``threshold(1)`` solved for lam."""
        jump = threshold * 2 * (1 - self.p) / (2 - self.p)
        return replace(self, lam=jump ** (2 - self.p) / (2 * (1 - self.p)))

    def shrink(self, sigma: Float64Array, step: float) -> Float64Array:
        """The larger root of x - z + L p x^(p - 1) = 0.

        In units of the jump, x = jump * u and z = jump * v, the equation u - v + c u^(p - 1) = 0 with
        c = p / (2 (1 - p)) has neither lam nor step in it, and u >= 1.
        """
        jump = self._jump(step)
        if jump == 0:
            return sigma
        v = sigma / jump
        if self.p == 1 / 2:
            return jump * _largest_root_half(v)
        if self.p == 2 / 3:
            return jump * _largest_root_two_thirds(v)
        return jump * _largest_root_newton(v, self.p)


def _root_of_decreasing(function: Callable[[float], float], low: float, high: float) -> float:
    """Bisect to the last bit. Unlike brentq, it does not mind if rounding gives an end the wrong sign."""
    while low < (middle := (low + high) / 2) < high:
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return high


def _largest_root_half(v: Float64Array) -> Float64Array:
    """u - v + u^(-1/2) / 2 = 0 is the cubic w^3 - v w + 1/2 = 0 in w = sqrt(u): Viete's cosine."""
    angle = np.arccos(-0.75 / v * np.sqrt(3 / v))
    w: Float64Array = 2 * np.sqrt(v / 3) * np.cos(angle / 3)
    return w**2


def _largest_root_two_thirds(v: Float64Array) -> Float64Array:
    """u - v + u^(-1/3) = 0 is the quartic w^4 - v w + 1 = 0 in w = u^(1/3): Ferrari.

    It splits into (w^2 + a w + ...)(w^2 - a w + ...) where m = a^2 solves m^3 - 4 m - v^2 = 0.
    """
    m = 4 / math.sqrt(3) * np.cosh(np.arccosh(3 * math.sqrt(3) / 16 * v**2) / 3)
    a = np.sqrt(m)
    w: Float64Array = (a + np.sqrt(2 * v / a - m)) / 2
    return w**3


def _largest_root_newton(v: Float64Array, p: float) -> Float64Array:
    """u - v + c u^(p - 1) = 0 by Newton from u = v.

    The left side is convex with a slope between 1 - p/2 and 1 from the root to v, so the iterates fall to the
    root without overshooting, and a handful of them reach the last bits.
    """
    c = p / (2 * (1 - p))
    u = v.copy()
    for _ in range(50):
        pull = c * u ** (p - 1)
        change = (u - v + pull) / (1 - (1 - p) * pull / u)
        u -= change
        if np.all(np.abs(change) <= 4 * np.finfo(np.float64).eps * v):
            break
    return u
