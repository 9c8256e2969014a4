"""The Gibbs sampler on an engine: `lorank.solvers.gibbs` with factors, weights and kept draws in shards.

A sweep is that of `Sampler`. The lines of a part are drawn where they are, by random numbers that are named by the
number of the line among all, and their weights by a generator that is named by sweep, side and part: parts are cut by
the data alone, so that the bits are the same whoever owns them. Above the lines stand numbers, which the driver draws
from sums over all parts: Grams for the hyperparameters, the likelihood of nu for each that its slice sampler asks for,
squared residuals for the noise. The chain ends as in memory, by a thousand entries whose lines it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lorank import kernels
from lorank.distributed.directions import ShardDirections
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.kept_draws import ShardDraws, kept_draw
from lorank.distributed.noise import ShardNoise
from lorank.distributed.owner import Owner
from lorank.distributed.parts import COLS, HELD_OUT, ROWS, line_sums
from lorank.distributed.problem import SIDES, FolderProblem
from lorank.linalg import Factors
from lorank.problems.offsets import Offsets
from lorank.side_information.features import Directions
from lorank.solvers import Posterior
from lorank.solvers.gibbs.bpmf import BPMF
from lorank.solvers.gibbs.chain import (
    HELD,
    START_ROUNDS,
    Chain,
    Sampler,
    Side,
    check_size,
    first_numbers,
    first_scales,
)
from lorank.solvers.gibbs.convergence import Probes, drawn_entries
from lorank.solvers.gibbs.hyper import Hyper, Prior, normal
from lorank.types import Array

# What random numbers of a sweep and a part are for: weights of rows, and of columns with the next number. Numbers that
# are named by fewer words are named by zeros after them.
WEIGHTS = 4
# The same for what lines without entries are expected to be.
UNKNOWN = 6


@dataclass(frozen=True)
class ShardChain(Chain):
    """A chain whose factors, means, weights and kept draws are in shards; those of held-out predictions too."""

    def noise_variances(self, rows: Array, cols: Array) -> Array:
        c, d = (lines_at(own.weights, at)[:, 0] for own, at in ((self.rows, rows), (self.cols, cols)))
        return np.asarray(1 / (self.precision * c * d))

    def watched(self, problem: Any) -> ShardChain:
        probes, here = self.probes, np.arange(self.probes.rows.size)
        left, right = (
            lines_at(side, at) for side, at in ((self.factors.left, probes.rows), (self.factors.right, probes.cols))
        )
        x = replace(self.factors, left=left, right=right).predict(here, here)
        return replace(self, probes=probes.add(x))

    def counted(self) -> ShardChain:
        shards: Any = self.factors.left, self.mean, (self.rows.weights, self.cols.weights)
        left, mean, weights = shards
        draws: Any = self.draws
        make = lambda: kept_draw(left.engine, self.factors, mean, self.precision, weights)  # noqa: E731
        return replace(self, draws=draws.offer(make, self.rows.hyper, self.cols.hyper))


class ShardSampler(Sampler):
    """Sweeps over a problem whose lines an engine has."""

    def __init__(self, problem: Any, noise: float | None, chain: Chain) -> None:
        super().__init__(problem, noise, chain)
        self.noises = [ShardNoise(side) for side in SIDES]

    def _draw_side(
        self,
        factors: Factors,
        chain: Chain,
        transposed: bool,
        t: int,
        rng: np.random.Generator,
        latent: Array | None = None,
    ) -> tuple[Side, Array, Array, float]:
        engine, name = self.problem.engine, SIDES[transposed]  # type: ignore[attr-defined]
        side, other = (chain.cols, chain.rows) if transposed else (chain.rows, chain.cols)
        shards: Any = factors.left, factors.right, side.weights, other.weights
        left, right, weights, others = shards
        prior, precision, p, dtype = self.priors[transposed], chain.precision, self.p, factors.dtype
        hyper, lines = side.hyper, len(left)
        known: Any = prior.features
        if t > HELD:
            total, second, rest = np.split(engine.run(name, moments, left, p, known), [p, p + p * p])
            count, Z = (lines, None) if known is None else (known.known, rest.reshape(-1, p))
            hyper = prior.draw_by_sums(hyper, second.reshape(p, p), total, count, Z, rng)
        expected = Expected.of(hyper, known, (self.seed, t, UNKNOWN + transposed))
        ridge = (hyper.Lambda / precision).astype(dtype)
        out, mean = engine.new(left, None), None if transposed else engine.new(left, None)
        about = engine.factor(name, lines, 0, float, 2)
        through = right.weighed(others) if self.weighted else right
        args = (out, mean, about, through, weights, self.weighted, self.problem.biased, float(factors.offset))
        numbers = (ridge, expected, float(precision**-0.5), self.seed, 4 * t + transposed)
        loss, *summary = engine.run(name, draw, *args, *numbers, other=through)
        engine.remember(out, np.array(summary))
        side = replace(side, hyper=hyper)
        if self.weighted:
            drawn, key = engine.new(weights, None), (self.seed, t, WEIGHTS + transposed)
            side, loss = self.noises[transposed].draw(engine, side, drawn, about, precision, key, rng)
        return side, mean, out, float(loss)  # type: ignore[return-value]


@dataclass(frozen=True)
class Expected:
    """Where lines are expected in a draw: mu (p,), or mu + U C with who rated what, U in shards and C (r, p).

    A line without entries is expected anywhere: see `lorank.solvers.gibbs.hyper`. Lambda and `scale` say how far, and
    `name` which random numbers.
    """

    mu: Array
    U: FactorShards | None = None
    coefficients: Array | None = None
    Lambda: Array | None = None
    scale: float = 0.0
    name: tuple[int, ...] = ()

    @classmethod
    def of(cls, hyper: Hyper, known: ShardDirections | None, name: tuple[int, ...]) -> Expected:
        if known is None or hyper.coefficients is None:
            return cls(hyper.mu)
        U: Any = known.U
        scale = float(np.sqrt(known.mean_square / hyper.lb))
        return cls(hyper.mu, U, hyper.coefficients.astype(np.float32), hyper.Lambda, scale, name)

    def means(self, owner: Owner, number: int, lines: int, dtype: Any) -> Array:
        """Of the lines of a part (lines, p)."""
        if self.U is None or self.coefficients is None or self.Lambda is None:
            return np.tile(self.mu.astype(dtype), (lines, 1))
        U = owner.shard(self.U, number)
        M, unknown = U[:, : len(self.coefficients)] @ self.coefficients, np.flatnonzero(U[:, -1])
        if unknown.size:
            rng = np.random.default_rng([*self.name, number])
            M[unknown] = self.scale * normal((unknown.size, self.mu.size), self.Lambda, rng)
        return np.asarray((M + self.mu.astype(M.dtype)).astype(dtype, copy=False))


@dataclass(frozen=True)
class ShardBPMF(BPMF):
    """The Gibbs sampler on the entries of a folder; `BPMF` says what it takes."""

    sampler: ClassVar[type[Sampler]] = ShardSampler

    def init(self, problem: Any, start: Factors | None, seed: int | None) -> ShardChain:
        seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        room = self.room(problem.observations.shape, problem.rank, problem.biased)
        return first_chain(problem, room, self.noise, seed)

    def validated(self, problem: Any, state: Any, held_out: Any) -> tuple[Any, float]:
        if not state.draws.offered:
            return state, np.nan
        engine, right = problem.engine, state.factors.right
        new = engine.factor(HELD_OUT, sum(engine.entries[HELD_OUT]), 0, float, 1)
        before = state.held_out if state.draws.offered > 1 else None
        args = (new, before, state.mean, right, problem.biased, float(state.factors.offset), state.draws.offered)
        (squares,) = engine.run(HELD_OUT, add_predictions, *args, other=right)
        return replace(state, held_out=new), float(np.sqrt(squares / problem.held_out_total))

    def posterior(self, problem: Any, state: Any) -> Posterior:
        """The posterior of the kept draws after the burn-in, in shards."""
        chain = state if state.draws.count else replace(state, mean=state.factors.left).counted()
        posterior: Posterior = chain.draws.finish(problem.engine, chain.probes.burn_in()[0])
        return posterior


def first_chain(problem: FolderProblem, room: int, noise: float | None, seed: int) -> ShardChain:
    """A chain before its first sweep, where one in memory starts, with room for so many draws."""
    engine, k, biased, (m, n) = problem.engine, problem.rank, problem.biased, problem.observations.shape
    middle = problem.mean if biased else 0.0
    scale = float(engine.run(ROWS, "distances", middle)[2]) / problem.total or 1.0
    check_size(problem.mean, scale)
    offsets: Offsets | None = problem.offsets(START_ROUNDS) if biased else None
    variance, deviations = first_scales(k, scale, offsets)
    level: Any = (None, None) if offsets is None else (offsets.a, offsets.b)
    left, right = (
        problem.normal_factor(first_numbers(seed, at), bool(at), float(deviations[at, 0]), level[at]) for at in (0, 1)
    )
    factors: Any = Factors(left, right, k, biased, 0.0 if offsets is None else offsets.mu)  # type: ignore[arg-type]
    prior, sides = Prior(k, biased, scale), []
    for side, lines, own in ((ROWS, m, deviations[0]), (COLS, n, deviations[1])):
        ones: Any = engine.factor(side, lines, 0, float, 1)
        engine.run(side, "fill", ones, 1.0)
        sides.append(Side(prior.start(own), ones))
    rows, cols = sides
    draws: Any = ShardDraws.empty(factors, room)
    precision = 1 / variance if noise is None else noise**-2
    return ShardChain(factors, left, precision, rows, cols, draws, _probes(problem, seed), seed, scale)  # type: ignore[arg-type]


def _probes(problem: FolderProblem, seed: int) -> Probes:
    """Those that a chain in memory watches."""
    starts = np.cumsum([0, *problem.engine.entries[ROWS]])
    places = []
    for at in drawn_entries(int(starts[-1]), seed):
        wanted, back = np.unique(at, return_inverse=True)
        found = problem.engine.each(ROWS, entries_at, wanted, starts)
        places.append(np.concatenate(found)[back])
    return Probes.at(places[0][:, 0], places[1][:, 1])


def lines_at(factor: Any, positions: Array) -> Array:
    """Lines of a factor at a few positions."""
    wanted, back = np.unique(positions, return_inverse=True)
    return np.asarray(np.concatenate(factor.engine.each(factor.side, owned_lines, factor, wanted))[back])


# What owners do.


def owned_lines(owner: Owner, side: str, factor: FactorShards, positions: Array) -> Iterator[tuple[int, Array]]:
    """Lines at ascending positions."""
    for number, part in owner.sides[side].items():
        first, last = np.searchsorted(positions, [part.lo, part.hi])
        yield number, owner.shard(factor, number)[positions[first:last] - part.lo]


def entries_at(owner: Owner, side: str, numbers: Array, starts: Array) -> Iterator[tuple[int, Array]]:
    """Row and column of entries with ascending numbers; `starts` are those of the first of each part."""
    for number, part in owner.sides[side].items():
        first, last = np.searchsorted(numbers, starts[[number, number + 1]])
        own, lines = numbers[first:last] - starts[number], part.complete_lines()
        yield number, np.column_stack([lines.expanded[own] + part.lo, lines.indices[own]]).astype(np.int64)


def moments(
    owner: Owner, side: str, factor: FactorShards, p: int, known: ShardDirections | None
) -> Iterator[tuple[int, Array]]:
    """Sum of lines (p,), their Gram (p, p) and, with features, U^T W (r, p); lines without features do not count."""
    for number in owner.sides[side]:
        drawn = owner.shard(factor, number)[:, :p]
        Z = np.zeros(0)
        if known is not None:
            directions: Any = known.U
            U = owner.shard(directions, number)
            # In blocks, as in memory: in single precision a long sum would lose digits.
            Z = Directions(U[:, : known.squares.size], known.squares).project(drawn)
            drawn = drawn[U[:, -1] == 0]
        W = drawn.astype(np.float64)
        yield number, np.concatenate([W.sum(axis=0), (W.T @ W).ravel(), Z.ravel()])


def draw(
    owner: Owner,
    side: str,
    out: FactorShards,
    mean: FactorShards | None,
    about: FactorShards,
    through: FactorShards,
    weights: FactorShards,
    weighted: bool,
    biased: bool,
    offset: float,
    ridge: Array,
    expected: Expected,
    size: float,
    seed: int,
    stream: int,
) -> Iterator[tuple[int, Array]]:
    """Draws of lines given the other side; see `kernels.draw_lines`. Half the squared residuals, and the summary.

    `mean` takes the lines' means, and `about` half the squared residuals and the entries of each line.
    """
    k, ridge = through.k, np.array(ridge)
    seen: Array | None = None
    for part, lines, features in owner.with_features(side, through):
        dtype = features.dtype
        if features is not seen:  # parts of a group see the same
            seen, roots = features, np.ones(len(features), dtype)
            if weighted:
                roots[:] = features[:, k + 1]
        own = owner.shard(weights, part.number)[:, 0].astype(dtype)
        pull = expected.means(owner, part.number, own.size, dtype) @ ridge
        centre, drawn, loss = kernels.sample_lines(
            *(*lines.arrays, features, k, biased, offset, own, roots, ridge, pull),
            *(size, (seed, stream, part.lo, 1), owner.workers),
        )
        owner.keep(out, part.number, drawn)
        if mean is not None:
            owner.keep(mean, part.number, centre)
        owner.keep(about, part.number, np.column_stack([loss, np.diff(lines.pointers)]))
        yield part.number, np.concatenate([[loss.sum()], owner.summary(drawn, k)])


def add_predictions(
    owner: Owner,
    side: str,
    new: FactorShards,
    before: FactorShards | None,
    mean: FactorShards,
    right: FactorShards,
    biased: bool,
    offset: float,
    draws: int,
) -> Iterator[tuple[int, Array]]:
    """Sums of predictions over draws with one more; weighted sum of squared errors of their mean."""
    for part, lines, features in owner.with_features(side, right):
        factors = Factors(owner.shard(mean, part.number), features, right.k, biased, offset)
        total = factors.predict(lines.expanded, lines.indices, owner.workers).astype(np.float64)
        if before is not None:
            total += owner.shard(before, part.number)[:, 0]
        owner.keep(new, part.number, total[:, None])
        yield part.number, line_sums(lines, (total / draws - lines.values) ** 2).sum(keepdims=True)
