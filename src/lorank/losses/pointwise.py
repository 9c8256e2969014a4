"""Losses that are the same at every entry, each a function of a prediction and of what was seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from lorank.errors import InputError
from lorank.kernels import Workers
from lorank.types import Array


class Loss(ABC):
    """A pointwise loss; arrays of predictions x and targets o, and weights where there are any, have the same shape."""

    # An upper bound on the second derivative by x.
    curvature: ClassVar[float] = 1.0

    @abstractmethod
    def losses(self, x: Array, o: Array) -> Array:
        """The loss of each entry, in float64."""

    def value(self, x: Array, o: Array, weights: Array | None = None) -> float:
        """The sum of the losses, in float64, each multiplied by its weight if there are any."""
        losses = self.losses(x, o)
        return float(np.sum(losses) if weights is None else losses @ weights)

    @abstractmethod
    def derivative(self, x: Array, o: Array) -> Array:
        """The derivative by each x."""

    def error(self, x: Array, o: Array, weights: Array | None = None) -> float:
        """What a user reads as the error of predictions: the root of their (weighted) mean square."""
        difference = (x - o).astype(np.float64)
        return float(np.sqrt(np.average(difference**2, weights=weights)))

    def each(self, x: Array, o: Array) -> Array:
        """What `error` is made of, for each entry: squares of the differences."""
        return np.asarray((x - o).astype(np.float64) ** 2)

    def at(self, rows: Array, cols: Array) -> Loss:
        """The loss of entries at these rows and columns, if it depends on where they are."""
        return self

    def prepare(self, o: Array) -> Array:
        """Targets as the loss wants them; those that it cannot take are refused."""
        return o

    @property
    def learns(self) -> bool:
        """Whether it has parameters that are yet to be learnt from the data, by `learnt`."""
        return False

    def learnt(self, x: Array, o: Array, weights: Array | None = None, workers: Workers | None = None) -> Loss:
        """With the parameters that fit best where the model has x."""
        return self

    def fresh(self) -> Loss:
        """The loss before it has learnt anything."""
        return self

    def predicted(self, x: Array) -> Array:
        """What is predicted where the model has x."""
        return x


class Likelihood(Loss):
    """A loss whose own mean is what a user reads as the error."""

    def error(self, x: Array, o: Array, weights: Array | None = None) -> float:
        """The mean of the losses (of classes: cross-entropy, in nats)."""
        return self.value(x, o, weights) / (len(o) if weights is None else float(weights.sum(dtype=np.float64)))

    def each(self, x: Array, o: Array) -> Array:
        """The loss of each entry."""
        return self.losses(x, o)


@dataclass(frozen=True)
class Squared(Loss):
    """(x - o)^2 / 2."""

    def losses(self, x: Array, o: Array) -> Array:
        return np.asarray(0.5 * (x - o).astype(np.float64) ** 2)

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

    def losses(self, x: Array, o: Array) -> Array:
        size = np.abs((x - o).astype(np.float64))
        square = np.minimum(size, self.delta)
        return np.asarray(square * (size - square / 2))

    def derivative(self, x: Array, o: Array) -> Array:
        return np.clip(x - o, -self.delta, self.delta)


@dataclass(frozen=True)
class Logistic(Likelihood):
    """log(1 + exp(-o x)) for classes o = -1 or 1; the probability of the class 1 is `scipy.special.expit(x)`.

    Targets 0 and 1 are taken as -1 and 1.
    """

    curvature: ClassVar[float] = 0.25

    def losses(self, x: Array, o: Array) -> Array:
        return np.logaddexp(0.0, -(x * o).astype(np.float64))

    def derivative(self, x: Array, o: Array) -> Array:
        return -o * expit(-o * x)

    def prepare(self, o: Array) -> Array:
        classes = np.unique(o)
        for low in (0, -1):
            if np.isin(classes, (low, 1)).all():
                return np.where(o == 1, 1, -1).astype(o.dtype)
        wrong = classes[~np.isin(classes, (-1, 0, 1))]
        got = f"{wrong[0]:g}" if wrong.size else "-1, 0 and 1 together"
        raise InputError(f"The logistic loss is for two classes, 0 and 1 or -1 and 1; the data has {got}.")


@dataclass(frozen=True)
class Poisson(Likelihood):
    """mu(x) - o log mu(x) for counts o, less the same at mu = o: half the deviance, with mu = exp(x) up to `most`.

    Beyond it mu goes on as a straight line, mu = most (1 + x - log most), and the loss as b(x) - o x with b' = mu: it
    is still convex, least at mu(x) = o, and its second derivative is at most `most`.

    Parameters
    ----------
    most : float
        A number about as large as the largest counts, > 0. With a larger one a fit takes more sweeps.
    """

    most: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.most < np.inf:
            raise InputError(f"most must be a finite number > 0, but it is {self.most!r}.")

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return self.most

    def expected(self, x: Array) -> Array:
        """mu(x), the expected count."""
        end = np.log(self.most)
        return np.exp(np.minimum(x, end)) + self.most * np.maximum(x - end, 0)

    def score(self, mu: Array) -> Array:
        """x with mu(x) = mu > 0."""
        low = np.minimum(mu, self.most)
        return np.log(low) + (mu - low) / self.most

    def losses(self, x: Array, o: Array) -> Array:
        x, o = x.astype(np.float64), o.astype(np.float64)
        return np.asarray(self._total(x) - o * x - self._least(o))

    def derivative(self, x: Array, o: Array) -> Array:
        return np.asarray(self.expected(x) - o, x.dtype)

    def prepare(self, o: Array) -> Array:
        if (o < 0).any():
            raise InputError(f"The Poisson loss is for counts, which are not negative; the data has {o.min():g}.")
        return o

    def _total(self, x: Array) -> Array:
        """b(x), the integral of mu."""
        end = np.log(self.most)
        beyond = np.maximum(x - end, 0)
        return np.exp(np.minimum(x, end)) + self.most * (beyond + beyond**2 / 2)

    def _least(self, o: Array) -> Array:
        """b(x) - o x at its minimum, mu(x) = o; 0 at o = 0."""
        x = self.score(np.where(o > 0, o, 1.0))
        return np.where(o > 0, self._total(x) - o * x, 0.0)
