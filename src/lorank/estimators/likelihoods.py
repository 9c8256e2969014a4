"""Codes with a likelihood of their own: counts, numbers with outliers, levels, two classes, one class of many.

Under a factored method each column has the loss that fits it, on one set of factors. x = 0 is the column's own centre,
and losses are weighted such that at this centre all columns have the mean loss 1/2, as a standardised column of numbers
has: Udell's generalized low-rank model.

References
----------
Udell, Horn, Zadeh, Boyd, "Generalized low rank models", Foundations and Trends in Machine Learning 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit, softmax

from lorank.estimators.codes import Code, OrdinalScores, Standardised, Term, level_counts
from lorank.estimators.columns import Column
from lorank.losses import Huber, Logistic, Loss, Multinomial, Ordinal, Poisson
from lorank.types import Array

# So much of an observation is added to each class, and to counts: no probability is 0.
ADDED = 0.5
# The smallest mean loss by which a column is weighted: one that is almost constant must not outweigh all others.
LEAST_LOSS = 0.01
# Poisson's mean is exp(x) up to so many times the column's mean, and goes on as a line.
LINE = 4.0


def weight_of(loss: float) -> float:
    """The weight of a column with this mean loss at its centre."""
    return 0.5 / max(loss, LEAST_LOSS)


@dataclass(frozen=True)
class Robust(Standardised):
    """Standardised numbers with outliers, by median and median deviation, under Huber's loss."""

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array) -> Robust:
        seen = numbers[~np.isnan(numbers)]
        middle = float(np.median(seen)) if seen.size else 0.0
        spread = 1.4826 * float(np.median(np.abs(seen - middle))) if seen.size else 1.0
        return cls(column.kind, column.low, column.high, middle, spread or float(np.std(seen)) or 1.0)

    def terms(self) -> list[Term]:
        return [Term(Huber(delta=1.0))]


@dataclass(frozen=True)
class Counts(Code):
    """Counts as they are, under Poisson's loss; x + offset is the logarithm of what is expected."""

    loss: Poisson
    offset: float
    weight: float
    top: float

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array) -> Counts:
        seen = ~np.isnan(numbers)
        counts, mass = numbers[seen], weights[seen]
        mean = float((mass @ counts + ADDED) / (mass.sum() + ADDED))
        loss = Poisson(most=max(LINE * mean, 1.0))
        offset = float(loss.score(np.array(mean)))
        spread = np.average(loss.losses(np.full(counts.size, offset), counts), weights=mass) if counts.size else 1.0
        return cls(loss, offset, weight_of(float(spread)), float(counts.max(initial=0.0)))

    def terms(self) -> list[Term]:
        return [Term(self.loss, self.offset, self.weight)]

    def encode(self, numbers: Array) -> Array:
        return numbers[:, None]

    def number(self, value: Array) -> Array:
        """What is expected; not more than was seen, where exp would go far beyond it."""
        return np.minimum(self.loss.expected(value[:, 0] + self.offset), self.top)


@dataclass(frozen=True)
class TwoClasses(Code):
    """-1 and 1, under the logistic loss; x + offset is the logarithm of the odds of the second level."""

    offset: float
    weight: float

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array) -> TwoClasses:
        first, second = np.resize(level_counts(column, numbers, weights), 2) + ADDED
        share = float(second / (first + second))
        return cls(float(logit(share)), weight_of(-share * np.log(share) - (1 - share) * np.log(1 - share)))

    def terms(self) -> list[Term]:
        return [Term(Logistic(), self.offset, self.weight)]

    def encode(self, numbers: Array) -> Array:
        return (2 * numbers - 1)[:, None]

    def chances(self, mean: Array, std: Array) -> Array:
        second = expit(mean[:, 0] + self.offset)
        return np.column_stack([1 - second, second])

    def number(self, value: Array) -> Array:
        return np.asarray(value[:, 0] + self.offset > 0, np.float64)


@dataclass(frozen=True)
class OneOfMany(Code):
    """The indicators of all levels, under the multinomial loss; softmax(x + offset) are their probabilities."""

    block: int
    offsets: tuple[float, ...]
    weight: float

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array, block: int = 0) -> OneOfMany:
        shares = level_counts(column, numbers, weights) + ADDED
        logarithms = np.log(shares / shares.sum())
        return cls(block, tuple(logarithms.tolist()), weight_of(-float(np.exp(logarithms) @ logarithms)))

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.offsets)

    def terms(self) -> list[Term]:
        return [Term(Multinomial(self.block), offset, self.weight) for offset in self.offsets]

    def encode(self, numbers: Array) -> Array:
        codes = (numbers[:, None] == np.arange(self.width)).astype(np.float64)
        codes[np.isnan(numbers)] = np.nan
        return codes

    def chances(self, mean: Array, std: Array) -> Array:
        return np.asarray(softmax(mean + np.array(self.offsets), axis=1))

    def number(self, value: Array) -> Array:
        return np.asarray((value + np.array(self.offsets)).argmax(axis=1), np.float64)


@dataclass(frozen=True)
class ProbitLevels(OrdinalScores):
    """The scores of levels, under the ordinal loss, whose cuts are learnt with the factors."""

    seen: Array
    weight: float
    loss: Ordinal

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array) -> ProbitLevels:
        plain, counts = OrdinalScores.of(column, numbers, weights), level_counts(column, numbers, weights)
        shares = counts[counts > 0] / (counts.sum() or 1.0)
        scale = float(np.nanvar(plain.encode(numbers))) if counts.any() else 1.0
        seen = np.flatnonzero(counts > 0)
        weight = weight_of(-scale * float(shares @ np.log(shares)))
        return cls(plain.cuts, plain.scores, seen, weight, Ordinal())

    def terms(self) -> list[Term]:
        return [Term(self.loss, 0.0, self.weight)]

    def with_losses(self, losses: Sequence[Loss]) -> ProbitLevels:
        (loss,) = losses
        assert isinstance(loss, Ordinal)
        return replace(self, loss=loss)

    def chances(self, mean: Array, std: Array) -> Array:
        out = np.zeros((len(mean), self.scores.size))
        out[:, self.seen] = self.loss.probabilities(mean[:, 0])
        return out

    def number(self, value: Array) -> Array:
        """The median level."""
        return np.asarray(self.seen[np.searchsorted(self.loss.cuts, value[:, 0])], np.float64)
