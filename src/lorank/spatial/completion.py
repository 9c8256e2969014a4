"""SpatialCompletion: series at places, some of them never measured, filled in the unit in which they came."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lorank import registry
from lorank.errors import InputError
from lorank.estimators import MatrixCompletion
from lorank.observations import Observations, checks
from lorank.regularizers.base import require
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.side_information.coordinates import check_coordinates, sphere
from lorank.side_information.kernel import Whitening
from lorank.spatial.kriging import Kriging, RegressionKriging, typical_distance
from lorank.spatial.normalisation import Normalisation
from lorank.tuning.coordinate import coordinate_search
from lorank.tuning.trials import Trials
from lorank.types import Array

# Part of the entries of measured places that is hidden to learn how well their gaps are filled.
HIDDEN = 0.05
# Up to so many measured places all are held out in turn for tuning, a fifth at a time; beyond, one fifth says enough.
CROSS_VALIDATED = 200
# Held-out places are judged at no more times than this, spread evenly: kriging of residuals is done for each of them.
JUDGED = 120
# Beyond so many measured places, residuals are not kriged unless it is asked for: each time costs places^3 / 3.
KRIGED = 2000
FREE = ("length", "nugget", "lam", "theta", "rank", "graph_weight", "residual_length", "residual_nugget")


class SpatialCompletion(BaseEstimator):
    """Fill places x times, whole places missing, by low rank and a prior over the places.

    Series are normalised, a low-rank matrix whose left factor varies smoothly over the map is fitted, and the result is
    taken back to the unit of the data. A place that was never measured has no month means of its own either: they and
    its scale are kriged from the places that have them, before normalisation is undone there.

    Parameters
    ----------
    normalisation : str
        A name of `lorank.spatial.normalisation`.
    prior : "kernel" or "laplacian"
        Gaussian prior with the kernel below, or the paper's graph term.
    kernel : str
        "exponential", "matern32" or "matern52".
    length, nugget, lam, theta, rank, graph_weight : float or None
        None is tuned on held-out places: length (1000 km) and nugget are the kernel's, graph_weight the graph's.
        rate, for the graph, is one over its length.
    residual_length, residual_nugget : float or None
        What the low-rank part leaves over is kriged for each time by itself, with an exponential kernel of this
        length (1000 km) and nugget; a length of 0 leaves it out. None is tuned, so that it is there if it helps. The
        low-rank part carries what recurs, and learns from a few months how a place differs from its neighbours; a field
        has more than any rank, though, and what is left over is still smooth over short distances.
    method : str
        A factored method of the catalogue.
    random_state : int
    n_jobs : int, optional

    Attributes
    ----------
    parameters_ : dict
        What was used, tuned or given.
    tuning_ : Trials
        What was tried, with its error on held-out places, in normalised units; empty if nothing was tuned.
    error_ : (m,)
        Estimated root mean squared error of each place's predictions, in the unit of the data.
    model_ : MatrixCompletion
        Fitted on the normalised data.
    """

    def __init__(
        self,
        normalisation: str = "anomalies",
        prior: str = "kernel",
        kernel: str = "exponential",
        length: float | None = None,
        nugget: float | None = None,
        lam: float | None = None,
        theta: float | None = None,
        rank: int | None = None,
        graph_weight: float | None = None,
        residual_length: float | None = None,
        residual_nugget: float | None = None,
        method: str = "nnfn",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.normalisation = normalisation
        self.prior = prior
        self.kernel = kernel
        self.length = length
        self.nugget = nugget
        self.lam = lam
        self.theta = theta
        self.rank = rank
        self.graph_weight = graph_weight
        self.residual_length = residual_length
        self.residual_nugget = residual_nugget
        self.method = method
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        values: npt.ArrayLike,
        latitude: npt.ArrayLike,
        longitude: npt.ArrayLike,
        time: npt.ArrayLike | None = None,
    ) -> SpatialCompletion:
        """Fit values (m, n), NaN missing, at m places; time (n,) as datetime64 where the normalisation needs it."""
        values = checks.numbers(values).astype(np.float64, copy=False)
        if values.ndim != 2:
            raise InputError(f"Values must be places x times; this array has {values.ndim} dimensions.")
        if self.prior not in ("kernel", "laplacian"):
            raise InputError(f"Unknown prior {self.prior!r}; there are kernel, laplacian.")
        length, nugget = self.residual_length, self.residual_nugget
        require(length is None or 0 <= length < np.inf, "residual_length", length, "a finite number >= 0, or None")
        require(nugget is None or 0 < nugget < np.inf, "residual_nugget", nugget, "a finite number > 0, or None")
        self.latitude_, self.longitude_ = check_coordinates(latitude, longitude)
        if len(self.latitude_) != len(values):
            raise InputError(f"There are {len(values)} rows of values and {len(self.latitude_)} places.")
        self.points_ = sphere(self.latitude_, self.longitude_)
        self.values_, self.time_ = values, time
        measured = np.flatnonzero(~np.isnan(values).all(axis=1))
        if not measured.size:
            raise InputError("No place has a single value; there is nothing to learn from.")
        folds = self._folds(measured)
        whole = Normalisation.fit(values, self.normalisation, time)
        z = whole.apply(values)
        given = {name: getattr(self, name) for name in FREE}
        candidates = self._candidates(values.shape, measured.size)
        if folds and any(given[name] is None for name in candidates):
            enough = folds if measured.size <= CROSS_VALIDATED else folds[:1]
            fields: dict[tuple[Any, ...], list[Array]] = {}
            found = coordinate_search(
                lambda parameters: self._held_out_error(z, enough, parameters, fields), candidates, given
            )
            self.parameters_, self.tuning_ = found.parameters, found.trials
        else:
            first = {name: options[0] for name, options in candidates.items()}
            self.parameters_ = {name: first[name] if given[name] is None else given[name] for name in first}
            self.tuning_ = Trials(())
        fitted = self._fit_once(values, self.parameters_)
        self.model_, self.fitted_normalisation_, self._fitted = fitted.model, fitted.normalisation, fitted
        self.error_ = self._errors(folds)
        return self

    def predict(self) -> Array:
        """The whole matrix (m, n), in the unit of the data, as the model has it."""
        check_is_fitted(self)
        return self._fitted.predicted

    def complete(self) -> Array:
        """What was measured as it was, the rest predicted (m, n)."""
        return np.where(np.isnan(self.values_), self.predict(), self.values_)

    def predict_at(self, latitude: npt.ArrayLike, longitude: npt.ArrayLike) -> Array:
        """Series (q, n) at other places, which need not have been there when the model was fitted."""
        check_is_fitted(self)
        whitening = self._fitted.whitening
        if whitening is None:
            raise InputError("A graph knows its own places only; use prior='kernel' to predict elsewhere.")
        points = sphere(*check_coordinates(latitude, longitude, distinct=False))
        factors = self.model_.result_.factors
        z = whitening.at(points, whitening.latent(factors.W)) @ factors.H.T
        if self._fitted.residuals is not None:
            z += self._fitted.residuals.at(points)
        known = self.fitted_normalisation_
        return known.with_rows(*self._fitted.statistics.at(points)).undo(z)

    def _candidates(self, shape: tuple[int, int], measured: int) -> dict[str, tuple[Any, ...]]:
        """What is tried of each parameter, the first one first."""
        m, n = shape
        unit = typical_distance(self.points_)
        ranks = tuple(dict.fromkeys(min(rank, m, n) for rank in (10, 5, 20, 40)))
        shared: dict[str, tuple[Any, ...]] = {
            "lam": (1.0, 0.01, 0.1, 3.0, 10.0),
            "rank": ranks,
            "theta": (1.0, 0.5, 0.0),
        }
        lengths = tuple(unit * factor for factor in (1.0, 0.25, 0.5, 2.0, 4.0, 8.0))
        shared["residual_length"] = (0.0, 0.3 * unit, 0.1 * unit, unit) if measured <= KRIGED else (0.0,)
        shared["residual_nugget"] = (0.5, 0.2, 2.0)
        if self.prior == "kernel":
            return {"length": lengths, "nugget": (0.05, 0.0, 0.01, 0.2), **shared}
        return {"length": lengths, "graph_weight": (0.01, 0.001, 0.1, 1.0), **shared}

    def _folds(self, measured: Array) -> list[Array]:
        """Measured places to hold out, one array after the other; none if there are too few to spare any."""
        if measured.size < 5:
            warnings.warn(
                f"Only {measured.size} places were measured: too few to tune on held-out places or to estimate errors.",
                UserWarning,
                stacklevel=3,
            )
            return []
        parts = np.array_split(np.random.default_rng(self.random_state).permutation(measured), 5)
        return parts

    def _graph(self, parameters: Mapping[str, Any]) -> GraphLaplacian | KernelPrior:
        if self.prior == "kernel":
            kernel: Any = self.kernel
            return KernelPrior(self.points_, kernel, parameters["length"], parameters["nugget"])
        rate = 1 / parameters["length"]
        return GraphLaplacian.from_coordinates(
            self.latitude_, self.longitude_, rate=rate, weight=parameters["graph_weight"]
        )

    def _complete_normalised(self, z: Array, parameters: Mapping[str, Any]) -> MatrixCompletion:
        rank = min(parameters["rank"], *z.shape)
        lam = parameters["lam"]
        theta = parameters["theta"] if "theta" in registry.find(self.method).parameters else None
        graph = self._graph(parameters)
        model = MatrixCompletion(
            self.method, rank, lam, theta, random_state=self.random_state, n_jobs=self.n_jobs, row_side=graph
        )
        return model.fit(Observations.from_dense(z))

    def _residuals(self, left_over: Array, parameters: Mapping[str, Any]) -> Kriging | None:
        """What is left over (m, n), kriged: at rank 0, kriging itself."""
        length, nugget = parameters["residual_length"], parameters["residual_nugget"]
        return Kriging.fit(KernelPrior(self.points_, "exponential", length, nugget), left_over) if length > 0 else None

    def _held_out_error(
        self, z: Array, folds: list[Array], parameters: Mapping[str, Any], fields: dict[tuple[Any, ...], list[Array]]
    ) -> float:
        """Root mean squared error on held-out places, each normalised by its own statistics.

        fields holds the low-rank fields of the last parameters; another way with residuals needs no other.
        """
        times = np.unique(np.linspace(0, z.shape[1] - 1, JUDGED).astype(int))
        key = tuple(value for name, value in parameters.items() if not name.startswith("residual"))
        if key not in fields:
            fields.clear()
            fields[key] = []
            for fold in folds:
                masked = z.copy()
                masked[fold] = np.nan
                factors = self._complete_normalised(masked, parameters).result_.factors
                fields[key].append(factors.W @ factors.H[times].T)
        squares, count = 0.0, 0
        for fold, field in zip(folds, fields[key]):
            left_over = z[:, times] - field
            miss = -left_over[fold]
            left_over[fold] = np.nan
            residuals = self._residuals(left_over, parameters)
            if residuals is not None:
                miss += residuals.at(self.points_[fold])
            squares, count = squares + float(np.nansum(miss**2)), count + int(np.count_nonzero(~np.isnan(miss)))
        return float(np.sqrt(squares / count))

    def _fit_once(self, values: Array, parameters: Mapping[str, Any]) -> _Fitted:
        """Normalise, fit and go back, with the statistics of unmeasured places kriged."""
        own = Normalisation.fit(values, self.normalisation, self.time_)
        coefficients, scale = own.coefficients.copy(), own.row_scale.copy()
        lacking, statistics = ~own.determined, _RowStatistics(self.points_, own)
        if lacking.any():
            coefficients[lacking], scale[lacking] = statistics.at(self.points_[lacking])
        normalisation = own.with_rows(coefficients, scale)
        z = normalisation.apply(values)
        model = self._complete_normalised(z, parameters)
        field = model.result_.factors.dense()
        residuals = self._residuals(z - field, parameters)
        predicted = normalisation.undo(field if residuals is None else field + residuals.at(self.points_))
        share = (~np.isnan(values)).mean(axis=1)
        prior = self._graph(parameters) if self.prior == "kernel" else None
        whitening = prior.bind(share) if isinstance(prior, KernelPrior) else None
        return _Fitted(model, normalisation, statistics, predicted, whitening, residuals, share > 0)

    def _errors(self, folds: list[Array]) -> Array:
        """Estimated error of each place, in the unit of the data.

        Every measured place is held out once, statistics and all, and some entries of the others with it. Errors of
        places without data are kriged (as logarithms) from those of measured ones around them, when these were held
        out; gaps of measured places have the error of hidden entries, in units of the place's own scale.
        """
        fitted, rng = self._fitted, np.random.default_rng(self.random_state)
        if not folds:
            return np.full(len(self.points_), np.nan)
        held_out, gaps = np.full(len(self.points_), np.nan), []
        for fold in folds:
            masked = self.values_.copy()
            masked[rng.random(masked.shape) < HIDDEN] = np.nan
            masked[fold] = np.nan
            trial = self._fit_once(masked, self.parameters_)
            miss = trial.predicted - self.values_
            held_out[fold] = np.sqrt(np.nanmean(miss[fold] ** 2, axis=1))
            hidden = np.isnan(masked) & ~np.isnan(self.values_) & trial.measured[:, None]
            hidden[fold] = False
            gaps.append(((miss / trial.normalisation.row_scale[:, None])[hidden]) ** 2)
        error = fitted.normalisation.row_scale * np.sqrt(np.mean(np.concatenate(gaps)))
        known, others = np.flatnonzero(fitted.measured), np.flatnonzero(~fitted.measured)
        if others.size:
            logs = np.log(np.maximum(held_out[known], 1e-12 * held_out[known].max() + 1e-300))[:, None]
            there = RegressionKriging.fit(self.points_[known], logs).at(self.points_[np.concatenate([known, others])])[
                :, 0
            ]
            there = np.exp(np.clip(there, logs.min(), logs.max()))
            # Logarithms average to less than squares do.
            there *= np.sqrt(np.mean(held_out[known] ** 2) / np.mean(there[: known.size] ** 2))
            error[others] = there[known.size :]
        return error


@dataclass(frozen=True)
class _Fitted:
    """One fit: `statistics` gives those of the normalisation anywhere, `measured` are the places with any value."""

    model: MatrixCompletion
    normalisation: Normalisation
    statistics: _RowStatistics
    predicted: Array
    whitening: Whitening | None
    residuals: Kriging | None
    measured: Array


@dataclass(frozen=True)
class _RowStatistics:
    """The coefficients and scales of a normalisation's rows, kriged from those at points (m, d) that have their own."""

    points: Array
    normalisation: Normalisation

    @cached_property
    def _kriging(self) -> RegressionKriging:
        known, own = self.normalisation.determined, self.normalisation
        # Scales are kriged as logarithms, to stay positive.
        described = np.column_stack([own.coefficients[known], np.log(own.row_scale[known])])
        return RegressionKriging.fit(self.points[known], described)

    def at(self, points: Array) -> tuple[Array, Array]:
        """Coefficients (q, t) and scales (q,) at other points (q, d)."""
        found = self._kriging.at(points)
        return found[:, :-1], np.exp(found[:, -1])
