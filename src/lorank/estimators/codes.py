"""Cells of one column as numbers of one scale, on which a low-rank matrix is fitted, and back.

    numbers      z = (t(x) - mean) / std,  t = identity, log (positive) or logit (bounded); or the normal scores
                 z = Phi^-1(F(x)) with the column's own distribution function F
    ordinal      z = E[Z | level], Z standard normal, cut where the levels' frequencies say
    classes      z = the indicators of all levels but the commonest, standardised: a block of as many columns

With normal scores this is a Gaussian copula: the joint distribution is that of normal variables, seen through monotone
functions. What is filled in then never leaves the range of what was observed.

References
----------
Hoff, "Extending the rank likelihood for semiparametric copula estimation", Ann. Appl. Statist. 2007.
Murray et al., "Bayesian Gaussian copula factor models for mixed data", JASA 2013.
Zhao, Udell, "Missing value imputation for mixed data via Gaussian copula", KDD 2020.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from lorank.estimators.columns import Column
from lorank.losses import SQUARED, Loss
from lorank.types import Array

# An expectation over normal noise is the mean over this many of its quantiles.
NODES = ndtri((np.arange(16) + 0.5) / 16)
# Observed values at which a distribution function is known, at most: more make it slow, and no better.
MOST_KNOTS = 4000
# No class has a smaller chance than this.
LEAST_CHANCE = 1e-3
# How far within its bounds a value of a bounded column is put before the logit, as a part of their distance.
EDGE = 0.005


class Term(NamedTuple):
    """The loss of one column of codes, the offset where x = 0 stands, and how much the loss counts."""

    loss: Loss
    offset: float = 0.0
    weight: float = 1.0


class Code(ABC):
    """One column as `width` columns of numbers, and back; `numbers` are those of `Column.numbers`."""

    width = 1

    @abstractmethod
    def encode(self, numbers: Array) -> Array:
        """(rows, width) from (rows,); NaN stays NaN."""

    def expected(self, mean: Array, std: Array) -> Array:
        """What to fill in where the code is N(mean, std^2), each (rows, width): the expected number, or a level."""
        return self.number(mean)

    @abstractmethod
    def number(self, value: Array) -> Array:
        """The numbers (rows,) that values of the code (rows, width) stand for."""

    def drawn(self, mean: Array, std: Array, normal: Array, uniform: Array, exponent: float = 1.0) -> Array:
        """Draws of numbers where the code is N(mean, std^2), from standard normal and uniform ones.

        Chances of classes are raised to `exponent`.
        """
        return self.number(mean + std * normal)

    def chances(self, mean: Array, std: Array) -> Array | None:
        """The probability of each level (rows, levels); None for numbers."""
        return None

    def terms(self) -> list[Term]:
        """The losses of its columns, under methods that take any: squared by default."""
        return [Term(SQUARED)] * self.width

    def with_losses(self, losses: Sequence[Loss]) -> Code:
        """With what these losses of its columns have learnt."""
        return self


@dataclass(frozen=True)
class Standardised(Code):
    """(t(x) - mean) / std."""

    kind: str
    low: float
    high: float
    mean: float
    std: float

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array) -> Standardised:
        plain = cls(column.kind, column.low, column.high, 0.0, 1.0)
        seen = ~np.isnan(numbers)
        if not seen.any():
            return replace(plain, std=0.0)
        t, mass = plain.encode(numbers[seen])[:, 0], weights[seen]
        mean = float(np.average(t, weights=mass))
        # A constant column has no scale: its mean is all there is to say of it, and all that is filled in.
        constant = bool((t == t[0]).all())
        std = 0.0 if constant else float(np.sqrt(np.average((t - mean) ** 2, weights=mass)))
        return replace(plain, mean=float(t[0]) if constant else mean, std=std)

    @classmethod
    def centred(cls, column: Column, numbers: Array, weights: Array) -> Standardised:
        """In the column's own unit."""
        scaled = cls.of(column, numbers, weights)
        return replace(scaled, std=1.0 if scaled.std else 0.0)

    def encode(self, numbers: Array) -> Array:
        t = numbers
        if self.kind == "positive":
            t = np.log(numbers)
        elif self.kind == "bounded":
            t = logit(EDGE + (1 - 2 * EDGE) * (numbers - self.low) / (self.high - self.low))
        return ((t - self.mean) / (self.std or 1.0))[:, None]

    def expected(self, mean: Array, std: Array) -> Array:
        if self.kind not in ("positive", "bounded"):
            return self.number(mean)
        return np.mean([self.number(mean + node * std) for node in NODES], axis=0)

    def number(self, value: Array) -> Array:
        t = value[:, 0] * self.std + self.mean
        if self.kind == "positive":
            return np.exp(t)
        if self.kind == "bounded":
            part = (expit(t) - EDGE) / (1 - 2 * EDGE)
            return self.low + (self.high - self.low) * np.clip(part, 0.0, 1.0)
        return t


@dataclass(frozen=True)
class Scores(Code):
    """Phi^-1(F(x)) at the values that were observed, at MOST_KNOTS of them, and straight lines between them."""

    values: Array
    scores: Array

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array) -> Scores:
        seen = ~np.isnan(numbers)
        if not seen.any():
            return cls(np.zeros(1), np.zeros(1))
        values, which = np.unique(numbers[seen], return_inverse=True)
        counts = np.bincount(which, weights[seen])
        scores = ndtri((np.cumsum(counts) - counts / 2) / counts.sum())
        if scores.size <= MOST_KNOTS:
            return cls(values, scores)
        kept = np.unique(np.searchsorted(scores, np.linspace(scores[0], scores[-1], MOST_KNOTS)))
        return cls(values[kept], scores[kept])

    def encode(self, numbers: Array) -> Array:
        return np.interp(numbers, self.values, self.scores)[:, None]

    def expected(self, mean: Array, std: Array) -> Array:
        return np.mean([self.number(mean + node * std) for node in NODES], axis=0)

    def number(self, value: Array) -> Array:
        return np.interp(value[:, 0], self.scores, self.values)


@dataclass(frozen=True)
class OrdinalScores(Code):
    """E[Z | level] between the cuts of the levels' frequencies."""

    cuts: Array
    scores: Array

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array) -> OrdinalScores:
        counts = level_counts(column, numbers, weights)
        below = np.cumsum(counts)[:-1] / (counts.sum() or 1.0)
        cuts = ndtri(below)
        edges = np.concatenate([[-np.inf], cuts, [np.inf]])
        density = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
        scores = (density[:-1] - density[1:]) / np.maximum(np.diff(ndtr(edges)), 1e-12)
        return cls(cuts, scores)

    def encode(self, numbers: Array) -> Array:
        codes = np.full(numbers.size, np.nan)
        seen = ~np.isnan(numbers)
        codes[seen] = self.scores[numbers[seen].astype(np.int64)]
        return codes[:, None]

    def chances(self, mean: Array, std: Array) -> Array:
        below = ndtr((self.cuts - mean) / np.maximum(std, 1e-9))
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def number(self, value: Array) -> Array:
        return np.asarray(np.searchsorted(self.cuts, value[:, 0]), np.float64)


@dataclass(frozen=True)
class Indicators(Code):
    """The indicators of all levels but the commonest, standardised.

    All of them together would have the sum 1, and a model that finds this out takes the noise for zero.
    """

    means: Array
    stds: Array
    kept: Array

    @classmethod
    def of(cls, column: Column, numbers: Array, weights: Array) -> Indicators:
        counts = level_counts(column, numbers, weights)
        shares = counts / (counts.sum() or 1.0)
        kept = np.delete(np.arange(shares.size), counts.argmax()) if shares.size > 1 else np.arange(1)
        return cls(shares, np.sqrt(np.maximum(shares * (1 - shares), 1e-6)), kept)

    @property
    def width(self) -> int:  # type: ignore[override]
        return int(self.kept.size)

    def encode(self, numbers: Array) -> Array:
        codes = self.of_shares((numbers[:, None] == np.arange(self.means.size)).astype(np.float64))
        codes[np.isnan(numbers)] = np.nan
        return codes

    def chances(self, mean: Array, std: Array) -> Array:
        """The probability that an indicator, normal around what is expected, is above 1/2; brought to the sum of 1.

        Expected indicators themselves are too cautious where classes lie well apart. Where the standard deviation is 0
        they are the chances.
        """
        shares = self.shares(mean)
        widths = np.zeros(shares.shape)
        widths[:, self.kept] = std * self.stds[self.kept]
        widths[:, self._left_out] = np.sqrt((widths**2).sum(axis=1, keepdims=True))
        likely = ndtr((shares - 0.5) / np.where(widths > 0, widths, 1.0))
        chances = np.maximum(np.where(widths > 0, likely, shares), LEAST_CHANCE)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def number(self, value: Array) -> Array:
        return np.asarray(self.shares(value).argmax(axis=1), np.float64)

    def drawn(self, mean: Array, std: Array, normal: Array, uniform: Array, exponent: float = 1.0) -> Array:
        below = np.cumsum(tempered(self.chances(mean, std), exponent), axis=1)
        return np.minimum((below < uniform[:, None]).sum(axis=1), self.means.size - 1).astype(np.float64)

    @property
    def _left_out(self) -> Array:
        return np.setdiff1d(np.arange(self.means.size), self.kept)

    def of_shares(self, shares: Array) -> Array:
        """Codes (rows, width) of indicators (rows, levels)."""
        return np.asarray((shares[:, self.kept] - self.means[self.kept]) / self.stds[self.kept])

    def shares(self, values: Array) -> Array:
        """All indicators (rows, levels) that codes (rows, width) stand for; their sum is 1."""
        shares = np.zeros((len(values), self.means.size))
        shares[:, self.kept] = values * self.stds[self.kept] + self.means[self.kept]
        shares[:, self._left_out] = 1 - shares.sum(axis=1, keepdims=True)
        return shares


def tempered(chances: Array | None, exponent: float) -> Array:
    """Chances of classes (rows, levels) raised to a power, their sum 1 again; none is 0."""
    assert chances is not None
    powers = np.maximum(chances, LEAST_CHANCE) ** exponent
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def level_counts(column: Column, numbers: Array, weights: Array) -> Array:
    """How often each level was seen."""
    assert column.levels is not None
    seen = ~np.isnan(numbers)
    return np.bincount(numbers[seen].astype(np.int64), weights[seen], minlength=column.levels.size)
