"""How far a prediction x is from what was seen, o: one function of two numbers, summed over the observed entries.

A solver needs its value, its derivative by x, and a bound L on the second derivative. With it,

    f(x) <= f(x0) + f'(x0) (x - x0) + L/2 (x - x0)^2 = L/2 (x - (x0 - f'(x0) / L))^2 + const,

so that every solver of least squares takes such a step on the working values x0 - f'(x0) / L, and F does not increase.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from lorank.errors import InputError
from lorank.types import Array


class Loss(ABC):
    """A pointwise loss; arrays of predictions x and targets o, and weights where there are any, have the same shape."""

    # An upper bound on the second derivative by x.
    curvature: ClassVar[float] = 1.0

    @abstractmethod
    def value(self, x: Array, o: Array, weights: Array | None = None) -> float:
        """The sum of the losses, in float64, each multiplied by its weight if there are any."""

    @abstractmethod
    def derivative(self, x: Array, o: Array) -> Array:
        """The derivative by each x."""

    def error(self, x: Array, o: Array, weights: Array | None = None) -> float:
        """What a user reads as the error of predictions: the root of their (weighted) mean square."""
        difference = (x - o).astype(np.float64)
        return float(np.sqrt(np.average(difference**2, weights=weights)))

    def prepare(self, o: Array) -> Array:
        """Targets as the loss wants them; those that it cannot take are refused."""
        return o


@dataclass(frozen=True)
class Squared(Loss):
    """(x - o)^2 / 2."""

    def value(self, x: Array, o: Array, weights: Array | None = None) -> float:
        difference = (x - o).astype(np.float64)
        return 0.5 * _total(difference**2, weights)

    def derivative(self, x: Array, o: Array) -> Array:
        return x - o


@dataclass(frozen=True)
class Huber(Loss):
    """(x - o)^2 / 2 up to |x - o| = delta, and delta (|x - o| - delta / 2) beyond: outliers pull with a bounded force.

    Parameters
    ----------
    delta : float
        Where the loss turns from a square into a line, > 0, in the unit of the data.

    References
    ----------
    Huber, "Robust estimation of a location parameter", Ann. Math. Statist. 1964.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.delta < np.inf:
            raise InputError(f"delta must be a finite number > 0, but it is {self.delta!r}.")

    def value(self, x: Array, o: Array, weights: Array | None = None) -> float:
        size = np.abs((x - o).astype(np.float64))
        square = np.minimum(size, self.delta)
        return _total(square * (size - square / 2), weights)

    def derivative(self, x: Array, o: Array) -> Array:
        return np.clip(x - o, -self.delta, self.delta)


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-o x)) for classes o = -1 or 1; the probability of the class 1 is `scipy.special.expit(x)`.

    Targets 0 and 1 are taken as -1 and 1.
    """

    curvature: ClassVar[float] = 0.25

    def value(self, x: Array, o: Array, weights: Array | None = None) -> float:
        return _total(np.logaddexp(0.0, -(x * o).astype(np.float64)), weights)

    def derivative(self, x: Array, o: Array) -> Array:
        return -o * expit(-o * x)

    def error(self, x: Array, o: Array, weights: Array | None = None) -> float:
        """The mean of the losses (cross-entropy, in nats)."""
        return self.value(x, o, weights) / (len(o) if weights is None else float(weights.sum(dtype=np.float64)))

    def prepare(self, o: Array) -> Array:
        classes = np.unique(o)
        for low in (0, -1):
            if np.isin(classes, (low, 1)).all():
                return np.where(o == 1, 1, -1).astype(o.dtype)
        wrong = classes[~np.isin(classes, (-1, 0, 1))]
        got = f"{wrong[0]:g}" if wrong.size else "-1, 0 and 1 together"
        raise InputError(f"The logistic loss is for two classes, 0 and 1 or -1 and 1; the data has {got}.")


@dataclass(frozen=True)
class Ordinal(Squared):
    """Values are levels of a scale: o is level l where g_l < z <= g_{l+1}, z = x + noise (ordered probit).

    Where the cuts g_l lie is learnt from the data, so this is for the sampler, method "bpmf", alone. Predictions
    are expected levels, and their error is the root of the mean square.
    """


def _total(losses: Array, weights: Array | None) -> float:
    return float(np.sum(losses) if weights is None else losses @ weights)


SQUARED = Squared()
LOSSES = {"squared": Squared, "huber": Huber, "logistic": Logistic, "ordinal": Ordinal}


def find(loss: str | Loss) -> Loss:
    """The loss of this name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise InputError(f"Unknown loss {loss!r}; there are {', '.join(LOSSES)}.")
    return LOSSES[loss]()
