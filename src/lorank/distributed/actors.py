"""Ray actors that own parts, what travels between them, and what happens when one of them dies."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from lorank import kernels
from lorank.distributed.engines import Engine
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.nodes import spread_places
from lorank.distributed.owner import Asked, Gone, Nodes, Operation, Owner, shards_of, total
from lorank.distributed.parts import HELD_OUT, DamagedBlock, Part, PartFile, bounds_of, ends_of, runs_of
from lorank.distributed.travel import LostLines, Peers, Route, Travel
from lorank.errors import InputError
from lorank.kernels import unlocked
from lorank.linalg.blas import one_blas_thread
from lorank.types import Array

# One actor may die this often within a half-step before the fit is given up: then something kills them by system.
DEATHS = 20
# Bytes up to which Ray sends arguments along with a request.
INLINE = 100_000

# Arrays with a place for each line of a part, given the threads, the part, what all parts share and the lines' own.
OnLines = Callable[..., tuple[Array, ...]]


class _Worker:
    """An actor that owns the parts of one worker.

    Lines in Ray's object store are used where they lie, files are mapped. While it computes, a second thread gives
    others the lines that they ask for.
    """

    def __init__(
        self, sides: dict[str, list[Part]], threads: int, number: int, folder: str | None, budget: float
    ) -> None:
        own = {side: [_fetched(part) for part in parts] for side, parts in sides.items()}
        self.owner = Owner(own, kernels.Workers(threads), None, folder, budget)
        self.travel = Travel(self.owner, number)
        self.owner.fetch = self.travel.fetch

    def process(self) -> int:
        """The number of this worker's process."""
        return os.getpid()

    def about(
        self, bounds: dict[str, list[tuple[int, int]]], line_bytes: int
    ) -> tuple[float, tuple[str, dict[str, list[int]]]]:
        """The node, and how many lines of the other side's owners each side's parts need."""
        import ray

        return self._timed(lambda: (ray.get_runtime_context().get_node_id(), self.travel.needs(bounds, line_bytes)))

    def run(
        self, packed: bytes, gone: list[Gone], peers: Peers | None, published: list[Any]
    ) -> tuple[float, list[Nodes]]:
        """Seconds of computing, and the sums of each operation that is asked for."""
        self.owner.forget(gone)
        self.travel.follow(peers, published)
        asked: Sequence[Asked] = pickle.loads(packed)
        return self._timed(lambda: [self.owner.sums(side, operation, *args) for side, operation, args in asked])

    def each(
        self, side: str, operation: Operation, args: Any, peers: Peers | None, published: list[Any]
    ) -> tuple[float, dict[int, Any]]:
        """Seconds, and what `Owner.each` gives."""
        self.travel.follow(peers, published)
        return self._timed(lambda: self.owner.each(side, operation, *args))

    def on_lines(
        self, side: str, function: OnLines, shared: tuple[Any, ...], own: tuple[Array, ...]
    ) -> tuple[float, tuple[Array, ...]]:
        """What a function gives for all lines of a side, with numbers that come along and all of which go back."""
        return self._timed(lambda: _over_lines(self.owner, side, function, shared, own))

    def lines_of(self, factor: FactorShards, positions: Array | None) -> list[Array]:
        """Lines that this worker owns, for others: one array of those at some positions, or all, shard by shard."""
        if positions is None:
            return [shard for _, shard in shards_of(self.owner, factor.side, factor)]
        lines = kernels.aligned_zeros((positions.size, factor.width), factor.dtype)
        self.owner.copy_lines(factor, positions, lines)
        return [lines]

    def _timed(self, function: Callable[[], Any]) -> tuple[float, Any]:
        with one_blas_thread():
            began, self.travel.waiting = time.perf_counter(), 0.0
            answer = function()
            return time.perf_counter() - began - self.travel.waiting, answer


class RayEngine(Engine):
    """The engine whose parts and shards are owned by Ray actors.

    Every request goes to all of them at once. A worker that dies is started again with its parts from where they came
    from, and asked again: the shards of the last half-step are in files, others are made again from them, so that the
    answer is the same bits.
    """

    def __init__(
        self,
        sides: Mapping[str, Sequence[Part]],
        workers: int,
        threads: int = 1,
        folder: str | None = None,
        budget: float = np.inf,
    ) -> None:
        super().__init__(sides)
        self.workers, self.threads, self.folder, self.budget = workers, threads, folder, budget
        self.deaths = 0
        # Seconds of the slowest worker, summed over the requests: what remains of the wall time is overhead.
        self.computing = 0.0
        runs = {side: runs_of(parts, workers) for side, parts in sides.items() if side != HELD_OUT}
        if HELD_OUT in sides:
            # With the rows whose entries they are.
            owned = [{part.number for part in run} for run in runs["rows"]]
            runs[HELD_OUT] = [[part for part in sides[HELD_OUT] if part.number in own] for own in owned]
        self._runs = runs
        self._own = [
            {side: [_stored(part) for part in run[number]] for side, run in runs.items()} for number in range(workers)
        ]
        self._sent = [0] * workers
        self._gone: list[Gone] = []
        self._places = spread_places(workers, threads)
        self._actors = [self._start(number) for number in range(workers)]
        # Of factors by name, the objects with all lines of each worker that publishes its own.
        self._published: dict[str, list[Any]] = {}
        # What all workers are told of each other, its object, and which of them have been told.
        self._there: Any = None
        self._informed: set[int] = set()
        self._know([None] * workers)
        self.plan: Route | None = None

    def run_all(self, asked: Sequence[Asked], other: FactorShards | None = None) -> list[Array]:
        import ray

        self._gone += self._take_forgotten()
        # Pickled once for all workers, and put where each node gets it once if that is much.
        packed: bytes = ray.cloudpickle.dumps(asked)  # type: ignore[no-untyped-call]
        shared = packed if len(packed) <= INLINE else ray.put(packed)

        def ask(number: int) -> Any:
            sent, self._sent[number] = self._sent[number], len(self._gone)
            return self._actors[number].run.remote(shared, self._gone[sent:], *self._way(number, other))

        answers = self._everywhere({side for side, *_ in asked}, ask)
        self._published = {}
        return [
            total(dict(chain.from_iterable(own[at].items() for own in answers.values()))) for at in range(len(asked))
        ]

    def each(self, side: str, operation: Operation, *args: Any, other: FactorShards | None = None) -> list[Any]:
        answers = self._everywhere(
            {side}, lambda number: self._actors[number].each.remote(side, operation, args, *self._way(number, other))
        )
        self._published = {}
        found = {number: answer for own in answers.values() for number, answer in own.items()}
        return [found[number] for number in sorted(found)]

    def on_lines(
        self, side: str, function: OnLines, shared: tuple[Any, ...], own: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        """Arrays of a function of all lines of a side: for factors that are here, and not in shards.

        `shared` goes to all workers, and of the arrays in `own`, which have a place for each line or are empty, each
        gets its lines' part.
        """
        import ray

        there, spans = ray.put(shared), [slice(*bounds_of(run)) for run in self._runs[side]]
        mine = [ray.put(tuple(each[span] if each.size else each for each in own)) for span in spans]
        answers = self._everywhere(
            {side}, lambda number: self._actors[number].on_lines.remote(side, function, there, mine[number])
        )
        return tuple(np.concatenate(each) for each in zip(*(answers[number] for number in sorted(answers))))

    def prepare(self, line_bytes: int) -> Route:
        """Ask every worker what it needs of the others, and decide what travels."""
        bounds = {side: [bounds_of(run) for run in runs] for side, runs in self._runs.items()}
        args = bounds, line_bytes
        found = self._everywhere(None, lambda number: self._actors[number].about.remote(*args))
        self.plan = Route.of({number: found[number] for number in sorted(found)}, bounds, line_bytes)
        if self.folder is not None:  # else there are no files to read
            self._know(self.plan.nodes)
        return self.plan

    def _way(self, number: int, other: FactorShards | None) -> tuple[Any, list[Any]]:
        """What a worker has to know to get lines of a factor: the others, if that is new to it, and objects of lines.

        Those are of workers that are asked for all that they have, which then travels once to each node.
        """
        import ray

        if other is None:
            return None, []
        if self._there is None:
            self._there = ray.put(self._peers)
        if other.name not in self._published:
            whole = self.plan.whole[other.side] if self.plan is not None else [True] * self.workers
            asked = [
                publish and bool(run) and not self._peers.all_read(other, owner)
                for owner, (publish, run) in enumerate(zip(whole, self._runs[other.side]))
            ]
            self._published[other.name] = [
                actor.lines_of.remote(other, None) if ask else None for actor, ask in zip(self._actors, asked)
            ]
        new = number not in self._informed
        self._informed.add(number)
        return self._there if new else None, self._published[other.name]

    def _know(self, nodes: Sequence[str | None]) -> None:
        """Have all workers be told of each other again, with their nodes."""
        parts = {side: [ends_of(run) for run in runs] for side, runs in self._runs.items()}
        self._peers, self._there, self._informed = Peers(list(self._actors), nodes, parts), None, set()

    def _everywhere(self, sides: Collection[str] | None, ask: Callable[[int], Any]) -> dict[int, Any]:
        """Answers by worker of all that have parts of some sides, or of all.

        One that dies is replaced and asked again, and so is one that waited for lines of a worker that died.
        """
        import ray
        from ray.exceptions import ObjectLostError, OutOfMemoryError, OwnerDiedError, RayActorError, RayTaskError

        numbers = [
            number for number in range(self.workers) if sides is None or any(self._runs[side][number] for side in sides)
        ]
        waiting = {self._asked(number, ask): (number, self._actors[number]) for number in numbers}
        answers: dict[int, Any] = {}
        slowest, deaths = 0.0, 0
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            number, actor = waiting.pop(ready)
            try:
                answer = ray.get(ready)
            except RayTaskError as error:
                if isinstance(error.cause, DamagedBlock):
                    self.mend(error.cause)
                    waiting[self._asked(number, ask)] = number, self._actors[number]
                    continue
                if not isinstance(error.cause, LostLines):
                    raise (error.cause if isinstance(error.cause, InputError) else error) from None
                dead = self._silent()
            except (RayActorError, ObjectLostError, OutOfMemoryError, OwnerDiedError):
                dead = [number] if self._actors[number] is actor else []
            else:
                seconds, answers[number] = answer
                slowest = max(slowest, seconds)
                continue
            deaths += 1
            if deaths > DEATHS:
                raise InputError(
                    f"Worker {number} died {DEATHS} times in one step; look for what kills it, such as a lack of "
                    "memory."
                )
            self._replace(dead)
            waiting[self._asked(number, ask)] = number, self._actors[number]
        self.deaths += deaths
        self.computing += slowest
        return answers

    def _asked(self, number: int, ask: Callable[[int], Any]) -> Any:
        from ray.exceptions import RayActorError

        try:
            return ask(number)
        except RayActorError:
            self._replace([number])
            return ask(number)

    def _silent(self) -> list[int]:
        """The workers that do not answer."""
        import ray
        from ray.exceptions import OutOfMemoryError, RayActorError

        silent = []
        for number, actor in enumerate(self._actors):
            try:
                ray.get(actor.process.remote())
            except (RayActorError, OutOfMemoryError):
                silent.append(number)
        return silent

    def _replace(self, numbers: Sequence[int]) -> None:
        """Start workers anew, with the parts of those that died."""
        import ray

        self._published, nodes = {}, list(self._peers.nodes)
        for number in numbers:
            ray.kill(self._actors[number])  # it may be only out of reach, and would keep its CPUs
            self._actors[number], nodes[number] = self._start(number), None  # wherever there is room for it
        self._know(nodes)

    def _start(self, number: int) -> Any:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        worker: Any = ray.remote(_Worker)
        place = PlacementGroupSchedulingStrategy(self._places, placement_group_bundle_index=number)
        # A second thread gives lines to others.
        options = {"num_cpus": self.threads, "scheduling_strategy": place, "max_concurrency": 2}
        return worker.options(**options).remote(self._own[number], self.threads, number, self.folder, self.budget)

    def close(self) -> None:
        """End the actors and let go of their data."""
        import ray
        from ray.util import remove_placement_group

        for actor in self._actors:
            ray.kill(actor)
        remove_placement_group(self._places)
        self._actors, self._own = [], []


def _over_lines(
    owner: Owner, side: str, function: OnLines, shared: tuple[Any, ...], own: tuple[Array, ...]
) -> tuple[Array, ...]:
    """What a function gives for the lines of a side, part by part."""
    shared = tuple(unlocked(each) if isinstance(each, np.ndarray) else each for each in shared)
    parts, found = list(owner.sides[side].values()), []
    for part in parts:
        span = slice(part.lo - parts[0].lo, part.hi - parts[0].lo)
        mine = (np.ascontiguousarray(unlocked(each)[span]) if each.size else each for each in own)
        found.append(function(owner.workers, part, shared, *mine))
    return tuple(np.concatenate(each) for each in zip(*found))


def _stored(part: Part) -> Part:
    import ray

    return part if isinstance(part.source, PartFile) else replace(part, source=ray.put(part.source))


def _fetched(part: Part) -> Part:
    import ray

    return replace(part, source=ray.get(part.source)) if isinstance(part.source, ray.ObjectRef) else part
