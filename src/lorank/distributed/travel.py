"""What travels between workers: the lines of the other factor that each needs, and no others.

A worker knows from its parts which lines of the other side they mention. At the beginning of each half-step it reads
those of workers on its own node from the files that these have written, and asks others for theirs; where the workers
together need most of what one of them owns, that one puts all of it into the object store, from where it travels once
to each node.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank.distributed.factor_shards import FactorShards, copy_from_files, gather, in_shards
from lorank.distributed.owner import Owner
from lorank.linalg import padded_width
from lorank.types import Array

# The factor that the lines of each side are regressed on is that of the other.
OTHER = {"rows": "cols", "cols": "rows", "held out": "cols"}
# What a plan counts on: bytes a second between two nodes (10 Gbit/s), bytes of the second- and third-level caches, and
# seconds of a core for each of `sweep_terms`, as benchmarks/cost_model.py fits them.
BANDWIDTH, CACHES = 1.25e9, (1 << 20, 32 << 20)
# Bytes of requests and answers that each node receives in a sweep beside lines, by benchmarks/nodes.py at rank 20.
MESSAGES = 150_000
RATES = (0.037e-9, 0.953e-9, 0.0456e-9, 2.33e-9, 18.3e-9, 1.26e-9)


def sweep_terms(nnz: float, shape: tuple[float, float], k: int, itemsize: int) -> tuple[float, ...]:
    """What the seconds of a sweep are proportional to: of each entry the pairs and the numbers of a line, and its bytes
    from outside of either cache; of each line the numbers, and their pairs."""
    q, lines = padded_width(k), sum(shape)
    line = q * itemsize
    outside = [sum(max(0.0, 1 - cache / (size * line)) for size in shape if size) / 2 for cache in CACHES]
    return nnz * (k + 1) * (k + 2), nnz * q, *(nnz * line * share for share in outside), lines * q, lines * k**2


def sweep_seconds(nnz: float, shape: tuple[float, float], k: int, itemsize: int) -> float:
    """CPU seconds that all workers together need for a sweep."""
    return float(np.dot(sweep_terms(nnz, shape, k, itemsize), RATES))


@dataclass(frozen=True)
class Route:
    """What travels in each half-step, known before the fit.

    Attributes
    ----------
    whole : for each side, whether each owner's lines travel all together, once to each node.
    bytes : for each side, what its half-step moves from worker to worker.
    network : the part of it that goes from one node to another.
    nodes : the node of each worker.
    """

    whole: dict[str, list[bool]]
    bytes: dict[str, int]
    network: dict[str, int]
    nodes: Sequence[str] = ()

    @property
    def messages(self) -> int:
        """Bytes of requests and answers between nodes in a sweep."""
        nodes = len(set(self.nodes))
        return MESSAGES * nodes if nodes > 1 else 0

    @classmethod
    def of(
        cls,
        found: Mapping[int, tuple[str, dict[str, list[int]]]],
        bounds: Mapping[str, list[tuple[int, int]]],
        line_bytes: int,
    ) -> Route:
        """From the node of each worker and the lines of each owner that it needs, by side."""
        nodes = [node for node, _ in found.values()]
        whole: dict[str, list[bool]] = {}
        moved, network = dict.fromkeys(OTHER, 0), dict.fromkeys(OTHER, 0)
        for side in [side for side in OTHER if side in bounds]:
            other = OTHER[side]
            decide = other not in whole
            if decide:
                whole[other] = []
            for owner, (lo, hi) in enumerate(bounds[other]):
                needs = [(node, needed[side][owner]) for node, needed in found.values()]
                others = [count for number, (_, count) in enumerate(needs) if number != owner]
                far = {nodes[number] for number, (_, count) in enumerate(needs) if number != owner and count}
                if decide:
                    whole[other].append(2 * sum(others) > max(len(far), 1) * (hi - lo))
                # Workers on the owner's node read what they need from its files.
                near = sum(count for at, (node, count) in enumerate(needs) if node == nodes[owner] and at != owner)
                sent = sum(count for node, count in needs if node != nodes[owner])
                if whole[other][owner]:
                    sent = (hi - lo) * len(far - {nodes[owner]})
                moved[side] += line_bytes * (near + sent)
                network[side] += line_bytes * sent
        return cls(whole, moved, network, nodes)

    def describe(self, seconds: float, cores: int) -> str:
        """The plan in a sentence or two, with the bytes of a sweep and what it takes by `sweep_seconds`."""
        rows, cols = (f"{self.bytes[side] / 1e6:.3g} MB" for side in ("rows", "cols"))
        computing = f"about {seconds / cores:.2g} s of computing on {cores} core{'s' * (cores > 1)}"
        if len(set(self.nodes)) < 2:
            return (
                f"In a sweep workers read {rows} for the rows and {cols} for the columns from each other; {computing}."
            )
        network = sum(self.network[side] for side in ("rows", "cols")) + self.messages
        whole = [publishes for side in self.whole.values() for publishes in side]
        return (
            f"A sweep moves {rows} to the rows and {cols} to the columns; {network / 1e6:.3g} MB go from node to node, "
            f"requests among them: {computing} and {network / BANDWIDTH:.2g} s of moving at 10 Gbit/s. What workers "
            f"have of rows or columns travels line by line in {whole.count(False)} of {len(whole)} cases, else whole."
        )


@dataclass(frozen=True)
class Peers:
    """The workers: actors, the nodes that they are on (None where it is not known), and what each owns.

    `parts` has, for each side and worker, the number of its first part, and the ends of its parts.
    """

    actors: Sequence[Any]
    nodes: Sequence[str | None]
    parts: Mapping[str, Sequence[tuple[int, Sequence[int]]]]

    def reads(self, one: int, factor: FactorShards, owner: int) -> bool:
        """Whether a worker takes a factor's lines from the files of another, as it does on the same node."""
        return factor.is_quick and self.nodes[one] is not None and self.nodes[one] == self.nodes[owner]

    def all_read(self, factor: FactorShards, owner: int) -> bool:
        """Whether nobody has to ask a worker for lines of a factor."""
        return all(self.reads(one, factor, owner) for one in range(len(self.nodes)) if one != owner)


class LostLines(Exception):
    """Lines did not come: their owner died, or its node."""


class Travel:
    """A worker's way to lines that others own.

    `peers` are the workers, and `published`, for the request that is being answered, the objects with all lines of
    those that publish them; `waiting` adds up the seconds until lines come.
    """

    def __init__(self, owner: Owner, number: int) -> None:
        self.owner, self.number = owner, number
        self.peers = Peers([], [], {})
        self.published: Sequence[Any] = []
        self.waiting = 0.0
        # Lists of positions in the object store: they are the same in every sweep.
        self._lists: dict[tuple[int, int], Any] = {}

    def follow(self, peers: Peers | None, published: Sequence[Any]) -> None:
        """From now on: other workers, if there is something new to know of them, and other objects."""
        self.peers, self.published = peers or self.peers, published

    def needs(self, bounds: Mapping[str, list[tuple[int, int]]], line_bytes: int) -> dict[str, list[int]]:
        """How many lines of each owner of the other side the parts of each side need; groups count on their own."""
        found = {}
        for side in self.owner.sides:
            owners = bounds[OTHER[side]]
            counts = [0] * len(owners)
            for group in self.owner.groups(side, max(hi for _, hi in owners), line_bytes):
                for owner, (lo, hi) in enumerate(owners):
                    counts[owner] += hi - lo if group.positions is None else _within(group.positions, lo, hi).size
            found[side] = counts
        return found

    def fetch(self, factor: FactorShards, positions: Array | None, out: Array) -> None:
        """Put lines of a factor, by positions or all, into an array, from whoever owns them."""
        began = time.perf_counter()
        asked, here, at = [], [], 0
        for owner, (_, ends) in enumerate(self.peers.parts[factor.side]):
            own = None if positions is None else _within(positions, ends[0], ends[-1])
            size = ends[-1] - ends[0] if own is None else own.size
            if not size:
                continue
            span, at = slice(at, at + size), at + size
            if owner == self.number or self.peers.reads(self.number, factor, owner):
                here.append((span, owner, own))
            elif self.published[owner] is not None:
                asked.append((span, None if own is None else own - ends[0], self.published[owner]))
            else:
                there = None if own is None else self._list(owner, positions, own)
                asked.append((span, None, self.peers.actors[owner].lines_of.remote(factor, there)))
        for span, owner, own in here:
            if owner == self.number:
                self.owner.copy_lines(factor, own, out[span])
            else:
                self._read(factor, owner, own, out[span])
        for span, chosen, ref in asked:
            shards = _received(ref)
            ends = np.cumsum([0, *map(len, shards)]).tolist()
            gather(ends, shards.__getitem__, chosen, out[span])
        self.waiting += time.perf_counter() - began

    def _read(self, factor: FactorShards, owner: int, positions: Array | None, out: Array) -> None:
        """Put lines that another worker on this node owns into an array."""
        folder, (first, ends) = self.owner.folder, self.peers.parts[factor.side][owner]
        assert folder is not None
        for place, chosen, span in in_shards(ends, positions):
            copy_from_files(folder, factor, first + place, ends[place + 1] - ends[place], chosen, out[span])

    def _list(self, owner: int, positions: Any, own: Array) -> Any:
        """Positions for an owner, as an object that travels to it once."""
        import ray

        key = owner, id(positions)  # a group's positions are kept as long as the worker
        if key not in self._lists:
            self._lists[key] = ray.put(own)
        return self._lists[key]


def _received(ref: Any) -> Any:
    """The shards that were asked for, when they have come."""
    import ray
    from ray.exceptions import ObjectLostError, OutOfMemoryError, OwnerDiedError, RayActorError

    try:
        return ray.get(ref)
    except (RayActorError, ObjectLostError, OutOfMemoryError, OwnerDiedError) as error:
        raise LostLines(str(error)) from None


def _within(positions: Array, lo: int, hi: int) -> Array:
    """Those of ascending positions from lo to hi - 1."""
    first, last = np.searchsorted(positions, [lo, hi])
    return positions[first:last]
