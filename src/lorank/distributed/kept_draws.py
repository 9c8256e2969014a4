"""Draws of a chain that are kept in shards, and the posterior that comes of them.

A kept draw is a pair of factors in float32: of rows (mean, deviation, variance of the noise) and of columns (line,
variance of the noise), as `lorank.solvers.posterior` describes them. The driver has their names. Dropping a draw is
forgetting its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lorank.distributed.engines import Engine
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.owner import Owner, shards_of
from lorank.distributed.parts import COLS, ROWS
from lorank.linalg import Factors, accurate_balance, pad
from lorank.solvers import Posterior
from lorank.solvers.gibbs.hyper import Hyper
from lorank.solvers.prior_draws import PriorDraws
from lorank.types import Array

Pair = tuple[FactorShards, FactorShards]


@dataclass(frozen=True)
class ShardDraws:
    """Room for `room` draws of rank k, `width` numbers a line; they are spread evenly over the chain as `Draws` are.

    The priors of rows and of columns, of sides with features, do not grow with the lines: they are here.
    """

    k: int
    width: int
    room: int
    offset: float
    row_prior: PriorDraws
    col_prior: PriorDraws
    rows: tuple[FactorShards, ...] = ()
    cols: tuple[FactorShards, ...] = ()
    offered: int = 0
    every: int = 1

    @property
    def count(self) -> int:
        return len(self.rows)

    @classmethod
    def empty(cls, factors: Factors, room: int) -> ShardDraws:
        """Room for draws of the shape of these factors."""
        k, prior = factors.k, PriorDraws.empty(0, factors.k + factors.biased, 0)
        return cls(k, k + 2 * factors.biased, room, factors.offset, prior, prior)

    def offer(self, make: Callable[[], Pair], rows: Hyper, cols: Hyper) -> ShardDraws:
        """Keep a draw, and where it expects rows and columns, if its turn has come; only then it is made."""
        kept = self
        if self.offered % self.every == 0 and self.count == self.room:
            kept = replace(self.chosen(slice(None, None, 2)), every=2 * self.every)
        if self.offered % kept.every == 0:
            row, col = make()
            own, other = (
                prior.appended(hyper.mu, hyper.Lambda, hyper.coefficients)
                for prior, hyper in ((kept.row_prior, rows), (kept.col_prior, cols))
            )
            kept = replace(kept, rows=(*kept.rows, row), cols=(*kept.cols, col), row_prior=own, col_prior=other)
        return replace(kept, offered=self.offered + 1)

    def chosen(self, draws: slice) -> ShardDraws:
        """These of the kept draws."""
        rows, cols = self.row_prior.chosen(draws), self.col_prior.chosen(draws)
        return replace(self, rows=self.rows[draws], cols=self.cols[draws], row_prior=rows, col_prior=cols)

    def before(self, offered: int) -> int:
        """How many of the kept draws are among the first so many that were offered."""
        return -(-offered // self.every)

    def finish(self, engine: Engine, early: int) -> Posterior:
        """The posterior without the first so many draws that were offered; all of its arrays are in shards."""
        left, k, width = self.chosen(slice(self.before(early), None)), self.k, self.width
        rows, cols, priors = left.rows, left.cols, (left.row_prior, left.col_prior)
        wide = len(rows) * width
        means, deviations, right = (
            engine.factor(like.side, len(like), wide, np.float32) for like in (rows[0], rows[0], cols[0])
        )
        noise = [engine.factor(own[0].side, len(own[0]), len(rows), np.float32) for own in (rows, cols)]
        engine.run(ROWS, join_rows, means, deviations, noise[0], rows)
        engine.run(COLS, join_cols, right, noise[1], cols)
        mean: Any = Factors(means, right, wide)  # type: ignore[arg-type]
        of_noise = Factors(noise[0], noise[1], len(rows))  # type: ignore[arg-type]
        summary = summarized(engine, mean, k, width, self.offset)
        more: Any = deviations
        return Posterior(mean, summary, more, width, len(rows), of_noise, priors=priors)


def summarized(engine: Engine, mean: Factors, k: int, width: int, offset: float) -> Factors:
    """The posterior mean in factors of rank k, by the Grams of all draws side by side; see `Posterior.summary`."""
    wide: Any = mean.left, mean.right
    # Biases are columns of their own: what is left without them is the mean of W H^T.
    columns = np.flatnonzero(np.arange(mean.k) % width < k)
    grams = [engine.run(own.side, gram_of, own, columns).reshape(columns.size, -1) for own in wide]
    frame = accurate_balance(*grams)
    strongest = np.argsort(frame.sigma)[::-1][: min(k, *mean.shape)]
    sides = []
    for own, turn, bias in zip(wide, (frame.A, frame.inverse_transposed), (k, k + 1)):
        new = engine.factor(own.side, len(own), k, np.float32)
        biases = None if width == k else (bias, width, offset if own.side == ROWS else 0.0)
        engine.run(own.side, project, new, own, columns, turn[:, strongest], biases)
        sides.append(new)
    return Factors(sides[0], sides[1], k, width > k, offset if width > k else 0.0)  # type: ignore[arg-type]


def kept_draw(
    engine: Engine, factors: Factors, mean: FactorShards, precision: float, weights: tuple[FactorShards, FactorShards]
) -> Pair:
    """The factors that are kept of a draw."""
    width = factors.k + 2 * factors.biased
    sides: Any = factors.left, factors.right
    row, col = (
        engine.factor(own.side, len(own), factors.k, np.float32, numbers)
        for own, numbers in zip(sides, (2 * width + 1, width + 1))
    )
    engine.run(ROWS, keep_rows, row, sides[0], mean, weights[0], precision, factors.biased, float(factors.offset))
    engine.run(COLS, keep_cols, col, sides[1], weights[1], factors.biased)
    return row, col


def in_memory(engine: Engine, factors: Factors) -> Factors:
    """Factors whose shards are gathered here."""
    sides: Any = factors.left, factors.right
    left, right = (gathered(engine, side) for side in sides)
    return replace(factors, left=left, right=right)


def gathered(engine: Engine, factor: Any) -> Array:
    """All shards of a factor in one array."""
    return np.concatenate(engine.each(factor.side, shards_of, factor))


def posterior_in_memory(engine: Engine, posterior: Posterior) -> Posterior:
    """The same posterior with its shards gathered here."""
    mean, summary, noise = (in_memory(engine, one) for one in (posterior.mean, posterior.summary, posterior.noise))
    return replace(
        posterior, mean=mean, summary=summary, noise=noise, deviations=gathered(engine, posterior.deviations)
    )


# What owners do.


def keep_rows(
    owner: Owner,
    side: str,
    new: FactorShards,
    draw: FactorShards,
    mean: FactorShards,
    weights: FactorShards,
    precision: float,
    biased: bool,
    offset: float,
) -> Iterator[tuple[int, Array]]:
    """Means and deviations of rows, (w, a + offset, 1) with biases, and 1 / (alpha c_i)."""
    k, width = draw.k, draw.k + 2 * biased
    for number in owner.sides[side]:
        centre, drawn = owner.shard(mean, number), owner.shard(draw, number)
        kept = np.zeros((len(drawn), 2 * width + 1), np.float32)
        kept[:, : k + biased] = centre[:, : k + biased]
        kept[:, width : width + k + biased] = drawn[:, : k + biased] - centre[:, : k + biased]
        if biased:
            kept[:, k] += np.float32(offset)
            kept[:, k + 1] = 1
        kept[:, -1] = 1 / (precision * owner.shard(weights, number)[:, 0])
        owner.keep(new, number, kept)
        yield number, np.zeros(1)


def keep_cols(
    owner: Owner, side: str, new: FactorShards, draw: FactorShards, weights: FactorShards, biased: bool
) -> Iterator[tuple[int, Array]]:
    """Columns (h, 1, b), and 1 / d_j."""
    k = draw.k
    for number in owner.sides[side]:
        drawn = owner.shard(draw, number)
        kept = np.zeros((len(drawn), k + 2 * biased + 1), np.float32)
        kept[:, :k] = drawn[:, :k]
        if biased:
            kept[:, k], kept[:, k + 1] = 1, drawn[:, k]
        kept[:, -1] = 1 / owner.shard(weights, number)[:, 0]
        owner.keep(new, number, kept)
        yield number, np.zeros(1)


def join_rows(
    owner: Owner,
    side: str,
    means: FactorShards,
    deviations: FactorShards,
    noise: FactorShards,
    kept: tuple[FactorShards, ...],
) -> Iterator[tuple[int, Array]]:
    """Kept draws of rows side by side, means and variances divided by their number."""
    for number in owner.sides[side]:
        shards = [owner.shard(one, number) for one in kept]
        width, share = (shards[0].shape[1] - 1) // 2, np.float32(1 / len(shards))
        owner.keep(means, number, pad(np.hstack([shard[:, :width] for shard in shards]) * share))
        owner.keep(deviations, number, pad(np.hstack([shard[:, width:-1] for shard in shards])))
        owner.keep(noise, number, pad(np.hstack([shard[:, -1:] for shard in shards]) * share))
        yield number, np.zeros(1)


def join_cols(
    owner: Owner, side: str, right: FactorShards, noise: FactorShards, kept: tuple[FactorShards, ...]
) -> Iterator[tuple[int, Array]]:
    """Kept draws of columns side by side."""
    for number in owner.sides[side]:
        shards = [owner.shard(one, number) for one in kept]
        owner.keep(right, number, pad(np.hstack([shard[:, :-1] for shard in shards])))
        owner.keep(noise, number, pad(np.hstack([shard[:, -1:] for shard in shards])))
        yield number, np.zeros(1)


def gram_of(owner: Owner, side: str, wide: FactorShards, columns: Array | slice) -> Iterator[tuple[int, Array]]:
    """The Gram of some columns."""
    for number in owner.sides[side]:
        F = owner.shard(wide, number)[:, columns].astype(np.float64)
        yield number, (F.T @ F).ravel()


def project(
    owner: Owner,
    side: str,
    new: FactorShards,
    wide: FactorShards,
    columns: Array,
    turn: Array,
    biases: tuple[int, int, float] | None,
) -> Iterator[tuple[int, Array]]:
    """Some columns times a matrix, beside the mean of the biases: every width-th column from the first, less a number.

    Rows are divided by the number of draws already, so that their mean is a sum.
    """
    for number in owner.sides[side]:
        shard, bias = owner.shard(wide, number), None
        factor = np.zeros((len(shard), new.k), np.float32)
        factor[:, : turn.shape[1]] = shard[:, columns].astype(np.float64) @ turn
        if biases is not None:
            first, width, less = biases
            own = shard[:, first : wide.k : width]
            bias = (own.sum(axis=1) if side == ROWS else own.mean(axis=1)) - np.float32(less)
        owner.keep(new, number, pad(factor, bias))
        yield number, np.zeros(1)
