"""Problems whose lines are kept by an engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lorank import kernels
from lorank.distributed.actors import RayEngine
from lorank.distributed.cluster import check_cluster
from lorank.distributed.directions import ShardDirections
from lorank.distributed.drag import Drag
from lorank.distributed.engines import Engine
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.owner import Owner
from lorank.distributed.parts import COLS, HELD_OUT, ROWS, Part, parts_of
from lorank.linalg import Factors, accurate_balance, diagonal_frame, pad
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.problems.base import START_STREAM
from lorank.problems.offsets import ROUNDS, Offsets, alternate
from lorank.side_information.features import Directions
from lorank.types import Array

SIDES = ROWS, COLS
Known = tuple[ShardDirections | None, ShardDirections | None]
# Random numbers that are drawn at a time to know where the generator is at each part.
DRAWS = 1 << 20


@dataclass(frozen=True)
class BlockProblem(Problem):
    """A problem in memory whose lines Ray actors solve or draw; the same bits as `Problem`."""

    engine: Any = field(kw_only=True)

    def improves(self, k: int) -> bool:
        return False

    def ridge_regressions(
        self,
        factors: Factors,
        ridge: Array,
        pull: Array | None = None,
        transposed: bool = False,
        expected: Array | None = None,
        beside: Array | None = None,
    ) -> tuple[Array, float]:
        full, drag = self.line_terms(factors, ridge, pull, transposed, expected, beside)
        shared = (factors.right, factors.k, self.biased, factors.offset, full)
        left, loss = self.engine.on_lines(SIDES[transposed], solve_part, shared, (drag,))
        return left, float(loss.sum())

    def line_draws(
        self,
        factors: Factors,
        own: Array,
        roots: Array,
        ridge: Array,
        pull: Array,
        size: float,
        name: tuple[int, int],
        transposed: bool,
        lines: Any,
    ) -> tuple[Array, Array, Array]:
        shared = (factors.right, factors.k, self.biased, factors.offset, roots, ridge, size, name)
        mean, out, loss = self.engine.on_lines(SIDES[transposed], draw_part, shared, (own, pull))
        return mean, out, loss


def solve_part(workers: kernels.Workers, part: Part, shared: tuple[Any, ...], drag: Array) -> tuple[Array, Array]:
    """Ridge regressions of the lines of a part: factors and losses."""
    right, k, biased, offset, ridge = shared
    return kernels.solve_lines(*part.lines().arrays, right, k, biased, offset, ridge, drag, workers)


def draw_part(
    workers: kernels.Workers, part: Part, shared: tuple[Any, ...], own: Array, pull: Array
) -> tuple[Array, Array, Array]:
    """Means, draws and losses of the lines of a part."""
    right, k, biased, offset, roots, ridge, size, name = shared
    name = (*name, part.lo, 1)
    return kernels.sample_lines(
        *part.lines().arrays, right, k, biased, offset, own, roots, ridge, pull, size, name, workers
    )


@dataclass(frozen=True)
class Elsewhere:
    """Stands for observations of which only shape, type and number are here."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    nnz: int = 0


@dataclass(frozen=True)
class FolderProblem(Problem):
    """A problem whose entries and factors only the engine has.

    `observations` is Elsewhere, and left and right of all factors are `FactorShards`: what is here does not grow with
    the number of rows, columns or entries.
    """

    engine: Engine = field(kw_only=True)
    # Directions of the features of rows and of columns, of sides that have any.
    known: Known = field(default=(None, None), kw_only=True)
    # Variances of the offsets to begin with, where some are known.
    near: Offsets | None = field(default=None, kw_only=True)

    def directions(self, transposed: bool) -> Directions | None:
        return self.known[transposed]

    # The observed entries.

    @cached_property
    def total(self) -> float:
        """Entries to learn from; what they weigh together, where there are weights."""
        return float(self.engine.run(ROWS, "totals")[0])

    @cached_property
    def noise_norm(self) -> float:
        """See `lorank.tuning.setting.noise_norm`."""
        found = [self.engine.run(side, "totals") for side in SIDES]
        return float(sum(np.sqrt(total / lines) for total, lines in found))

    @cached_property
    def mean(self) -> float:
        return float(self.engine.run(ROWS, "distances", 0.0)[0]) / self.total

    @cached_property
    def density(self) -> float:
        m, n = self.observations.shape
        return self.total / (m * n)

    def spread(self, offset: float) -> float:
        return float(self.engine.run(ROWS, "distances", offset)[1]) / self.total

    def random_start(self, seed: int | None) -> Factors:
        """The start of `Problem`, bit by bit: it is one sequence of random numbers, of which each part has a piece."""
        generator = np.random.PCG64(None if seed is None else [START_STREAM, seed])
        offset = self.mean if self.biased else 0.0
        scale = 0.5 * np.sqrt((self.spread(offset) or 1.0) / np.sqrt(self.rank))
        made = []
        for transposed in (False, True):
            made.append(self.normal_factor(generator, transposed, float(scale)))
        left_factor, right_factor = made
        return Factors(left_factor, right_factor, self.rank, self.biased, offset)  # type: ignore[arg-type]

    def normal_factor(
        self, generator: np.random.PCG64, transposed: bool, scale: float, offsets: FactorShards | None = None
    ) -> FactorShards:
        """Independent normal entries times a scale, the next of a generator; offsets are its biases.

        Lines without observations are zero.
        """
        side, lines, states = SIDES[transposed], self.observations.shape[transposed], []
        for first, last in self.engine.spans(side):
            states.append(generator.state)
            left = (last - first) * self.rank
            while left:
                np.random.Generator(generator).standard_normal(min(left, DRAWS))
                left -= min(left, DRAWS)
        factor = self.engine.factor(side, lines, self.rank, self.observations.dtype)
        self.engine.remember(factor, self.engine.run(side, "start", factor, states, scale, offsets))
        return factor

    def offsets(self, rounds: int = ROUNDS) -> Offsets:
        """Those of rows and columns by empirical Bayes; a and b are factors with nothing but biases."""
        none = [self._offsets(transposed) for transposed in (False, True)]
        for factor in none:
            self.engine.run(factor.side, "fill", factor, 0.0)

        def half(transposed: bool, other: FactorShards, level: float, variance: float, s2: float) -> Any:
            new = self._offsets(transposed)
            return new, self.engine.run(new.side, "offsets", new, other, level, variance, s2, other=other)

        found, (shift_a, shift_b) = alternate(half, none, self.total, rounds, near=self.near)
        a: Any = found.a
        b: Any = found.b
        return replace(found, a=a.shifted(shift_a), b=b.shifted(shift_b))

    @cached_property
    def offset_variances(self) -> Offsets:
        """What offsets of rows and columns vary by, without the offsets themselves: found once, by many passes."""
        return self.offsets().variances

    def _offsets(self, transposed: bool) -> FactorShards:
        """The name of offsets of one side that are about to be made."""
        return self.engine.factor(SIDES[transposed], self.observations.shape[transposed], 0, float, 1)

    def offsets_alone(self) -> Factors:
        found, sides = self.offsets(), []
        own: Any
        for own, lines in zip((found.a, found.b), self.observations.shape):
            factor = self.engine.factor(own.side, lines, self.rank, self.observations.dtype)
            self.engine.run(own.side, "biases", factor, own)
            sides.append(factor)
        left, right = sides
        return Factors(left, right, self.rank, True, found.mu)  # type: ignore[arg-type]

    # The arithmetic at factors.

    def ridge_regressions(
        self,
        factors: Factors,
        ridge: Array,
        pull: Array | None = None,
        transposed: bool = False,
        expected: Array | None = None,
        beside: Array | None = None,
    ) -> tuple[Array, float]:
        full = self.bordered(ridge, factors.dtype, transposed)
        left, right = _shards(factors)
        new, drag = self.engine.new(left, None), self.drag(left, full, pull, transposed)
        args = (new, right, self.biased, float(factors.offset), full, drag)
        loss, *summary = self.engine.run(left.side, "solve", *args, other=right)
        self.engine.remember(new, np.array(summary))
        return new, float(loss)  # type: ignore[return-value]

    def drag(self, left: FactorShards, full: Array, pull: Array | None, transposed: bool) -> Drag:
        """What the regressions of the left factor's lines are pulled toward, with the ridge `full`."""
        return Drag() if pull is None else Drag(left, (pull / self.pointwise.curvature).astype(left.dtype))

    def improved_regressions(
        self,
        factors: Factors,
        ridge: Array,
        pull: Array | None = None,
        transposed: bool = False,
        beside: Array | None = None,
    ) -> tuple[Array, float]:
        k, dtype = factors.k, factors.dtype
        full = self.bordered(ridge, dtype, transposed)
        if not full.any():
            return self.ridge_regressions(factors, ridge, pull, transposed)
        T, inverse, r = diagonal_frame(np.zeros((k, k)), full.astype(np.float64), 100 * float(np.finfo(dtype).eps))
        left, right = _shards(factors)
        new, through = self.engine.new(left, None), right.turned(k, T)
        drag = self.drag(left, full, pull, transposed)
        args = (new, left, through, T.astype(dtype), inverse.astype(dtype), r, drag)
        loss, *summary = self.engine.run(left.side, improve, *args, other=through)
        self.engine.remember(new, np.array(summary))
        return new, float(loss)  # type: ignore[return-value]

    def loss(self, factors: Factors) -> float:
        return 0.5 * self._squared_error(factors, ROWS)

    def error(self, factors: Factors, held_out: Any) -> float:
        """Error on the entries that were held out; `held_out` is the name of their side."""
        return float(np.sqrt(self._squared_error(factors, held_out) / self.held_out_total))

    @cached_property
    def held_out_total(self) -> float:
        """Entries that were held out."""
        return float(self.engine.run(HELD_OUT, "totals")[0])

    def _squared_error(self, factors: Factors, side: str) -> float:
        left, right = _shards(factors)
        args = (left, right, factors.biased, float(factors.offset))
        return float(self.engine.run(side, "squared_errors", *args, other=right)[0])

    def prior_gram(self, factors: Factors, transposed: bool = False) -> Array:
        # Who asks for one side's needs the other's next: after a step with momentum nobody has either.
        self.engine.summarize(*_shards(factors))
        return self.gram(factors.left, factors.k)

    def gram(self, padded: Any, k: int) -> Array:
        gram: Array = padded.gram
        return gram

    def singular_values(self, factors: Factors) -> Array:
        """Singular values of W H^T, descending, from the Grams."""
        left, right = _shards(factors)
        if not factors.is_finite():
            return np.full(factors.k, np.nan)
        return accurate_balance(left.gram, right.gram).sigma[::-1]

    def bias_penalty(self, factors: Factors) -> float:
        return self.ridge_of(factors.left, factors.right, factors.offset) if self.biased else 0.0

    def own_square(self, bias: Any, transposed: bool) -> float:
        return float(bias.bias_sums[1])

    def _middle(self, bias: Any, transposed: bool) -> tuple[float, float]:
        return len(bias), bias.bias_sums[0] / len(bias)

    def recentred(self, factors: Factors) -> Factors:
        if not self.biased:
            return factors
        left, right = _shards(factors)
        shift_rows, shift_cols, offset = self.bias_shifts(factors.left, factors.right, factors.offset)
        sides: Any = left.shifted(shift_rows), right.shifted(shift_cols)
        return replace(factors, left=sides[0], right=sides[1], offset=offset)


def improve(
    owner: Owner,
    side: str,
    new: FactorShards,
    own: FactorShards,
    through: FactorShards,
    turn: Array,
    inverse: Array,
    r: Array,
    drag: Drag,
) -> Iterator[tuple[int, Array]]:
    """Lines nearer to the solution of their regressions; see `FactoredProblem.improved_regressions`.

    The other factor comes in the frame `turn` already: its owners have turned it, part by part.
    """
    k, dtype, none = own.k, own.dtype, np.zeros(own.k)
    ridge, base, linear = (each.astype(dtype) for each in (r, 1 - r, none))
    for part, lines, features in owner.with_features(side, through):
        W = np.ascontiguousarray(owner.shard(own, part.number)[:, :k])
        toward = drag.of(owner, part.number, k, dtype)
        toward = toward @ turn if toward.size else toward
        left, loss = kernels.improve_lines(
            *(*lines.arrays, features, k, ridge, base, linear, 0.0, None, toward),
            *(pad(W @ inverse.T), owner.workers),
        )
        made = pad(left[:, :k] @ turn.T)
        owner.keep(new, part.number, made)
        yield part.number, np.concatenate([[loss.sum()], owner.summary(made, k)])


def _shards(factors: Any) -> tuple[FactorShards, FactorShards]:
    return factors.left, factors.right


def over_ray(
    observations: Observations,
    regularizer: Any,
    rank: int,
    bias_ridges: tuple[float, float] | None = None,
    workers: int = 2,
    threads: int = 1,
) -> BlockProblem:
    """The problem of observations in memory with its lines in Ray actors; inside `open_ray`."""
    check_cluster(observations.shape, observations.nnz, rank, observations.dtype, workers, threads)
    sides = {ROWS: parts_of(observations.by_row), COLS: parts_of(observations.by_col)}
    return BlockProblem(observations, regularizer, rank, bias_ridges, engine=RayEngine(sides, workers, threads))
