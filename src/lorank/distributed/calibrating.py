"""What intervals are made of, for a fit whose factors are in shards: scales of rows and columns, in shards too.

The regression and its quantiles are those of `lorank.models.intervals`, on held-out entries of which some come here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank.distributed.engines import Engine
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.owner import Owner, shards_of
from lorank.distributed.parts import COLS, HELD_OUT, ROWS, Part, line_sums
from lorank.distributed.prepare import drawn
from lorank.distributed.problem import FolderProblem
from lorank.linalg import Factors
from lorank.models.intervals import Calibration, ScaleFit, difficulty, fit_scale
from lorank.observations import Lines
from lorank.types import Array

# Held-out entries that are enough, on average: their ratios give quantiles to a few thousandths.
ENTRIES = 100_000


@dataclass(frozen=True)
class Scales:
    """The scales of each side (lines, 1), what they were found by, and those of a line without observations."""

    sides: dict[str, FactorShards]
    found: ScaleFit
    unseen: dict[str, Array]

    def calibration(self, engine: Engine) -> Calibration:
        """All of it in memory."""
        rows, cols = (
            np.concatenate([*(shard[:, 0] for shard in engine.each(side, shards_of, own)), self.unseen[side]])
            for side, own in self.sides.items()
        )
        return Calibration(rows, cols, self.found.ratios, self.found.count)


def calibrate(problem: FolderProblem, factors: Factors, seed: int) -> Scales | None:
    """Scales by the entries that were held out; None if there are none."""
    if not problem.held_out_total:
        return None
    engine: Engine = problem.engine
    sides: Any = {ROWS: (factors.left, factors.right), COLS: (factors.right, factors.left)}
    mean = 2 * problem.loss(factors) / problem.total or 1.0
    ridges = dict(zip((ROWS, COLS), problem.offset_variances.ridges))
    about: dict[str, FactorShards] = {}
    for side, (own, other) in sides.items():
        about[side] = engine.factor(side, len(own), 0, float, 3)
        args = (about[side], own, other, factors.biased, float(factors.offset), mean, ridges[side])
        engine.each(side, keep_difficulty, *args, other=other)
    left, right = sides[ROWS]
    chosen = min(ENTRIES / problem.held_out_total, 1.0), seed
    squares = engine.each(
        HELD_OUT, squares_at, left, right, factors.biased, float(factors.offset), *chosen, other=right
    )
    known = engine.each(HELD_OUT, difficulties_at, about[ROWS], about[COLS], *chosen, other=about[COLS])
    rows, cols = (np.concatenate(part) for part in zip(*known))
    found = fit_scale(rows, cols, np.concatenate(squares), seed)
    scales: dict[str, FactorShards] = {}
    unseen: dict[str, Array] = {}
    for side, lines, seen in zip((ROWS, COLS), factors.shape, (rows, cols)):
        scales[side] = engine.factor(side, lines, 0, np.float32, 1)
        # Lines with fewer entries than any that has a held-out one count as if they had as many.
        least = float(seen[:, 1].min())
        engine.each(side, keep_scale, scales[side], about[side], found, least)
        unseen[side] = scale_of(side, difficulty(np.zeros(1), np.zeros(1), ridges[side]), found, least)
    return Scales(scales, found, unseen)


def keep_difficulty(
    owner: Owner,
    side: str,
    new: FactorShards,
    own: FactorShards,
    other: FactorShards,
    biased: bool,
    offset: float,
    mean: float,
    ridge: float,
) -> Iterator[tuple[int, None]]:
    """How difficult the lines of each part are, by how well they were fitted; `mean` is that of squared residuals."""
    for part, lines, features in owner.with_features(side, other):
        factors = Factors(owner.shard(own, part.number), features, other.k, biased, offset)
        squares = line_sums(lines, _squares(owner, factors, lines) / mean)
        owner.keep(new, part.number, difficulty(np.diff(lines.pointers), squares, ridge))
        yield part.number, None


def squares_at(
    owner: Owner,
    side: str,
    own: FactorShards,
    other: FactorShards,
    biased: bool,
    offset: float,
    share: float,
    seed: int,
) -> Iterator[tuple[int, Array]]:
    """Squared residuals of a share of the held-out entries."""
    for part, lines, features in owner.with_features(side, other):
        factors = Factors(owner.shard(own, part.number), features, other.k, biased, offset)
        yield part.number, _squares(owner, factors, lines)[_chosen(part, share, seed)]


def difficulties_at(
    owner: Owner, side: str, rows: FactorShards, cols: FactorShards, share: float, seed: int
) -> Iterator[tuple[int, tuple[Array, Array]]]:
    """How difficult rows and columns of the same entries are."""
    for part, lines, features in owner.with_features(side, cols):
        chosen = _chosen(part, share, seed)
        yield part.number, (owner.shard(rows, part.number)[lines.expanded[chosen]], features[lines.indices[chosen]])


def keep_scale(
    owner: Owner, side: str, new: FactorShards, about: FactorShards, found: ScaleFit, least: float
) -> Iterator[tuple[int, None]]:
    """The scales of the lines of each part."""
    for number in owner.sides[side]:
        owner.keep(new, number, scale_of(side, owner.shard(about, number), found, least)[:, None])
        yield number, None


def scale_of(side: str, difficult: Array, found: ScaleFit, least: float) -> Array:
    """Scales (lines,) of lines that are so difficult (lines, 3)."""
    difficult = np.column_stack([difficult[:, 0], np.maximum(difficult[:, 1], least), difficult[:, 2]])
    return (found.rows if side == ROWS else found.cols)(difficult).astype(np.float32)


def _squares(owner: Owner, factors: Factors, lines: Lines) -> Array:
    """Squared residuals."""
    residual = factors.predict(lines.expanded, lines.indices, owner.workers) - lines.values
    return np.asarray(residual.astype(np.float64) ** 2)


def _chosen(part: Part, share: float, seed: int) -> Array:
    """Which entries of a part come to the driver: by a hash that knows nothing of that by which they were held out."""
    lines = part.complete_lines()
    return drawn(lines.expanded + part.lo, lines.indices, share, seed + 1)
