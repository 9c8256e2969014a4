"""Values on a scale: the ordered probit model, whose cuts are learnt with the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from lorank.errors import InputError
from lorank.kernels import LEVEL_BLOCK, Workers, probit_terms
from lorank.losses.pointwise import Loss
from lorank.types import Array

# Levels of an ordinal scale at most.
MAX_LEVELS = 50
# Newton's method for the cuts ends with a step of less than this part of the noise: the next would be its square.
NEWTON_STEPS, SMALL_STEP = 50, 1e-3
# First every so manyth entry, if there are enough of each level among them.
SAMPLE, ENOUGH = 16, 20
TINY = 1e-290


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

    def losses(self, x: Array, o: Array) -> Array:
        return np.asarray(-(self.scale**2) * np.log(_share(*self._ends(x, o))))

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
        low, high = shortest(self.probabilities(x), level)
        return np.array(self.levels)[low], np.array(self.levels)[high]

    def _ends(self, x: Array, o: Array) -> tuple[Array, Array]:
        """Ends of the intervals of z around x, in units of s."""
        levels = np.array(self.levels)
        at = np.minimum(np.searchsorted(levels, o), levels.size - 1)
        if not np.array_equal(levels[at], o.astype(np.float64)):
            strange = o[levels[at] != o][0]
            raise InputError(f"{strange:g} is no level of the scale, which has {', '.join(f'{v:g}' for v in levels)}.")
        edges = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        return (edges[at] - x) / self.scale, (edges[at + 1] - x) / self.scale


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


def shortest(chances: Array, level: float) -> tuple[Array, Array]:
    """The first and last level of short intervals that hold a share `level` on average; chances (pairs, levels).

    From all levels the less probable end is taken off again and again. The last one to go counts half: whole levels
    hold more or less than is asked for, and more as often as less.
    """
    pairs, each = np.arange(len(chances)), chances.shape[1]
    low, high, removed = np.zeros(len(chances), np.int64), np.full(len(chances), each - 1), np.zeros(len(chances))
    for _ in range(each - 1):
        at_low, at_high = chances[pairs, low], chances[pairs, high]
        least = np.minimum(at_low, at_high)
        goes = removed + least / 2 <= 1 - level
        if not goes.any():
            break
        low, high = low + (goes & (at_low < at_high)), high - (goes & (at_low >= at_high))
        removed = np.where(goes, removed + least, np.inf)
    return low, high
