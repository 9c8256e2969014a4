"""What all engines have in common, and the one without Ray."""

from __future__ import annotations

import secrets
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorank import kernels
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.owner import Asked, Gone, Operation, Owner, total
from lorank.distributed.parts import ROWS, DamagedBlock, Part
from lorank.errors import InputError
from lorank.linalg import padded_width
from lorank.observations.checks import extremity
from lorank.types import Array

# A block that is damaged so many times again is given up: its disk cannot be trusted.
REBUILDS = 3


class Engine(ABC):
    """Where parts are kept, and the shards of factors with them; here are the names of the factors.

    A factor that nobody refers to any more is forgotten: its name goes to the owners of its shards with the next
    request.
    """

    def __init__(self, sides: Mapping[str, Sequence[Part]]) -> None:
        self._spans = {side: [(part.lo, part.hi) for part in parts] for side, parts in sides.items()}
        # Of each part of a side.
        self.entries = {side: [part.entries for part in parts] for side, parts in sides.items()}
        self._token, self._made = secrets.token_hex(4), 0
        self._forgotten: list[Gone] = []
        # Writes a damaged block again, given its path, where that can be done; and how often it was asked for each.
        self.rebuild: Callable[[str], None] | None = None
        self._rebuilt: Counter[str] = Counter()
        self._summaries: weakref.WeakKeyDictionary[FactorShards, Array] = weakref.WeakKeyDictionary()
        self._projections: weakref.WeakKeyDictionary[FactorShards, Array] = weakref.WeakKeyDictionary()

    def run(self, side: str, operation: str | Operation, *args: Any, other: FactorShards | None = None) -> Array:
        """The sum over all parts of a side of what an operation gives, in a fixed order.

        It is a method of `Owner` by name, or a function of an owner, the side and the arguments. `other` is the factor
        of which the parts need lines that others own.
        """
        return self.run_all([(side, operation, args)], other)[0]

    @abstractmethod
    def run_all(self, asked: Sequence[Asked], other: FactorShards | None = None) -> list[Array]:
        """The same of several sides and operations, by one request."""

    @abstractmethod
    def each(self, side: str, operation: Operation, *args: Any, other: FactorShards | None = None) -> list[Any]:
        """What a function of an owner, the side and the arguments gives for each part, in order."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""

    def mend(self, block: DamagedBlock) -> None:
        """Have a damaged block written again; the error goes on if that is impossible, or does not help."""
        self._rebuilt[block.path] += 1
        if self.rebuild is None or self._rebuilt[block.path] > REBUILDS:
            raise block
        self.rebuild(block.path)

    def spans(self, side: str) -> list[tuple[int, int]]:
        """The first line of each part of a side, and the one after its last."""
        return self._spans[side]

    def factor(self, side: str, lines: int, k: int, dtype: Any, width: int | None = None) -> FactorShards:
        """The name of a factor that is about to be made."""
        kind = np.dtype(dtype).str
        return self.new(FactorShards("", side, lines, k, padded_width(k) if width is None else width, kind), None)

    def new(self, like: FactorShards, recipe: tuple[Any, ...] | None) -> FactorShards:
        """A factor of the same lines under a name of its own."""
        self._made += 1
        made = replace(like, name=f"{self._token}-{self._made}", recipe=recipe, engine=self)
        gone = made.name, made.side if recipe is None else None
        weakref.finalize(made, self._forgotten.append, gone).atexit = False
        return made

    def load_shards(self, folder: Path, saved: dict[str, Any]) -> FactorShards:
        """A factor that `FactorShards.save_shards` had written, in an engine of the same parts."""
        there = FactorShards(**saved)
        factor = self.new(there, None)
        self.run(there.side, "load", factor, there, str(folder.absolute()))
        return factor

    def remember(self, factor: FactorShards, summary: Array) -> None:
        """The summary of a factor that came with what it was made by."""
        self._summaries[factor] = summary

    def summary(self, factor: FactorShards) -> Array:
        """What `Owner.summaries` gives of a factor, summed; asked once."""
        self.summarize(factor)
        return self._summaries[factor]

    def summarize(self, *factors: FactorShards) -> None:
        """Have the summaries of factors, those that are not known yet by one request."""
        unknown = [factor for factor in factors if factor not in self._summaries]
        if unknown:
            answers = self.run_all([(factor.side, "summaries", (factor,)) for factor in unknown])
            self._summaries.update(zip(unknown, answers))

    def projection(self, factor: FactorShards, U: FactorShards, r: int) -> Array:
        """U^T F (r, width) of a factor and the r directions that its side has in this fit, summed; asked once."""
        if factor not in self._projections:
            self._projections[factor] = self.run(factor.side, "projections", factor, U, r).reshape(r, -1)
        return self._projections[factor]

    def _take_forgotten(self) -> list[Gone]:
        names, self._forgotten[:] = list(self._forgotten), []
        return names


class LocalEngine(Engine):
    """The engine without Ray: this process, with its threads, on parts that may be larger than its memory."""

    def __init__(self, sides: Mapping[str, Sequence[Part]], n_jobs: int | None = None, budget: float = np.inf) -> None:
        super().__init__(sides)
        self.owner = Owner(sides, kernels.Workers(n_jobs), budget=budget)

    def run_all(self, asked: Sequence[Asked], other: FactorShards | None = None) -> list[Array]:
        self.owner.forget(self._take_forgotten())
        return [total(self._whole(partial(self.owner.sums, side, operation, *args))) for side, operation, args in asked]

    def each(self, side: str, operation: Operation, *args: Any, other: FactorShards | None = None) -> list[Any]:
        answers = self._whole(lambda: self.owner.each(side, operation, *args))
        return [answers[number] for number in sorted(answers)]

    def new(self, like: FactorShards, recipe: tuple[Any, ...] | None) -> FactorShards:
        made = super().new(like, recipe)
        if recipe is None:
            return made
        # At once, so that what it is made of need not be kept.
        self.owner.forget(self._take_forgotten())
        for number in self.owner.sides[like.side]:
            self.owner.shard(made, number)
        object.__setattr__(made, "recipe", None)
        return made

    def _whole(self, ask: Callable[[], Any]) -> Any:
        while True:
            try:
                return ask()
            except DamagedBlock as block:
                self.mend(block)

    def close(self) -> None:
        self.owner.workers.close()


def check_values(engine: Engine, dtype: np.dtype[Any]) -> None:
    """Refuse entries that cannot be computed with, as those in memory are."""
    size = max(engine.each(ROWS, largest_value))
    if fault := extremity(size, dtype):
        number = f", {size:.3g} in size," if np.isfinite(size) else ""
        raise InputError(f"The largest value of the folder{number} {fault}")


def largest_value(owner: Owner, side: str) -> Iterator[tuple[int, float]]:
    """The largest magnitude among the entries of each part."""
    for number, part in owner.sides[side].items():
        yield number, float(np.abs(part.lines().values).max(initial=0.0))
