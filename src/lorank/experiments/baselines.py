"""What a climate scientist would do instead: each month by itself, from the places that have it. Nothing of low rank.

Each takes its own few settings, all of which are tried on the validation places, never more than a search has fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from lorank.observations import Observations
from lorank.side_information import KernelPrior
from lorank.spatial.kriging import Kriging, same_places
from lorank.types import Array

Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Dense:
    """All values (m, n) of a prediction, asked for like factors are."""

    values: Array

    def predict(self, rows: Array, cols: Array) -> Array:
        """Entries at these positions."""
        return self.values[rows, cols]


@dataclass(frozen=True)
class Baseline:
    """(points (m, 3), observations, setting) -> all values; and the settings that are tried."""

    fit: Callable[..., Dense]
    settings: tuple[Setting, ...]


def nearest(points: Array, train: Observations) -> Dense:
    """The value of the nearest place that has this month; 0 where none has."""
    places, values, known = _table(train)
    apart = cdist(points, points[places])
    out = np.zeros(train.shape)
    for months, have in same_places(known):
        closest = have[apart[:, have].argmin(axis=1)]
        out[:, months] = values[np.ix_(closest, months)]
    return Dense(out)


def inverse_distance(points: Array, train: Observations, power: float) -> Dense:
    """The mean of the places that have this month, weighted by distance to the power -`power`; 0 where none has."""
    places, values, known = _table(train)
    weights = np.maximum(cdist(points, points[places]), 1e-6) ** -power
    return Dense(weights @ values / np.maximum(weights @ known, np.finfo(float).tiny))


def kriging(points: Array, train: Observations, kernel: Any, length: float, nugget: float) -> Dense:
    """Simple kriging of each month, with noise of variance nugget; 0 where no place has it."""
    values = np.full(train.shape, np.nan)
    values[train.rows, train.cols] = train.values
    return Dense(Kriging.fit(KernelPrior(points, kernel, length, nugget), values).at(points))


def _table(train: Observations) -> tuple[Array, Array, Array]:
    """Places with data (s,), their values (s, n) with 0 where there is none, and which there are (s, n)."""
    places = np.flatnonzero(np.diff(train.by_row.pointers))
    values, known = np.zeros((places.size, train.shape[1])), np.zeros((places.size, train.shape[1]), bool)
    rows = np.searchsorted(places, train.rows)
    values[rows, train.cols], known[rows, train.cols] = train.values, True
    return places, values, known


def _grid(**options: tuple[Any, ...]) -> tuple[Setting, ...]:
    return tuple(dict(zip(options, values)) for values in product(*options.values()))


BASELINES: Mapping[str, Baseline] = {
    "nearest": Baseline(nearest, ({},)),
    "inverse-distance": Baseline(inverse_distance, _grid(power=(1.0, 2.0, 3.0, 4.0, 6.0, 8.0))),
    "kriging": Baseline(
        kriging,
        _grid(kernel=("exponential", "matern32"), length=(1.0, 3.0, 10.0), nugget=(1e-6, 0.02, 0.1)),
    ),
}
