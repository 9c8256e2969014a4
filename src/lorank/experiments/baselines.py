"""What a climate scientist would do instead: each month by itself, from the places that have it. Nothing of low rank.

Each takes its own few settings, all of which are tried on the validation places, never more than a search has fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.spatial.distance import cdist

from lorank.observations import Observations
from lorank.regularizers import KernelPrior

Array = npt.NDArray[Any]
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
    """The value of the nearest place that has this month."""
    return _by_month(train, lambda have: _nearest_weights(cdist(points, points[have])))


def inverse_distance(points: Array, train: Observations, power: float) -> Dense:
    """The mean of the places that have this month, weighted by distance to the power -`power`."""

    def weights(have: Array) -> Array:
        shares: Array = np.maximum(cdist(points, points[have]), 1e-6) ** -power
        return shares / shares.sum(axis=1, keepdims=True)

    return _by_month(train, weights)


def kriging(points: Array, train: Observations, kernel: Any, length: float, nugget: float) -> Dense:
    """Simple kriging: K_all,have (K_have,have + nugget I)^-1 times the month's values."""
    prior = KernelPrior(points, kernel, length)

    def weights(have: Array) -> Array:
        seen = points[have]
        K = prior.covariance(seen, seen)
        K[np.diag_indices_from(K)] += nugget
        solved: Array = scipy.linalg.solve(K, prior.covariance(seen, points), assume_a="pos")
        return solved.T

    return _by_month(train, weights)


def _nearest_weights(apart: Array) -> Array:
    weights = np.zeros_like(apart)
    weights[np.arange(len(apart)), apart.argmin(axis=1)] = 1.0
    return weights


def _by_month(train: Observations, weights: Callable[[Array], Array]) -> Dense:
    """All values (m, n) as weights (m, s) times the values of the s places that have a month; 0 if none has."""
    out = np.zeros(train.shape)
    for months, have, values in _patterns(train):
        out[:, months] = weights(have) @ values
    return Dense(out)


def _patterns(train: Observations) -> Iterator[tuple[Array, Array, Array]]:
    """Months that the same places have: the months, those places (s,), the values (s, months)."""
    columns = train.by_col
    bounds = columns.pointers
    groups: dict[bytes, list[int]] = {}
    for month in range(train.shape[1]):
        have = columns.indices[bounds[month] : bounds[month + 1]]
        if have.size:
            groups.setdefault(have.tobytes(), []).append(month)
    for group in groups.values():
        have = columns.indices[bounds[group[0]] : bounds[group[0] + 1]]
        values = [columns.values[bounds[month] : bounds[month + 1]] for month in group]
        yield np.array(group), have, np.column_stack(values)


def _grid(**options: tuple[Any, ...]) -> tuple[Setting, ...]:
    return tuple(dict(zip(options, values)) for values in product(*options.values()))


BASELINES: Mapping[str, Baseline] = {
    "nearest": Baseline(nearest, ({},)),
    "inverse-distance": Baseline(inverse_distance, _grid(power=(1.0, 2.0, 3.0, 4.0, 6.0, 8.0))),
    "kriging": Baseline(
        kriging,
        _grid(kernel=("exponential", "matern32"), length=(0.5, 1.0, 3.0, 10.0), nugget=(1e-6, 0.02, 0.1)),
    ),
}
