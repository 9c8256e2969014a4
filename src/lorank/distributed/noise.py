"""The noise's weights of lines in shards: what `lorank.solvers.gibbs.noise` draws, from sums over the owners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lorank import kernels
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.owner import Owner
from lorank.solvers.gibbs.chain import Side
from lorank.solvers.gibbs.noise import LEAST, draw_nu, draw_slope, levels_of
from lorank.types import Array


class ShardNoise:
    """The noise's weights of one side ("rows" or "cols"), whose lines' numbers of entries stay the same."""

    def __init__(self, side: str) -> None:
        self.side, self.middle = side, np.nan

    def draw(
        self,
        engine: Any,
        last: Side,
        drawn: FactorShards,
        about: FactorShards,
        precision: float,
        name: tuple[int, ...],
        rng: np.random.Generator,
    ) -> tuple[Side, float]:
        """Weights, nu and beta after `last`, and the sum of half the squared residuals with these weights.

        about (lines, 2) has half the squared residuals and the entries of each line; `drawn` takes the weights, which
        have random numbers of this name.
        """
        if np.isnan(self.middle):
            total, entries = engine.run(self.side, level_sums, about)
            self.middle = float(total / max(entries, 1.0))

        def run(function: Any, *at: float) -> float:
            return float(engine.run(self.side, function, about, precision, self.middle, *at)[0])

        slope = draw_slope(last.slope, lambda b: run(slope_likelihood, b, last.nu), rng)
        nu = draw_nu(last.nu, lambda t: run(nu_likelihood, slope, t), rng)
        (loss,) = engine.run(self.side, draw_weights, drawn, about, precision, self.middle, slope, nu, name)
        weights: Any = drawn
        return replace(last, weights=weights, nu=nu, slope=slope), float(loss)


# What owners do.


def level_sums(owner: Owner, side: str, about: FactorShards) -> Iterator[tuple[int, Array]]:
    """Sum over entries of the levels of their lines, and the number of entries."""
    for number in owner.sides[side]:
        _, entries = owner.shard(about, number).T
        yield number, np.array([entries @ levels_of(entries, 0.0), entries.sum()])


def slope_likelihood(
    owner: Owner, side: str, about: FactorShards, precision: float, middle: float, slope: float, nu: float
) -> Iterator[tuple[int, Array]]:
    """log likelihood of the slope, up to a constant, with the lines' weights integrated out."""
    for number in owner.sides[side]:
        loss, entries = owner.shard(about, number).T
        levels = levels_of(entries, middle)
        yield number, np.array([kernels.slope_density(slope, nu / 2, levels, precision * loss, entries)])


def nu_likelihood(
    owner: Owner, side: str, about: FactorShards, precision: float, middle: float, slope: float, t: float
) -> Iterator[tuple[int, Array]]:
    """The same of t = log(nu - LEAST)."""
    for number in owner.sides[side]:
        loss, entries = owner.shard(about, number).T
        counts, energy = entries.astype(np.int64), precision * loss * np.exp(slope * levels_of(entries, middle))
        # A prior of infinite width is none.
        value = kernels.weights_density(t, LEAST, 0.0, np.inf, np.bincount(counts), energy, counts)
        yield number, np.array([value])


def draw_weights(
    owner: Owner,
    side: str,
    new: FactorShards,
    about: FactorShards,
    precision: float,
    middle: float,
    slope: float,
    nu: float,
    name: tuple[int, ...],
) -> Iterator[tuple[int, Array]]:
    """c = g exp(slope level), g ~ Gamma(nu/2 + n/2, rate nu/2 + alpha loss exp(slope level)) of each line, by random
    numbers of this name; sum of c loss."""
    for number in owner.sides[side]:
        loss, entries = owner.shard(about, number).T
        rng, scale = np.random.default_rng([*name, number]), np.exp(slope * levels_of(entries, middle))
        weights = scale * rng.standard_gamma((nu + entries) / 2) / (nu / 2 + precision * scale * loss)
        owner.keep(new, number, weights[:, None])
        yield number, np.array([weights @ loss])
