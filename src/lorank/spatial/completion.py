"""SpatialCompletion: series at places, some of them never measured, filled in the unit in which they came."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lorank.errors import InputError
from lorank.kernels import Workers
from lorank.linalg.blas import one_blas_thread
from lorank.observations import checks
from lorank.progress import ProgressBar
from lorank.regularizers.base import require
from lorank.side_information.coordinates import check_coordinates, sphere
from lorank.spatial.cell_errors import CellErrors
from lorank.spatial.covariates import Covariates
from lorank.spatial.drift import Places
from lorank.spatial.fields import FieldModel
from lorank.spatial.held_out import HeldOut, hold_out
from lorank.spatial.kriging import typical_distance
from lorank.spatial.separation import Separation, Separator, are_amounts, inward, outward
from lorank.spatial.trial import Trial, gap_errors
from lorank.tuning.coordinate import coordinate_search
from lorank.tuning.trials import Trials
from lorank.types import Array

FREE = ("rank", "lam", "nugget", "length", "theta", "graph_weight", "residual_length", "residual_nugget")


class SpatialCompletion(BaseEstimator):
    """Fill places x times, whole places missing, by level and season, low rank, and a prior over the places.

    A value is the level and season of its place plus an anomaly. Level and season come from the place's own values as
    far as they reach and from the map beyond (`climatology`); anomalies are a low-rank matrix whose left factor varies
    smoothly over the map, plus what that leaves, kriged for each time. Covariates such as elevation are a drift of
    level and season, and coordinates of the map.

    Parameters
    ----------
    normalisation : str
        What is taken away before the low-rank fit: "anomalies" (level, season, deviation of each place), "departures"
        (the same, not divided by the deviation), "roots" (anomalies of square roots), "anomalies-trend",
        "zscore-rows" and "centred-rows" (no season), "none", "zscore", "zscore-columns" (no level of places). "auto"
        chooses on held-out values between the first two, and roots if values are skewed and none is negative; without
        dates between the two without season. Predictions of such amounts are never negative.
    prior : "kernel" or "laplacian"
        Gaussian prior with the kernel below, or the paper's graph term.
    kernel : str
        "exponential", "matern32" or "matern52".
    length, nugget, lam, theta, rank, graph_weight : float or None
        None is chosen: length (1000 km) and nugget are the kernel's, graph_weight the graph's. Rank 0 is kriging.
    residual_length, residual_nugget : float or None
        What the low-rank part leaves over is kriged for each time by itself, with a kernel of this length (1000 km)
        and nugget; a length of 0 leaves it out. The low-rank part carries what recurs, and learns from a few months
        how a place differs from its neighbours; a field has more than any rank, though, and what is left over is still
        smooth over short distances.
    method : str
        A factored method of the catalogue.
    random_state : int
    n_jobs : int, optional

    Attributes
    ----------
    parameters_ : dict
        What was used, tuned or given, normalisation included.
    tuning_ : Trials
        What was tried, with its error on held-out values in the unit of the data; empty if nothing was tuned.
    error_ : (m,)
        Estimated root mean squared error of each place's predictions, in the unit of the data.
    """

    def __init__(
        self,
        normalisation: str = "auto",
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
        covariates: Any = None,
    ) -> SpatialCompletion:
        """Fit values (m, n), NaN missing, at m places.

        Parameters
        ----------
        values : (m, n)
        latitude, longitude : (m,), degrees
        time : (n,) of datetime64
            Needed for seasons.
        covariates : (m,), (m, p), mapping of names to (m,), or DataFrame, optional
            What is known of every place, such as its elevation.
        """
        values = self._checked(values)
        latitude, longitude = check_coordinates(latitude, longitude)
        if len(latitude) != len(values):
            raise InputError(f"There are {len(values)} rows of values and {len(latitude)} places.")
        measured = np.flatnonzero(~np.isnan(values).all(axis=1))
        if not measured.size:
            raise InputError("No place has a single value; there is nothing to learn from.")
        for name in ("_left_over", "_predicted", "_kind", "_deviation", "_unit"):
            self.__dict__.pop(name, None)  # of another fit
        self.latitude_, self.longitude_, self.values_, self.time_ = latitude, longitude, values, time
        self._amounts = are_amounts(values)
        self.covariates_ = Covariates.of(covariates, len(values), measured)
        self.places_ = Places(sphere(latitude, longitude), self.covariates_.standardised)
        held = hold_out(values, self.random_state)
        if held is None:
            warnings.warn(
                f"Only {measured.size} places were measured: too few to tune on held-out places or to estimate errors.",
                UserWarning,
                stacklevel=2,
            )
        self._workers = Workers(self.n_jobs)
        with one_blas_thread(), ProgressBar("Level and season") as bar:
            self._choose(held, bar)
            bar.begin("Anomalies")
            self.low_rank_ = self._model(self._separation).low_rank(self._separation.z, self.parameters_)
            self._errors = None if held is None else self._held_out_errors()
        self._workers.close()
        return self

    def predict(self, return_std: bool = False) -> Any:
        """The whole matrix (m, n) as the model has it, in the unit of the data, and deviations if asked."""
        check_is_fitted(self)
        return self._outward(self._predicted, self._deviation, return_std)

    def complete(self) -> Array:
        """What was measured as it was, the rest predicted (m, n)."""
        return np.where(np.isnan(self.values_), self.predict(), self.values_)

    def interval(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper ends (m, n) of intervals that hold so large a part of held-out values."""
        require(0 < coverage < 1, "coverage", coverage, "a number between 0 and 1")
        check_is_fitted(self)
        if self._errors is None:
            return np.full_like(self.values_, np.nan), np.full_like(self.values_, np.nan)
        ends = np.array([errors.quantiles(coverage) for errors in self._errors])[self._kind]
        low, high = self._predicted - ends[:, :1] * self._deviation, self._predicted + ends[:, 1:] * self._deviation
        name = self._separation.name
        low, high = outward(low, np.zeros(1), name), outward(high, np.zeros(1), name)
        return (np.maximum(low, 0.0), np.maximum(high, 0.0)) if self._amounts else (low, high)

    def predict_at(
        self, latitude: npt.ArrayLike, longitude: npt.ArrayLike, covariates: Any = None, return_std: bool = False
    ) -> Any:
        """Series (q, n) at other places, and their deviations if asked.

        covariates are those that the model was fitted with, of these places.
        """
        check_is_fitted(self)
        if self.low_rank_.whitening is None and self.parameters_["rank"]:
            raise InputError("A graph knows its own places only; use prior='kernel' to predict elsewhere.")
        points = sphere(*check_coordinates(latitude, longitude, distinct=False))
        places = Places(points, self.covariates_.elsewhere(covariates, len(points)))
        separation, model = self._separation, self._model(self._separation)
        with one_blas_thread():
            known, level = separation.at(places)
            z = self.low_rank_.at(places.stretched(1.0, model.stretch))
            z += model.residuals(self._left_over, self.parameters_, places, self._workers)
            predicted, deviation = known.undo(z), np.full(z.shape, np.nan)
            if self._errors is not None and (return_std or separation.name == "roots"):
                spread = np.outer(known.row_scale, known.col_scale) ** 2 * separation.kriging_variance_at(
                    places, self._workers
                )
                deviation = self._errors[0].deviation(level, spread)
        return self._outward(predicted, deviation, return_std)

    def _outward(self, y: Array, deviation: Array, return_std: bool) -> Any:
        """Predictions, and their deviations if asked, in the unit of the data from those in which they were fitted."""
        name = self._separation.name
        predicted = outward(y, np.nan_to_num(deviation) ** 2, name)
        if self._amounts:
            predicted = np.maximum(predicted, 0.0)
        if name == "roots":
            deviation = np.sqrt(4 * y**2 * deviation**2 + 2 * deviation**4)
        return (predicted, deviation) if return_std else predicted

    @cached_property
    def _left_over(self) -> Array:
        return self._separation.z - self.low_rank_.W @ self.low_rank_.H.T

    @cached_property
    def _predicted(self) -> Array:
        separation = self._separation
        with one_blas_thread():
            z = self.low_rank_.W @ self.low_rank_.H.T
            residuals = self._model(separation).residuals(
                self._left_over, self.parameters_, self.places_, self._workers
            )
            return separation.normalisation.undo(z + residuals)

    @cached_property
    def _kind(self) -> Array:
        """0 for places that were never measured, 1 for others (m,)."""
        return (~np.isnan(self.values_)).any(axis=1).astype(int)

    @cached_property
    def _deviation(self) -> Array:
        if self._errors is None:
            return np.full(self.values_.shape, np.nan)
        level, anomaly = self._separation.variances()
        never, gaps = (errors.deviation(level, anomaly) for errors in self._errors)
        return np.where(self._kind[:, None] == 0, never, gaps)

    @property
    def error_(self) -> Array:
        check_is_fitted(self)
        return np.asarray(np.sqrt(np.mean(self.predict(return_std=True)[1] ** 2, axis=1)))

    def _checked(self, values: npt.ArrayLike) -> Array:
        values = checks.numbers(values).astype(np.float64, copy=False)
        if values.ndim != 2:
            raise InputError(f"Values must be places x times; this array has {values.ndim} dimensions.")
        if self.prior not in ("kernel", "laplacian"):
            raise InputError(f"Unknown prior {self.prior!r}; there are kernel, laplacian.")
        length, nugget = self.residual_length, self.residual_nugget
        require(length is None or 0 <= length < np.inf, "residual_length", length, "a finite number >= 0, or None")
        require(nugget is None or 0 < nugget < np.inf, "residual_nugget", nugget, "a finite number > 0, or None")
        return values

    def _separator(self, values: Array) -> Separator:
        return Separator(values, self.time_, self.places_, self.kernel, self._unit, self._workers)

    @cached_property
    def _unit(self) -> float:
        return typical_distance(self.places_.points)

    def _model(self, separation: Separation) -> FieldModel:
        return FieldModel(
            self.places_,
            (self.latitude_, self.longitude_),
            self.prior,
            self.kernel,
            separation.kernel.stretch,
            self.method,
            self.random_state,
            self.n_jobs,
        )

    def _choose(self, held: HeldOut | None, bar: ProgressBar) -> None:
        """Set the separation and the parameters, on held-out values where something is to be chosen."""
        names = self._normalisations()
        given: dict[str, Any] = {name: getattr(self, name) for name in FREE}
        best, search = np.inf, {}
        whole = self._separator(self.values_)
        rest = None if held is None else self._separator(held.hide(self.values_))
        for name in names if held is not None else names[:1]:
            separation = whole.separate(name)
            candidates = self._candidates(separation)
            first = {key: options[0] if given[key] is None else given[key] for key, options in candidates.items()}
            trial: Trial | None = None
            error = 0.0
            if held is not None and rest is not None:
                trial = Trial(rest.separate(name, separation.chosen), held, self.values_)
            if trial is not None and len(names) > 1:
                error = trial.typical_error(self._model(trial.separation), first, self._workers)
            if error < best:
                best, self._separation, self._trial = error, separation, trial
                self.parameters_, search = {"normalisation": name, **first}, {"normalisation": (name,), **candidates}
        self.tuning_, trial = Trials(()), self._trial
        given["normalisation"] = self._separation.name
        if trial is None or not any(given[key] is None for key in search):
            return
        expected = sum(len(options) - 1 for key, options in search.items() if given[key] is None) + 1
        bar.begin("Tuning")

        def judge(parameters: Mapping[str, Any]) -> float:
            bar.advance(1 / expected)
            return trial.error(self._model(trial.separation), parameters, self._workers)

        found = coordinate_search(judge, search, given, rounds=1)
        self.parameters_, self.tuning_ = found.parameters, found.trials

    def _normalisations(self) -> list[str]:
        if self.normalisation != "auto":
            return [self.normalisation]
        times = np.asarray(self.time_)
        dated = self.time_ is not None and times.dtype.kind == "M" and times.shape == (self.values_.shape[1],)
        if not dated:
            return ["centred-rows", "zscore-rows"]
        return ["departures", "anomalies", *(["roots"] if self._amounts else [])]

    def _candidates(self, separation: Separation) -> dict[str, tuple[Any, ...]]:
        """What is tried of each parameter, the first one first."""
        length, smallest = separation.kernel.length, min(self.values_.shape)
        shared: dict[str, tuple[Any, ...]] = {
            "rank": tuple(dict.fromkeys(min(rank, smallest) for rank in (20, 40, 10, 0))),
            "lam": (1.0, 3.0, 0.3),
        }
        if self.prior == "kernel":
            shared |= {"nugget": (0.1, 0.3, 0.03), "length": (length, 2 * length)}
        else:
            lengths = tuple(self._unit * factor for factor in (0.25, 0.1, 0.5, 1.0))
            shared |= {"graph_weight": (0.01, 0.001, 0.1, 1.0), "length": lengths}
        return shared | {
            "theta": (1.0, 0.5),
            "residual_length": (length, 0.3 * length, 0.0),
            "residual_nugget": (0.5, 0.2, 2.0),
        }

    def _held_out_errors(self) -> tuple[CellErrors, CellErrors]:
        """Of places that were never measured, and of gaps.

        Every measured place is predicted from the others alone for the first, which the maps of level and season and
        kriging give without another fit; held-out gaps are for the second.
        """
        separation, trial = self._separation, self._trial
        never = CellErrors.fit(*separation.from_others(inward(self.values_, separation.name)))
        if trial is None:
            return never, never
        model = self._model(separation)
        gaps = gap_errors(trial, self._separator, model, self.parameters_, self.random_state, self._workers)
        return never, CellErrors.fit(*gaps) if gaps[0].size > 30 else never
