"""A problem whose lines are kept by an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from lorank import kernels
from lorank.distributed.actors import RayEngine, check_cluster
from lorank.distributed.parts import Block, Part, parts_of
from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.problems.offsets import Offsets, offsets_of_sums
from lorank.types import Array

ROWS, COLS, HELD_OUT = "rows", "cols", "held out"


class Engine(Protocol):
    """Where lines are kept. `run` asks every block of a side and puts the answers together, line by line."""

    def run(self, side: str, question: str, *shared: Any, sliced: Array | None = None) -> tuple[Array, ...]:
        """Answers of `Block.question(*sliced lines, *shared)`."""

    def close(self) -> None:
        """Let go of the lines."""


class LocalEngine:
    """The engine without Ray: this process, with its threads, on parts that may be larger than its memory."""

    def __init__(self, sides: Mapping[str, Sequence[Part]], n_jobs: int | None = None) -> None:
        workers = kernels.Workers(n_jobs)
        self.blocks = {side: Block(parts, workers) for side, parts in sides.items()}

    def run(self, side: str, question: str, *shared: Any, sliced: Array | None = None) -> tuple[Array, ...]:
        own = () if sliced is None else (sliced,)
        answer: tuple[Array, ...] = getattr(self.blocks[side], question)(*own, *shared)
        return answer

    def close(self) -> None:
        for block in self.blocks.values():
            block.workers.close()


@dataclass(frozen=True)
class BlockProblem(Problem):
    """A problem whose regressions an engine solves; the same bits as `Problem`."""

    engine: Engine = field(kw_only=True)

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
        side = COLS if transposed else ROWS
        shared = (factors.right, factors.k, self.biased, factors.offset, full)
        if drag.size:
            left, loss = self.engine.run(side, "pulled", *shared, sliced=drag)
        else:
            left, loss = self.engine.run(side, "solve", *shared, drag)
        return left, float(loss.sum())


@dataclass(frozen=True)
class FolderProblem(BlockProblem):
    """A problem whose observations only the engine has; `observations` holds shape and ids, and no entry."""

    @cached_property
    def mean(self) -> float:
        return float(self.engine.run(ROWS, "distances", 0.0)[0].sum()) / self.total

    @cached_property
    def total(self) -> float:
        """Entries to learn from; what they weigh together, where there are weights."""
        return float(self.counts(False).sum())

    def offsets(self) -> Offsets:
        """Offsets of rows and columns by empirical Bayes."""
        sides = (ROWS, COLS)
        return offsets_of_sums(
            self.counts(False), self.counts(True), lambda t, other: self.engine.run(sides[t], "residual_sums", other)
        )

    def spread(self, offset: float) -> float:
        return float(self.engine.run(ROWS, "distances", offset)[1].sum()) / self.total

    def counts(self, transposed: bool) -> Array:
        return self.engine.run(COLS if transposed else ROWS, "counts")[0]

    def loss(self, factors: Factors) -> float:
        return 0.5 * self._squared_error(factors, ROWS)

    def error(self, factors: Factors, held_out: Any) -> float:
        """Error on the entries that were held out; `held_out` is the name of their side."""
        count = float(self.engine.run(held_out, "counts")[0].sum())
        return float(np.sqrt(self._squared_error(factors, held_out) / count))

    def _squared_error(self, factors: Factors, side: str) -> float:
        shared = (factors.right, factors.k, factors.biased, factors.offset)
        return float(self.engine.run(side, "squared_errors", *shared, sliced=factors.left)[0].sum())


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
