"""Noise whose precision differs by row and by column: alpha c_i d_j.

    c_i ~ Gamma(nu/2, rate nu/2),  log(nu - 2) ~ N(log 8, 1.5^2);  the same for columns with a nu of their own

nu above 2 keeps the noise's variance finite: without it a line that can be fitted exactly takes nu to 0 and c to
infinity.

Raters differ in how well they can be predicted. Where lines are short, factors that must not know this explain the
noise of the worst lines by large directions, and sparse data get worse at higher rank.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lorank import kernels
from lorank.types import Array

LEAST, MIDDLE, WIDTH = 2.0, np.log(8.0), 1.5
# nu stays so far above LEAST: next to it their difference would be rounded to 0, which has no logarithm.
ABOVE = 1e-9


def draw_weights(loss: Array, counts: Array, alpha: float, nu: float, rng: np.random.Generator) -> tuple[Array, float]:
    """c (lines,) and nu, given alpha and half the squared residuals of each line (weighted by the other side's d).

    nu is drawn with c integrated out: a line of n entries and energy e has the likelihood
    Gamma(h + n/2) / Gamma(h) h^h (h + e)^-(h + n/2),  h = nu/2.
    """
    weights, start = np.empty(loss.size), np.log(max(nu - LEAST, ABOVE))
    t = kernels.draw_weights(loss, counts, alpha, start, LEAST, MIDDLE, WIDTH, rng, weights)
    return weights, LEAST + max(float(np.exp(t)), ABOVE)


def draw_nu(nu: float, likelihood: Callable[[float], float], rng: np.random.Generator) -> float:
    """The same nu, given its log likelihood as a function of t = log(nu - LEAST), wherever the lines are kept."""

    def density(t: float) -> float:
        return likelihood(t) - ((t - MIDDLE) / WIDTH) ** 2 / 2

    t = slice_sample(np.log(max(nu - LEAST, ABOVE)), density, rng)
    return LEAST + max(float(np.exp(t)), ABOVE)


def slice_sample(t: float, density: Callable[[float], float], rng: np.random.Generator, width: float = 1.0) -> float:
    """One draw of a number whose log density is known up to a constant (Neal's slice, stepping out).

    Where the density is not finite, as in a chain that has overflowed, it stays where it is.
    """
    level = density(t) + np.log(rng.random())
    if not np.isfinite(level):
        return t
    low = t - width * rng.random()
    high = low + width
    while density(low) > level:
        low -= width
    while density(high) > level:
        high += width
    while True:
        new = low + rng.random() * (high - low)
        if density(new) > level:
            return float(new)
        low, high = (new, high) if new < t else (low, new)
