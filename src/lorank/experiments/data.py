"""Data sets made ready: what is trained on, what is validated on, and the judge of what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from lorank import datasets
from lorank.experiments.demo import least_squares_nmse
from lorank.experiments.settings import Dataset
from lorank.observations import Observations
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.types import Array

# The records say "zscore" and "anomaly", and a cell is known by what it was recorded under.
NORMALISATIONS = {"none": "none", "zscore": "zscore-rows", "anomaly": "anomalies-trend"}
# Strength at which data that are not tuned are fitted: of the order that ratings of this size choose.
UNTUNED_STRENGTH = 20.0


class Predictor(Protocol):
    """What can be asked for entries."""

    def predict(self, rows: Array, cols: Array) -> Array: ...


@dataclass(frozen=True)
class Places:
    """Where the rows are: degrees north and east, (m,) each."""

    latitude: Array
    longitude: Array

    def side(self, parameters: Mapping[str, Any]) -> GraphLaplacian | KernelPrior:
        """What is known of the rows: a prior if a kernel is named, else a graph with weights exp(-rate distance)."""
        if "kernel" in parameters:
            return KernelPrior.on_earth(self.latitude, self.longitude, **parameters)
        return GraphLaplacian.from_coordinates(self.latitude, self.longitude, **parameters)


@dataclass(frozen=True)
class Task:
    """What a method is given, and what its answer is measured by.

    Attributes
    ----------
    train, validation : Observations of one shape.
    error : factors, or another Predictor -> error on the test entries, which no method sees.
    extra : parameters of MatrixCompletion that belong to the data.
    places : where the rows are, if they are on a map.
    floor : error that cannot be beaten, where it is known.
    """

    train: Observations
    validation: Observations
    error: Callable[[Any], float]
    extra: Mapping[str, Any] = field(default_factory=dict)
    places: Places | None = None
    floor: float | None = None


def load(dataset: Dataset, seed: int, folder: Path | None) -> Task:
    """The data of a cell: the seed draws the matrix, or splits the data that there is."""
    kinds = {"synthetic": _synthetic, "ratings": _ratings, "simulated": _simulated, "stations": _stations}
    return kinds[dataset.kind](dict(dataset.parameters), seed, folder)


def rmse(answer: Predictor, test: Observations) -> float:
    """Root mean squared error on the test entries."""
    difference = answer.predict(test.rows, test.cols).astype(np.float64) - test.values
    return float(np.sqrt(np.mean(difference**2)))


def _synthetic(parameters: dict[str, Any], seed: int, folder: Path | None) -> Task:
    problem = datasets.synthetic(**parameters, seed=seed)
    rank, noise = problem.W.shape[1], parameters.get("noise", 0.1)
    floor = least_squares_nmse(problem.train.nnz, len(problem.W), rank, noise)
    return Task(problem.train, problem.validation, lambda factors: problem.nmse(factors.W, factors.H), floor=floor)


def _ratings(parameters: dict[str, Any], seed: int, folder: Path | None) -> Task:
    ratings: Observations = getattr(datasets, parameters["name"])(folder)
    (train, validation, test), _ = datasets.standardise(*datasets.split(ratings, seed=seed))
    return Task(train, validation, lambda factors: rmse(factors, test))


def _simulated(parameters: dict[str, Any], seed: int, folder: Path | None) -> Task:
    """Half of simulated ratings, as the paper trains on half of the real ones, in single precision."""
    train, rest = datasets.split(datasets.simulated_ratings(**parameters), (0.5, 0.5), seed=seed)
    (train, rest), _ = datasets.standardise(train, rest)
    return Task(train, rest, lambda factors: rmse(factors, rest), {"dtype": "float32"})


def _stations(parameters: dict[str, Any], seed: int, folder: Path | None) -> Task:
    """Whole rows are held out: a tenth trains, a tenth validates."""
    normalisation, since = parameters.pop("normalisation", "none"), parameters.pop("since", None)
    data = getattr(datasets, parameters.pop("source"))(folder=folder, **parameters)
    if since is not None:
        late = data.time >= np.datetime64(since)
        data = replace(data, values=data.values[:, late], time=data.time[late])
    data = datasets.normalise(data, NORMALISATIONS[normalisation])
    train, validation, test = (
        data.observations(part) for part in datasets.split_locations(len(data.station), seed=seed)
    )
    places = Places(data.latitude, data.longitude)
    return Task(train, validation, lambda answer: rmse(answer, test), places=places)
