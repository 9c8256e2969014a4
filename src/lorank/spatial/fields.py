"""The anomalies of all places: a low-rank field with a prior over the map, and kriging of what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank import registry
from lorank.estimators import MatrixCompletion
from lorank.kernels import Workers
from lorank.observations import Observations
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.side_information.kernel import Whitening
from lorank.spatial.drift import Places
from lorank.spatial.neighbours import FieldKernel, krige_nearest
from lorank.types import Array

# Fits that are only compared with each other may end earlier.
TRIAL_TOL = 1e-3
# Level and season are gone: nothing but factors is fitted to anomalies.
PLAIN: dict[str, Any] = {"loss": "squared", "biases": False, "features": None, "goal": "values"}


def fit_anomalies(z: Array, method: str, parameters: Mapping[str, Any], **options: Any) -> MatrixCompletion:
    """A low-rank fit to anomalies z (m, n), NaN missing, with rank, lam and theta as given, theta if the method has
    one."""
    theta = parameters["theta"] if "theta" in registry.find(method).parameters else None
    model = MatrixCompletion(method, parameters["rank"], parameters["lam"], theta, **PLAIN, **options)
    return model.fit(Observations.from_dense(z))


@dataclass(frozen=True)
class LowRank:
    """Factors W (m, k), H (n, k), and the prior by which W is known anywhere (None for a graph, or rank 0)."""

    W: Array
    H: Array
    whitening: Whitening | None
    model: MatrixCompletion | None

    def at(self, points: Array) -> Array:
        """The field (o, n) at other points."""
        if self.whitening is None:
            return np.zeros((len(points), len(self.H)))
        return np.asarray(self.whitening.at(points, self.whitening.latent(self.W)) @ self.H.T)


@dataclass(frozen=True)
class FieldModel:
    """What is known before the fit: places, prior and kernel, the stretch of covariates, the method."""

    places: Places
    coordinates: tuple[Array, Array]
    prior: str
    kernel: str
    stretch: Array
    method: str
    seed: int
    n_jobs: int | None

    @property
    def points(self) -> Array:
        """(m, 3 + p), in 1000 km."""
        return self.places.stretched(1.0, self.stretch)

    def low_rank(self, z: Array, parameters: Mapping[str, Any], tol: float | None = None) -> LowRank:
        """Fit anomalies z (m, n), NaN missing; rank 0 is a field of zeros."""
        rank = min(parameters["rank"], *z.shape)
        if rank == 0:
            return LowRank(np.zeros((len(z), 0)), np.zeros((z.shape[1], 0)), None, None)
        prior = self.prior_of(parameters)
        limits: dict[str, Any] = {} if tol is None else {"tol": tol}
        model = fit_anomalies(
            z,
            self.method,
            {**parameters, "rank": rank},
            random_state=self.seed,
            n_jobs=self.n_jobs,
            row_side=prior,
            **limits,
        )
        factors = model.result_.factors
        share = (~np.isnan(z)).mean(axis=1)
        whitening = prior.bind(share) if isinstance(prior, KernelPrior) and tol is None else None
        return LowRank(factors.W, factors.H, whitening, model)

    def prior_of(self, parameters: Mapping[str, Any]) -> KernelPrior | GraphLaplacian:
        """The prior over the places."""
        if self.prior == "kernel":
            kernel: Any = self.kernel
            return KernelPrior(self.points, kernel, parameters["length"], parameters["nugget"])
        latitude, longitude = self.coordinates
        weight = parameters["graph_weight"]
        return GraphLaplacian.from_coordinates(latitude, longitude, rate=1 / parameters["length"], weight=weight)

    def residual_kernel(self, parameters: Mapping[str, Any]) -> FieldKernel | None:
        """By which residuals are kriged; None if they are not."""
        length = parameters["residual_length"]
        return FieldKernel(self.kernel, length, parameters["residual_nugget"], self.stretch) if length > 0 else None

    def residuals(
        self, left_over: Array, parameters: Mapping[str, Any], targets: Places, workers: Workers | None = None
    ) -> Array:
        """What is left over (m, n), NaN missing, kriged at targets (o, n); 0 if residuals are not."""
        kernel = self.residual_kernel(parameters)
        if kernel is None:
            return np.zeros((len(targets), left_over.shape[1]))
        measured = np.flatnonzero(~np.isnan(left_over).all(axis=1))
        known = kernel.scaled(self.places[measured])
        return krige_nearest(left_over[measured], known, kernel.scaled(targets), kernel, workers=workers)[0]
