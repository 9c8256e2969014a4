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
    apart = cdist(points, points)
    return _by_month(train, lambda have, values: values[apart[:, have].argmin(axis=1)])


def inverse_distance(points: Array, train: Observations, power: float) -> Dense:
    """The mean of the places that have this month, weighted by distance to the power -`power`."""
    weights = np.maximum(cdist(points, points), 1e-6) ** -power

    def mean(have: Array, values: Array) -> Array:
        shares = weights[:, have]
        total: Array = shares @ values / shares.sum(axis=1, keepdims=True)
        return total

    return _by_month(train, mean)


def kriging(points: Array, train: Observations, kernel: Any, length: float, nugget: float) -> Dense:
    """Simple kriging: K_all,have (K_have,have + nugget I)^-1 times the month's values."""
    covariance = KernelPrior(points, kernel, length).covariance(points, points)

    def predict(have: Array, values: Array) -> Array:
        K = covariance[np.ix_(have, have)]
        K[np.diag_indices_from(K)] += nugget
        predicted: Array = covariance[:, have] @ scipy.linalg.solve(K, values, assume_a="pos")
        return predicted

    return _by_month(train, predict)


def _by_month(train: Observations, predict: Callable[[Array, Array], Array]) -> Dense:
    """All values (m, n) from (s places that have a month, their values) -> (m, months); 0 if none has."""
    out = np.zeros(train.shape)
    for months, have, values in _patterns(train):
        out[:, months] = predict(have, values)
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
