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
from scipy.special import expit, ndtr, ndtri

from lorank.errors import InputError
from lorank.kernels import LEVEL_BLOCK, Workers, probit_terms
from lorank.types import Array

# Levels of an ordinal scale at most.
MAX_LEVELS = 50
# Newton's method for the cuts ends with a step of less than this part of the noise: the next would be its square.
NEWTON_STEPS, SMALL_STEP = 50, 1e-3
# First every so manyth entry, if there are enough of each level among them.
SAMPLE, ENOUGH = 16, 20
TINY = 1e-290


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

    def each(self, x: Array, o: Array) -> Array:
        """What `error` is made of, for each entry: squares of the differences."""
        return np.asarray((x - o).astype(np.float64) ** 2)

    def prepare(self, o: Array) -> Array:
        """Targets as the loss wants them; those that it cannot take are refused."""
        return o

    @property
    def learns(self) -> bool:
        """Whether it has parameters that are yet to be learnt from the data, by `learnt(x, o, weights, workers)`."""
        return False

    def fresh(self) -> Loss:
        """The loss before it has learnt anything."""
        return self

    def predicted(self, x: Array) -> Array:
        """What is predicted where the model has x."""
        return x


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

    def each(self, x: Array, o: Array) -> Array:
        """The loss of each entry."""
        return np.logaddexp(0.0, -(x * o).astype(np.float64))

    def prepare(self, o: Array) -> Array:
        classes = np.unique(o)
        for low in (0, -1):
            if np.isin(classes, (low, 1)).all():
                return np.where(o == 1, 1, -1).astype(o.dtype)
        wrong = classes[~np.isin(classes, (-1, 0, 1))]
        got = f"{wrong[0]:g}" if wrong.size else "-1, 0 and 1 together"
        raise InputError(f"The logistic loss is for two classes, 0 and 1 or -1 and 1; the data has {got}.")


@dataclass(frozen=True)
class Ordinal(Loss):
    """-s^2 log P(level of o | x): values are levels of a scale, o is level l where g_l < z <= g_{l+1}, z ~ N(x, s^2).

    That is the ordered probit model, in the unit of the data: near its minimum the loss is about (x - z)^2 / 2. The
    cuts g_l are those that fit best to all entries at the same x, so that nothing but the order of the values counts.
    With s only the unit of x is chosen; it is the standard deviation of the values. Predictions are expected levels,
    and their error is the root of the mean square; the second derivative is 1 - var(z | level) / s^2 <= 1.

    Parameters
    ----------
    levels, cuts : tuples of floats
        The values of the scale, ascending, and what lies between them; empty until they are learnt from the data.
    scale : float
        s.

    References
    ----------
    McCullagh, "Regression models for ordinal data", J. R. Statist. Soc. B 1980.
    """

    levels: tuple[float, ...] = ()
    cuts: tuple[float, ...] = ()
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("levels", "cuts"):  # JSON has lists only
            object.__setattr__(self, name, tuple(map(float, getattr(self, name))))

    @property
    def learns(self) -> bool:
        return not self.levels

    def fresh(self) -> Ordinal:
        return Ordinal()

    def learnt(self, x: Array, o: Array, weights: Array | None = None, workers: Workers | None = None) -> Ordinal:
        """With the levels of these values and the cuts that fit best at x: Newton's method, F is convex in them.

        A part of the entries brings the cuts near, so that few passes over all of them are left.
        """
        levels = distinct_levels(o)
        level, scale = np.searchsorted(levels, o).astype(np.uint8), float(np.std(o, dtype=np.float64)) or 1.0
        cuts, workers = None, workers or Workers()
        for every in (SAMPLE, 1):
            part = None if weights is None else np.ascontiguousarray(weights[::every])
            sample = np.ascontiguousarray(level[::every])
            if every == 1 or np.bincount(sample, part, levels.size).min() > ENOUGH:
                cuts = _best_cuts(np.ascontiguousarray(x[::every]), sample, levels.size, part, scale, workers, cuts)
        assert cuts is not None
        return Ordinal(tuple(levels.tolist()), tuple(cuts.tolist()), scale)

    def value(self, x: Array, o: Array, weights: Array | None = None) -> float:
        return -(self.scale**2) * _total(np.log(_share(*self._ends(x, o))), weights)

    def derivative(self, x: Array, o: Array) -> Array:
        """x - E[z | level], so that the working value x - f'(x) is what z is expected to be."""
        low, high = self._ends(x, o)
        with np.errstate(over="ignore"):
            slope = (np.exp(-0.5 * high**2) - np.exp(-0.5 * low**2)) / _share(low, high) / np.sqrt(2 * np.pi)
        # Far from an interval z is at its nearest end, which is also what keeps rounding in bounds.
        return np.asarray(self.scale * -np.clip(-slope, low, high), x.dtype)

    def predicted(self, x: Array) -> Array:
        above = ndtr((x[..., None] - np.array(self.cuts)) / self.scale)
        return np.asarray(self.levels[0] + above @ np.diff(self.levels), x.dtype)

    def probabilities(self, x: Array) -> Array:
        """Of each level (..., levels)."""
        edges = (np.concatenate([[-np.inf], self.cuts, [np.inf]]) - x[..., None].astype(np.float64)) / self.scale
        return np.asarray(np.where(edges[..., :-1] > 0, -np.diff(ndtr(-edges)), np.diff(ndtr(edges))))

    def interval(self, x: Array, level: float) -> tuple[Array, Array]:
        """From which level to which one ranges go that hold a value with this probability."""
        below, levels = np.cumsum(self.probabilities(x), axis=-1), np.array(self.levels)
        low, high = (below <= (1 - level) / 2).sum(axis=-1), (below < (1 + level) / 2).sum(axis=-1)
        return levels[np.minimum(low, levels.size - 1)], levels[np.minimum(high, levels.size - 1)]

    def _ends(self, x: Array, o: Array) -> tuple[Array, Array]:
        """Ends of the intervals of z around x, in units of s."""
        levels = np.array(self.levels)
        at = np.minimum(np.searchsorted(levels, o), levels.size - 1)
        if not np.array_equal(levels[at], o.astype(np.float64)):
            strange = o[levels[at] != o][0]
            raise InputError(f"{strange:g} is no level of the scale, which has {', '.join(f'{v:g}' for v in levels)}.")
        edges = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        return (edges[at] - x) / self.scale, (edges[at + 1] - x) / self.scale


def _total(losses: Array, weights: Array | None) -> float:
    return float(np.sum(losses) if weights is None else losses @ weights)


def distinct_levels(o: Array) -> Array:
    """The values of a scale, ascending; more than MAX_LEVELS are refused."""
    levels = np.unique(o[:: max(o.size // 1000, 1)])
    known = np.isin(o, levels)  # most scales are known from a few values, and sorting all of them takes long
    levels = levels if known.all() else np.unique(np.concatenate([levels, o[~known]]))
    if levels.size > MAX_LEVELS:
        raise InputError(
            f"loss='ordinal' is for values on a scale of at most {MAX_LEVELS} levels, and the data has more; "
            "use the squared loss."
        )
    return levels.astype(np.float64)


def _share(low: Array, high: Array) -> Array:
    """The probability of an interval in units of the noise, in the lower tail, where it is accurate."""
    flip = low > 0
    return np.maximum(ndtr(np.where(flip, -low, high)) - ndtr(np.where(flip, -high, low)), TINY)


def _best_cuts(
    x: Array, level: Array, count: int, weights: Array | None, scale: float, workers: Workers, start: Array | None
) -> Array:
    """Cuts of greatest likelihood, by Newton's method with halved steps, from a start or the levels' shares."""
    if count < 2:
        return np.zeros(0)
    shares = np.cumsum(np.bincount(level, weights, count))
    spread = np.sqrt(scale**2 + float(np.var(x, dtype=np.float64)))
    middle = float(np.mean(x, dtype=np.float64))
    cuts = middle + spread * ndtri(shares[:-1] / shares[-1]) if start is None else start
    own = np.zeros(0) if weights is None else weights.astype(np.float64)

    def terms(cuts: Array) -> Array:
        out = np.empty((-(-x.size // LEVEL_BLOCK), 1 + 3 * cuts.size))
        args = (level, x, own, cuts, scale, out)
        workers.run_evenly(probit_terms, len(out), *args, work_per_line=50 * LEVEL_BLOCK)
        return np.asarray(out.sum(axis=0))

    c = cuts.size
    now = terms(cuts)
    for _ in range(NEWTON_STEPS):
        beside = now[1 + 2 * c : 3 * c]
        minus = np.diag(-now[1 + c : 1 + 2 * c]) - np.diag(beside, 1) - np.diag(beside, -1)
        step = np.linalg.solve(minus + 1e-12 * np.trace(minus) / c * np.eye(c), now[1 : 1 + c])
        if np.abs(step).max() < SMALL_STEP * scale:
            return np.asarray(cuts + step)
        for _ in range(NEWTON_STEPS):
            there = cuts + step
            following = terms(there) if (np.diff(there) > 0).all() else None
            if following is not None and following[0] >= now[0]:
                cuts, now = there, following
                break
            step = step / 2
        else:
            break
    return cuts


SQUARED = Squared()
LOSSES = {"squared": Squared, "huber": Huber, "logistic": Logistic, "ordinal": Ordinal}


def find(loss: str | Loss) -> Loss:
    """The loss of this name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise InputError(f"Unknown loss {loss!r}; there are {', '.join(LOSSES)}.")
    return LOSSES[loss]()
