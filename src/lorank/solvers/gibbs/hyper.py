"""What is drawn above the factors of one side: mu, Lambda, the weight lb of the features, and M = F B.

    w_i ~ N(mu + M_i, Lambda^-1),  mu_d = 0 for factors, flat for the offset
    Lambda | a ~ Wishart((2 nu diag(1/a))^-1, nu + p - 1),  1/a_d ~ Gamma(1/2, rate 1/A_d^2)

Each standard deviation is half-t(nu, A_d) then (Huang and Wand), correlations are free. A half-t has its mode at zero
and a heavy tail, so that directions that are not needed shrink to nothing, and no scale must be guessed.

A line whose features are unknown has M_i ~ N(0, q / lb Lambda^-1) instead, q the mean of the others' |f|^2: it varies
as much as they do, and not only as much as their features leave. Nothing is seen of such a line, so that nothing is
learnt from it.

References
----------
Huang, Wand, "Simple marginally noninformative prior distributions for covariance matrices", Bayesian Analysis 2013.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.linalg

from lorank import kernels
from lorank.side_information.features import Directions
from lorank.solvers.gibbs.noise import slice_sample
from lorank.types import Array

# Degrees of freedom of the half-t.
NU = 2.0
# The mean of a factor would only say again what the offsets say; that of the offset counts as this much of a row.
MEAN_ROWS = 1e-2
# Of single precision, as a part of a variance.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Hyper:
    """A draw: mu (p,), Lambda (p, p), 1/a (p,), lb, and U^T M (r, p) if there are features."""

    mu: Array
    Lambda: Array
    inverse_a: Array
    lb: float = 1.0
    coefficients: Array | None = None


class Prior:
    """One side's hyperprior: k factors (and an offset), of data with this variance, and the directions of its features.

    With `centred` the offset has no mean of its own.
    """

    def __init__(
        self, k: int, biased: bool, variance: float, features: Directions | None = None, centred: bool = False
    ) -> None:
        self.k, self.p, self.features = k, k + biased, features
        self.A = np.full(self.p, (variance / k) ** 0.25)
        self.A[k:] = np.sqrt(variance)
        self.free = (np.arange(self.p) >= k) & (not centred)
        self.unknown = np.zeros(0, np.int64) if features is None else features.unknown
        self.ones = np.zeros(0) if features is None else features.ones

    def start(self, deviations: Array) -> Hyper:
        """For factors of these standard deviations (p,)."""
        precision = np.maximum(deviations, 1e-3 * self.A) ** -2.0
        return Hyper(np.zeros(self.p), np.diag(precision), self.A**2)

    def draw(self, last: Hyper, factor: Array, rng: np.random.Generator) -> Hyper:
        """lb, mu, Lambda and 1/a with B integrated out, then M. factor (lines, p)."""
        known = np.delete(factor, self.unknown, axis=0) if self.unknown.size else factor
        W = known.astype(np.float64)
        Z = None if self.features is None else self.features.project(factor)
        return self.draw_by_sums(last, W.T @ W, W.sum(axis=0), len(W), Z, rng)

    def draw_by_sums(
        self, last: Hyper, second: Array, total: Array, lines: int, Z: Array | None, rng: np.random.Generator
    ) -> Hyper:
        """The same, given W^T W (p, p) and W^T 1 (p,) of so many lines, and Z = U^T W (r, p) if they have features."""
        if self.features is None or Z is None:
            return self._draw(last, second, total, lines, float(lines), rng)
        squares = self.features.squares
        lb = draw_lb(last.lb, Z - np.outer(self.ones, last.mu), last.Lambda, squares, rng)
        gain = squares / (squares + lb)
        # U is in single precision: where features say everything, what is left of a variance is its rounding.
        second = second - Z.T @ (gain[:, None] * Z) + np.diag(ROUNDING * np.diag(second))
        total = total - Z.T @ (gain * self.ones)
        drawn = self._draw(last, second, total, lines, lines - float(gain @ self.ones**2), rng)
        E = normal(Z.shape, drawn.Lambda, rng)
        coefficients = gain[:, None] * (Z - np.outer(self.ones, drawn.mu)) + np.sqrt(gain)[:, None] * E
        return replace(drawn, lb=lb, coefficients=coefficients)

    def _draw(
        self, last: Hyper, second: Array, total: Array, lines: int, ones: float, rng: np.random.Generator
    ) -> Hyper:
        """mu, Lambda and 1/a given sums of so many lines, less what features say of them.

        `ones` is 1^T 1 less that: the number of lines without features.
        """
        mu, Lambda, inverse_a = kernels.draw_prior(
            second,
            total,
            ones + MEAN_ROWS,  # the prior of mu counts as a part of a line
            NU + self.p - 1 + lines + self.free.sum(),
            *(last.Lambda, last.inverse_a, self.A, self.free, NU, rng),
        )
        return Hyper(mu, Lambda, inverse_a, last.lb)

    def means(self, hyper: Hyper, lines: int, dtype: npt.DTypeLike, rng: np.random.Generator) -> Array:
        """mu + M (lines, p), drawn where the features of a line are unknown."""
        if self.features is None or hyper.coefficients is None:
            return np.tile(hyper.mu.astype(dtype), (lines, 1))
        M = self.features.U @ hyper.coefficients.astype(self.features.U.dtype)
        if self.unknown.size:
            scale = np.sqrt(self.features.mean_square / hyper.lb)
            M[self.unknown] = scale * normal((self.unknown.size, self.p), hyper.Lambda, rng)
        return (M + hyper.mu.astype(M.dtype)).astype(dtype, copy=False)


def normal(shape: tuple[int, ...], Lambda: Array, rng: np.random.Generator) -> Array:
    """Rows ~ N(0, Lambda^-1): Lambda = L L^T, so that Lambda^-1 = root^T root with root = L^-1."""
    root = scipy.linalg.solve_triangular(np.linalg.cholesky(Lambda), np.eye(len(Lambda)), lower=True)
    return np.asarray(rng.standard_normal(shape) @ root)


def draw_lb(lb: float, R: Array, Lambda: Array, squares: Array, rng: np.random.Generator) -> float:
    """lb given R = U^T (W - mu), B integrated out: rows of R ~ N(0, (1 + s^2 / lb) Lambda^-1); lb ~ Gamma(1/2, 1/2)."""
    energy = np.einsum("ea,ea->e", R @ Lambda, R)
    p = R.shape[1]

    def density(t: float) -> float:
        grown = 1 + squares * np.exp(-t)
        return float(-0.5 * (p * np.log(grown) + energy / grown).sum() + 0.5 * t - 0.5 * np.exp(t))

    return float(np.exp(slice_sample(np.log(lb), density, rng)))
