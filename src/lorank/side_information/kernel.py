"""Kernels on places or times: Gaussian priors of a factor, by a change of variables.

A smooth field has rows with covariance K(i, j) = kernel(distance of i and j). With K = C C^T and W = C U, every
factored regularizer is applied to U, whose rows are independent. Rows that were never observed are then predicted as
kriging would, W_new = K_new K^-1 W, also at places that were not there when the model was fitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.spatial.distance import cdist

from lorank.errors import InputError
from lorank.regularizers.base import require
from lorank.side_information.coordinates import check_coordinates, sphere
from lorank.types import Array

Kernel = Literal["exponential", "matern12", "matern32", "matern52"]
# How often a field is differentiable, by the name of its kernel.
SMOOTHNESS = {"exponential": 0, "matern12": 0, "matern32": 1, "matern52": 2}

# Up to so many observed rows the covariance is exact, a dense matrix; beyond, it goes through inducing points.
EXACT_LIMIT = 3000
INDUCING = 1000
# Variances below this part of the largest are dropped: they are rounding.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class KernelPrior:
    """A Gaussian prior of a factor whose rows are the more alike, the nearer their points are.

        cov(w_i, w_j) = (kernel(||p_i - p_j|| / length) + nugget [i = j]) / weight,   kernel(0) = 1
        exponential (matern12)  exp(-r)
        matern32                (1 + sqrt(3) r) exp(-sqrt(3) r)
        matern52                (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)

    Parameters
    ----------
    points : (m, d)
        Positions; see `on_earth` and `on_time`.
    kernel : "exponential" (the same as "matern12"), "matern32", "matern52"
        How smooth the field is; the variance at a point is 1.
    length : float
        Distance over which similarity falls, in the unit of the points.
    nugget : float
        Variance of what a place has for itself, which its neighbours do not share.
    weight : float
        The precision is multiplied by it; the same as a larger lam.

    References
    ----------
    Rasmussen, Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, chapter 4.
    """

    points: Array
    kernel: Kernel = "exponential"
    length: float = 1.0
    nugget: float = 0.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.kernel not in get_args(Kernel):
            raise InputError(f"Unknown kernel {self.kernel!r}; there are {', '.join(get_args(Kernel))}.")
        require(0 < self.length < np.inf, "length", self.length, "a finite number > 0")
        require(0 <= self.nugget < np.inf, "nugget", self.nugget, "a finite number >= 0")
        require(0 < self.weight < np.inf, "weight of a prior", self.weight, "a finite number > 0")

    @classmethod
    def on_earth(cls, latitude: npt.ArrayLike, longitude: npt.ArrayLike, **parameters: Any) -> KernelPrior:
        """Of places in degrees; length is in 1000 km.

        Distances are chords through the Earth, for which every one of the kernels is positive definite; at 1000 km they
        are 0.1% shorter than along the surface.
        """
        return cls(sphere(*check_coordinates(latitude, longitude)), **parameters)

    @classmethod
    def on_time(cls, time: npt.ArrayLike, **parameters: Any) -> KernelPrior:
        """Of points in time; length is in years for dates (datetime64), else in the unit of the numbers."""
        times = np.asarray(time)
        if times.dtype.kind == "M":
            times = times.astype("datetime64[s]").astype(np.float64) / (365.25 * 86400)
        times = times.astype(np.float64).reshape(-1, 1)
        if not np.isfinite(times).all() or np.unique(times).size < times.size:
            raise InputError("Times must be finite, and each of them given once.")
        return cls(times, **parameters)

    @property
    def size(self) -> int:
        return len(self.points)

    def covariance(self, points: Array, others: Array) -> Array:
        """kernel(distance / length) between points (a, d) and others (b, d), without the nugget."""
        # scikit-learn's Matern gives the same values, and loads a hundred modules that nothing else here needs.
        r = cdist(points, others) / self.length
        if self.kernel in ("exponential", "matern12"):
            shape = np.exp(-r)
        elif self.kernel == "matern32":
            r *= np.sqrt(3)
            shape = (1 + r) * np.exp(-r)
        else:
            r *= np.sqrt(5)
            shape = (1 + r + r**2 / 3) * np.exp(-r)
        return shape / self.weight

    def scaled(self, factor: float) -> KernelPrior:
        """The same prior with so many times the weight."""
        return replace(self, weight=self.weight * factor)

    def bind(self, fractions: Array) -> Whitening:
        """The prior for rows of which these fractions (m,) were observed."""
        if self.size != fractions.size:
            raise InputError(f"The prior has {self.size} points, and the matrix {fractions.size} lines along it.")
        observed = np.flatnonzero(fractions > 0)
        share = fractions[observed]
        seen = self.points[observed]
        if observed.size <= EXACT_LIMIT:
            K = self.covariance(seen, seen)
            K[np.diag_indices_from(K)] += self.nugget / self.weight
            root = np.sqrt(share)
            values, Q = scipy.linalg.eigh(root[:, None] * K * root, overwrite_a=True, driver="evd")
            values, Q = _kept(values, Q)
            C = Q * np.sqrt(values) / root[:, None]
            # New rows are K_new K^-1 C = K_new S C / values, since C^T S C = diag(values).
            return Whitening(self, observed, share, C, values, seen, share[:, None] * C / values)
        # Nystrom: K is replaced by K_mp K_pp^-1 K_pm, whose nugget is part of the noise.
        inducing = seen[spread(seen, INDUCING)]
        Kpp = self.covariance(inducing, inducing)
        variances, P = _kept(*scipy.linalg.eigh(Kpp))
        P = P / np.sqrt(variances)
        B = self.covariance(seen, inducing) @ P
        values, Q = _kept(*scipy.linalg.eigh(B.T @ (share[:, None] * B)))
        return Whitening(self, observed, share, B @ Q, values, inducing, P @ Q)


@dataclass(frozen=True, eq=False)
class Whitening:
    """A kernel prior for given observed rows: the change of variables by which rows become independent.

        W = C U on the observed rows,   C^T diag(share) C = diag(values),   W_new = covariance(new, anchors) lift U

    The unobserved rows need no unknowns of their own: at the optimum they are where the observed ones put them.

    Attributes
    ----------
    observed, share : (s,), positions of the observed rows, and how much of each was observed.
    root : (s, p), C.
    values : (p,)
    anchors, lift : (a, d) and (a, p)
    """

    prior: KernelPrior
    observed: Array
    share: Array
    root: Array
    values: Array
    anchors: Array
    lift: Array

    def latent(self, W: Array) -> Array:
        """U (p, k) of a factor W (m, k)."""
        scaled = self.share[:, None] * W[self.observed].astype(np.float64)
        return self.root.T @ scaled / self.values[:, None]

    def expand(self, U: Array) -> Array:
        """W (m, k) of U (p, k), unobserved rows included."""
        W = np.empty((self.prior.size, U.shape[1]))
        W[self.observed] = self.root @ U
        others = np.ones(len(W), bool)
        others[self.observed] = False
        if others.any():
            W[others] = self._unobserved_root @ U
        return W

    @cached_property
    def _unobserved_root(self) -> Array:
        others = np.ones(self.prior.size, bool)
        others[self.observed] = False
        return self.prior.covariance(self.prior.points[others], self.anchors) @ self.lift

    def at(self, points: Array, U: Array) -> Array:
        """Rows (q, k) at other points (q, d)."""
        return self.prior.covariance(points, self.anchors) @ (self.lift @ U)

    def gram(self, W: Array) -> Array:
        """U^T U = W^T K^-1 W (k, k), which is what the regularizer sees."""
        U = self.latent(W)
        return U.T @ U


def _kept(values: Array, vectors: Array) -> tuple[Array, Array]:
    alive = values > NEGLIGIBLE * values[-1]
    return values[alive], vectors[:, alive]


def spread(points: Array, count: int) -> Array:
    """So many of the points, each the farthest from those before it: they cover the rest evenly."""
    chosen = np.zeros(count, np.int64)
    nearest = np.full(len(points), np.inf)
    for t in range(1, count):
        nearest = np.minimum(nearest, np.sum((points - points[chosen[t - 1]]) ** 2, axis=1))
        chosen[t] = int(np.argmax(nearest))
    return chosen
