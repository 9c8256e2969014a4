"""Who rated what as features in shards: their leading directions, found by products with the entries of the parts.

Row i has the features f_i with 1/sqrt(n_i) at its n_i columns, and two functions g_i of n_i: F = [D^(-1/2) A, G], A the
pattern of the entries, or F = [D^(-1/2) A, G, T] beside a table T. Directions depend on F F^T alone, so that U S of a
table with the directions U S V^T stands for it. The directions are found by subspace iteration as in
`lorank.side_information.features`, each product where the lines are; what the driver has are Grams of the width of the
subspace, and its rows that belong to G and to the table. They take 4 r bytes for each row and column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from lorank import kernels
from lorank.distributed.engines import Engine
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.kept_draws import gathered, gram_of
from lorank.distributed.owner import Owner
from lorank.distributed.parts import COLS, ROWS
from lorank.errors import InputError
from lorank.linalg.blas import one_blas_thread
from lorank.side_information.encoding import COUNTS, Column, Encoding, table_of_counts
from lorank.side_information.features import DIRECTIONS, OVERSAMPLING, PASSES, Directions, near_triangle
from lorank.types import Array

Tables = tuple["ShardDirections | None", "ShardDirections | None"]
# Bytes that the directions of both sides may take over all workers, and the fewest that are of use.
BUDGET, FEWEST = 1 << 30, 32
# Bytes of what a model keeps at most, for each side, to fold in lines by who rated what.
LIFT = 1 << 25
# What random numbers of the first subspace are named by, beside the part.
STREAM = 17


@dataclass(frozen=True)
class ShardDirections(Directions):
    """U is in shards (lines, width): the first r columns are the directions, the last one is 1 for a line without
    entries, whose features are unknown. U^T 1, and how many lines are known, are here.
    """

    sums: Array = field(default_factory=lambda: np.zeros(0))
    known: int = 0
    # How numbers of entries are features, where who rated what is one.
    numbers: Encoding | None = None

    @property
    def ones(self) -> Array:
        return self.sums

    @property
    def mean_square(self) -> float:
        return float(self.squares.sum()) / max(self.known, 1)


def room_for(shape: tuple[int, int]) -> int:
    """How many directions there is room for, 0 if they are too few to be of use."""
    most = min(DIRECTIONS, BUDGET // (4 * sum(shape)))
    return most if most >= FEWEST else 0


def directions_bytes(shape: tuple[int, int]) -> int:
    """What the directions of both sides take, with those that the search for them is on its way with."""
    return 3 * 4 * sum(shape) * _width(room_for(shape))


def who_rated_what(
    engine: Engine, shape: tuple[int, int], tables: Tables = (None, None)
) -> tuple[ShardDirections, ShardDirections]:
    """The leading directions of rows and of columns, beside tables with these directions."""
    r = room_for(shape)
    if not r:
        raise InputError(
            f"Who rated what has no room for {shape[0]} x {shape[1]} rows and columns; fit with features=None."
        )
    with one_blas_thread():  # as workers have it: sums of several threads would have other bits
        rows, cols = (_leading(engine, side, shape, r, table) for side, table in zip((ROWS, COLS), tables))
    return rows, cols


@dataclass(frozen=True)
class Beside:
    """What lines have beside who rated what: G, which numbers of entries become, and U S (lines, r) of a table."""

    numbers: Encoding
    U: FactorShards | None = None
    S: Array | None = None

    @property
    def width(self) -> int:
        return self.numbers.width + (0 if self.S is None else self.S.size)

    def of(self, owner: Owner, number: int, counts: Array) -> Array:
        """[G, U S] (lines, width) of a part whose lines have so many entries."""
        found: Any = self.numbers.encode(table_of_counts(counts))
        G = np.asarray(found.toarray() if hasattr(found, "toarray") else found, np.float64)
        return (
            G
            if self.U is None or self.S is None
            else np.hstack([G, owner.shard(self.U, number)[:, : self.S.size] * self.S])
        )


def _leading(
    engine: Engine, side: str, shape: tuple[int, int], r: int, table: ShardDirections | None
) -> ShardDirections:
    own, others = shape if side == ROWS else shape[::-1]
    other, width = COLS if side == ROWS else ROWS, _width(r)
    beside: Any = Beside(_numbers_of_entries(engine, side, own))
    if table is not None:
        beside = Beside(beside.numbers, table.U, np.sqrt(table.squares))  # type: ignore[arg-type]
    Q = engine.factor(other, others, width, np.float32, width)
    engine.run(other, normal_lines, Q)
    rest = np.random.default_rng(STREAM).standard_normal((beside.width, width))

    def product(by: str, lines: int, through: FactorShards, power: float, *counted: Any) -> FactorShards:
        new = engine.factor(by, lines, width, np.float32, width)
        engine.run(by, multiply, new, through, power, *counted, other=through)
        return new

    for _ in range(PASSES):
        # F^T F Q are A^T Z and [G, T]^T D^(1/2) Z, with Z = D^(-1/2) F Q.
        Z = product(side, own, Q, 1.0, beside, rest)
        rest = engine.run(side, sum_beside, Z, beside).reshape(rest.shape)
        Q, rest = _near_orthogonal(product(other, others, Z, 0.0), rest)
    Q, rest = _near_orthogonal(Q, rest)
    Y = product(side, own, Q, 0.5, beside, rest)
    squares, rotation = np.linalg.eigh(_gram(Y))
    squares, rotation = squares[::-1], rotation[:, ::-1]
    count = min(r, int(np.count_nonzero(squares > 1e-7 * squares.max(initial=1e-300))))
    U = engine.factor(side, own, width, np.float32, width)
    turn = (rotation[:, :count] / np.sqrt(squares[:count])).astype(np.float32)
    known, *sums = engine.run(side, lay_out, U, Y, turn, table is not None)
    found: Any = U
    return ShardDirections(found, squares[:count], sums=np.array(sums), known=int(known), numbers=beside.numbers)


def lift_of(engine: Engine, side: str, shape: tuple[int, int], found: ShardDirections) -> Array | None:
    """[D^(-1/2) A, G]^T U / S^2 (others + 2, r), by which coordinates of new lines follow from what they have; None if
    it is larger than LIFT."""
    other, others, r, U = COLS, shape[1], found.squares.size, found.U
    if side == COLS:
        other, others = ROWS, shape[0]
    if found.numbers is None or 4 * r * others > LIFT:
        return None
    scaled = engine.new(U, None)  # type: ignore[arg-type]
    engine.run(side, by_root, scaled, U)
    G = engine.run(side, sum_beside, scaled, Beside(found.numbers)).reshape(found.numbers.width, -1)
    made = engine.factor(other, others, scaled.k, np.float32, scaled.width)
    engine.run(other, multiply, made, scaled, 0.0, other=scaled)
    return np.asarray(np.vstack([gathered(engine, made)[:, :r], G[:, :r]]) / found.squares, np.float32)


def _width(r: int) -> int:
    """Of the subspace that is iterated."""
    return -(-(r + OVERSAMPLING) // kernels.LANES) * kernels.LANES


def _near_orthogonal(Q: FactorShards, rest: Array) -> tuple[FactorShards, Array]:
    """The columns of Q above the rows `rest`, with a Gram of nearly I."""
    turn = scipy.linalg.solve_triangular(near_triangle(_gram(Q) + rest.T @ rest), np.eye(Q.k), lower=True).T
    return Q.turned(Q.k, turn), rest @ turn


def _numbers_of_entries(engine: Engine, side: str, lines: int) -> Encoding:
    """How numbers of entries become G, as `Encoding.learn` has it in memory."""
    known, *sums = engine.run(side, sum_numbers)
    known = max(known, 1.0)
    mean, square = np.array(sums).reshape(2, -1) / known
    deviations = np.sqrt(np.maximum(square - mean**2, 0))
    deviations[deviations < 1e-7 * np.abs(mean)] = 0  # all lines have as many
    scale = float(np.sqrt(np.count_nonzero(deviations) * known / lines)) or 1.0
    names = table_of_counts(np.ones(1)).columns
    own = (Column(name, float(m), float(d) or 1.0) for name, m, d in zip(names, mean, deviations))
    return Encoding(COUNTS, len(names), scale, tuple(own))


def _gram(Y: FactorShards) -> Array:
    """Y^T Y in double precision."""
    return Y.engine.run(Y.side, gram_of, Y, slice(None)).reshape(Y.k, Y.k)


# What owners do.


def normal_lines(owner: Owner, side: str, new: FactorShards) -> Iterator[tuple[int, Array]]:
    """Independent normal entries, the same whoever owns a part: the features are data."""
    for number, part in owner.sides[side].items():
        rng = np.random.default_rng([STREAM, number])
        owner.keep(new, number, rng.standard_normal((part.hi - part.lo, new.width)).astype(np.float32))
        yield number, np.zeros(1)


def sum_numbers(owner: Owner, side: str) -> Iterator[tuple[int, Array]]:
    """How many lines have entries, and the sums over them of G before it is standardised, and of its squares."""
    for number, part in owner.sides[side].items():
        counts = np.diff(part.lines().pointers)
        X = np.column_stack(list(table_of_counts(counts[counts > 0]).columns.values()))
        yield number, np.concatenate([[len(X)], X.sum(axis=0), (X**2).sum(axis=0)])


def multiply(
    owner: Owner,
    side: str,
    new: FactorShards,
    through: FactorShards,
    power: float,
    beside: Beside | None = None,
    rest: Array | None = None,
) -> Iterator[tuple[int, Array]]:
    """D^-power A times a factor, D the numbers of entries of lines; with `rest`, and D^(1/2 - power) [G, T] rest."""
    for part, lines, features in owner.with_features(side, through):
        counts = np.diff(lines.pointers)
        values = np.repeat(np.maximum(counts, 1).astype(np.float32) ** np.float32(-power), counts)
        out = kernels.aligned_zeros((counts.size, new.width), np.float32)
        args = (lines.pointers, lines.indices, values, features, out)
        owner.workers.run(kernels.multiply_lines, lines.pointers, *args, work_per_entry=new.width)
        if beside is not None and rest is not None:
            out += np.maximum(counts, 1)[:, None] ** (0.5 - power) * (beside.of(owner, part.number, counts) @ rest)
        owner.keep(new, part.number, out)
        yield part.number, np.zeros(1)


def sum_beside(owner: Owner, side: str, Z: FactorShards, beside: Beside) -> Iterator[tuple[int, Array]]:
    """[G, T]^T D^(1/2) Z."""
    for number, part in owner.sides[side].items():
        counts = np.diff(part.lines().pointers)
        by = np.sqrt(np.maximum(counts, 1))[:, None] * owner.shard(Z, number)
        yield number, (beside.of(owner, number, counts).T @ by).ravel()


def by_root(owner: Owner, side: str, new: FactorShards, U: FactorShards) -> Iterator[tuple[int, Array]]:
    """D^(-1/2) U."""
    for number, part in owner.sides[side].items():
        counts = np.maximum(np.diff(part.lines().pointers), 1)
        owner.keep(new, number, (owner.shard(U, number) / np.sqrt(counts)[:, None]).astype(np.float32))
        yield number, np.zeros(1)


def lay_out(
    owner: Owner, side: str, new: FactorShards, Y: FactorShards, turn: Array, all_known: bool
) -> Iterator[tuple[int, Array]]:
    """Y turned into the directions, and which lines are unknown (none beside a table); how many are not, and U^T 1."""
    for number, part in owner.sides[side].items():
        found = owner.shard(Y, number) @ turn
        shard = np.zeros((len(found), new.width), np.float32)
        shard[:, : turn.shape[1]] = found
        shard[:, -1] = (np.diff(part.lines().pointers) == 0) & (not all_known)
        owner.keep(new, number, shard)
        known = len(shard) - np.count_nonzero(shard[:, -1])
        yield number, np.concatenate([[known], found.sum(axis=0, dtype=np.float64)])
