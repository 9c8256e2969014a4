"""What a worker does with the parts that it owns: their lines, their shards of the factors, the arithmetic on both.

Sums are taken part by part and then along a tree over the numbers of the parts, which the data alone decides: the same
bits whoever owns which parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

import numpy as np

from lorank import kernels
from lorank.distributed.drag import Drag
from lorank.distributed.factor_shards import (
    FactorShards,
    gather,
    made_shard,
    read_shard,
    set_aside,
    shard_file,
    spare_file,
    write_shard,
)
from lorank.distributed.parts import HELD_OUT, Part, announce, line_sums
from lorank.linalg import Factors, gram, pad
from lorank.observations import Lines
from lorank.problems.offsets import half_round
from lorank.side_information.features import projected
from lorank.types import Array

# Sums of the parts from index 2^level to (index + 1) 2^level, by (level, index).
Nodes = dict[tuple[int, int], Array]
# A name that nobody refers to, and the side of a factor whose shards are in files.
Gone = tuple[str, str | None]
# Puts lines of a factor, by their positions, ascending, or all of them, into an array.
Fetch = Callable[[FactorShards, Array | None, Array], None]
# Of an owner, a side and further arguments: the number of each part and an answer.
Operation = Callable[..., Iterable[tuple[int, Any]]]
# A side, what is asked of its parts (a method of `Owner` by name, or a function), and further arguments.
Asked = tuple[str, str | Operation, tuple[Any, ...]]


@dataclass(frozen=True)
class Group:
    """Parts whose regressions are done with the same lines of the other factor in memory.

    `positions` are those of the lines, None for all of them; `places` where those that each part needs are among them,
    None where they are the same.
    """

    parts: list[Part]
    positions: Array | None
    places: list[Array | None]


class Owner:
    """The parts of one process.

    Parameters
    ----------
    sides : the parts of each side, consecutive ones.
    workers : threads of the kernels.
    fetch : gives lines of the other factor, whoever owns them; by default all are owned here.
    folder : where shards that were computed from the other side are written, so that nothing is lost with the process.
    budget : bytes of the other factor's lines that are held at a time; at least those that one part needs.
    """

    def __init__(
        self,
        sides: Mapping[str, Sequence[Part]],
        workers: kernels.Workers,
        fetch: Fetch | None = None,
        folder: str | None = None,
        budget: float = np.inf,
    ) -> None:
        self.sides = {side: {part.number: part for part in parts} for side, parts in sides.items()}
        self.workers, self.folder, self.budget = workers, folder, budget
        self.fetch = fetch or self.copy_lines
        # Where fetched lines are put: the same memory in each half-step, since fresh memory is slow at first touch.
        self._fetched: Array = np.zeros(0, np.uint8)
        self._shards: dict[tuple[str, int], Array] = {}
        self._groups: dict[tuple[str, int], list[Group]] = {}
        # Shards are asked for by other workers while this one computes.
        self._guard = RLock()

    # The shards of factors.

    def shard(self, factor: FactorShards, number: int) -> Array:
        """A shard from memory, or made again by its recipe or from its file."""
        with self._guard:
            found = self._shards.get((factor.name, number))
            if found is not None:
                return found
            if factor.recipe is not None:
                _, *args = factor.recipe
                given = [self.shard(arg, number) if isinstance(arg, FactorShards) else arg for arg in args]
                made = made_shard(factor, given)
                if factor.recipe[0] == "shifted":
                    # What it was made of has a file, and is asked for no more.
                    self._shards.pop((args[0].name, number), None)
            else:
                part = self.sides[factor.side][number]
                assert self.folder is not None
                path = shard_file(self.folder, factor.name, number)
                made = read_shard(path, lines_in(part, factor.side), factor.width, factor.kind)
            self._shards[factor.name, number] = made
            return made

    def keep(self, factor: FactorShards, number: int, shard: Array) -> None:
        """A new shard, in memory and, where there is a folder, in a file."""
        if self.folder is not None:
            spare = spare_file(self.folder, factor.side, number)
            write_shard(shard_file(self.folder, factor.name, number), shard, over=spare)
        with self._guard:
            self._shards[factor.name, number] = shard

    def forget(self, names: Sequence[Gone]) -> None:
        """Let go of factors; the files of the last one of each part are kept to be written over.

        They are looked for, not remembered: a worker that died may have written them.
        """
        gone = {name for name, _ in names}
        with self._guard:
            self._shards = {key: shard for key, shard in self._shards.items() if key[0] not in gone}
        for name, side in names:
            if self.folder is not None and side is not None:
                for number in self.sides[side]:
                    set_aside(self.folder, name, side, number)

    def copy_lines(self, factor: FactorShards, positions: Array | None, out: Array) -> None:
        """Put lines of a factor that are owned here into an array: those at some positions, ascending, or all."""
        parts = list(self.sides[factor.side].values())
        ends = [parts[0].lo, *(part.hi for part in parts)]
        gather(ends, lambda place: self.shard(factor, parts[place].number), positions, out)

    # What is asked of the parts of a side: each answer is a vector, to be summed.

    def sums(self, side: str, operation: str | Operation, *args: Any) -> Nodes:
        """The answers of the parts, summed as far as they are neighbours in the tree."""
        answers = getattr(self, operation)(side, *args) if isinstance(operation, str) else operation(self, side, *args)
        return joined({(0, number): answer for number, answer in answers})

    def each(self, side: str, operation: Operation, *args: Any) -> dict[int, Any]:
        """What a function of this owner, the side and the arguments gives for each part, by number."""
        return dict(operation(self, side, *args))

    def solve(
        self,
        side: str,
        new: FactorShards,
        other: FactorShards,
        biased: bool,
        offset: float,
        ridge: Array,
        drag: Drag,
    ) -> Iterator[tuple[int, Array]]:
        """Ridge regressions of the lines on the other factor: loss and summary of the new shard, which is kept."""
        # Compiled code is for arrays that may be written to, which those that came through Ray may not.
        k, ridge = other.k, np.array(ridge)
        for part, lines, features in self.with_features(side, other):
            toward = drag.of(self, part.number, k, features.dtype)
            left, loss = kernels.solve_lines(*lines.arrays, features, k, biased, offset, ridge, toward, self.workers)
            self.keep(new, part.number, left)
            yield part.number, np.concatenate([[loss.sum()], self.summary(left, k)])

    def squared_errors(
        self, side: str, own: FactorShards, other: FactorShards, biased: bool, offset: float
    ) -> Iterator[tuple[int, Array]]:
        """Weighted sum of (X_ij - O_ij)^2."""
        for part, lines, features in self.with_features(side, other):
            factors = Factors(self.shard(own, part.number), features, other.k, biased, offset)
            residual = factors.predict(lines.expanded, lines.indices, self.workers) - lines.values
            yield part.number, line_sums(lines, residual.astype(np.float64) ** 2).sum(keepdims=True)

    def summaries(self, side: str, factor: FactorShards) -> Iterator[tuple[int, Array]]:
        """Sum and sum of squares of the biases, and the Gram."""
        for number in self.sides[side]:
            yield number, self.summary(self.shard(factor, number), factor.k)

    def projections(self, side: str, factor: FactorShards, U: FactorShards, r: int) -> Iterator[tuple[int, Array]]:
        """U^T F (r, width) of a factor and r directions of features."""
        for number in self.sides[side]:
            yield number, projected(self.shard(U, number)[:, :r], self.shard(factor, number)).ravel()

    def totals(self, side: str) -> Iterator[tuple[int, Array]]:
        """What the entries weigh together, and how many lines have any."""
        for part, lines in self._lines(side):
            totals = lines.totals()
            yield part.number, np.array([float(totals.sum()), np.count_nonzero(totals)])

    def distances(self, side: str, offset: float) -> Iterator[tuple[int, Array]]:
        """Weighted sums of (value - offset), of its absolute value and of its square."""
        for part, lines in self._lines(side):
            off, exact = lines.values - offset, lines.values.astype(np.float64) - offset
            yield part.number, np.array([line_sums(lines, each).sum() for each in (off, np.abs(off), exact**2)])

    def offsets(
        self, side: str, new: FactorShards, other: FactorShards, level: float, variance: float, s2: float
    ) -> Iterator[tuple[int, Array]]:
        """Half a round of the offsets by empirical Bayes, given those of the other side; see `problems.offsets`."""
        for part, lines, features in self.with_features(side, other):
            counts = lines.totals().astype(np.float64)
            sums, squares = np.empty(counts.size), np.empty(counts.size)
            args = (*lines.arrays, features[:, 0] + level, sums, squares)
            self.workers.run(kernels.line_sums, lines.pointers, *args, work_per_entry=4)
            own, found = half_round(counts, sums, squares, variance, s2)
            self.keep(new, part.number, own[:, None])
            yield part.number, found

    def biases(self, side: str, new: FactorShards, offsets: FactorShards) -> Iterator[tuple[int, Array]]:
        """A factor of zeros with these offsets as its biases."""
        for number in self.sides[side]:
            own = self.shard(offsets, number)[:, 0].astype(new.dtype)
            self.keep(new, number, pad(np.zeros((own.size, new.k), new.dtype), own))
            yield number, np.zeros(1)

    def start(
        self, side: str, new: FactorShards, states: Sequence[Any], scale: float, offsets: FactorShards | None = None
    ) -> Iterator[tuple[int, Array]]:
        """Independent normal entries, and offsets as biases if there are any; zero where nothing was observed.

        `states` are those of the generator by part.
        """
        generator = np.random.PCG64()
        for part, lines in self._lines(side):
            generator.state = states[part.number]
            numbers = np.random.Generator(generator).standard_normal((part.hi - part.lo, new.k))
            biases = None if offsets is None else self.shard(offsets, part.number)[:, 0].astype(new.dtype)
            shard = pad((scale * numbers).astype(new.dtype), biases)
            shard[lines.totals() == 0] = 0
            self.keep(new, part.number, shard)
            yield part.number, self.summary(shard, new.k)

    def fill(self, side: str, new: FactorShards, value: float) -> Iterator[tuple[int, Array]]:
        """A factor of the same number everywhere."""
        for number, part in self.sides[side].items():
            self.keep(new, number, np.full((lines_in(part, side), new.width), value, new.dtype))
            yield number, np.zeros(1)

    def save(self, side: str, factor: FactorShards, folder: str) -> Iterator[tuple[int, Array]]:
        """Write the shards of a factor into a folder, to be there after the machine has stopped."""
        for number in self.sides[side]:
            path = shard_file(folder, factor.name, number)
            if not path.exists():  # a factor never changes under its name
                write_shard(path, self.shard(factor, number), sync=True)
            yield number, np.zeros(1)

    def load(self, side: str, new: FactorShards, saved: FactorShards, folder: str) -> Iterator[tuple[int, Array]]:
        """Take the shards of a factor from a folder."""
        for number, part in self.sides[side].items():
            path = shard_file(folder, saved.name, number)
            self.keep(new, number, read_shard(path, lines_in(part, side), saved.width, saved.kind))
            yield number, np.zeros(1)

    def summary(self, shard: Array, k: int) -> Array:
        """Of a shard: sum and sum of squares of its biases, and its Gram."""
        bias = shard[:, k].astype(np.float64) if k < shard.shape[1] else np.zeros(0)
        return np.concatenate([[bias.sum(), bias @ bias], gram(shard, k, self.workers).ravel()])

    # The lines, and what they need of the other side.

    def _lines(self, side: str) -> Iterator[tuple[Part, Lines]]:
        parts = list(self.sides[side].values())
        for part, following in zip(parts, [*parts[1:], None]):
            if following is not None:
                announce(following.source)
            yield part, part.lines()

    def with_features(self, side: str, other: FactorShards) -> Iterator[tuple[Part, Lines, Array]]:
        """Each part with lines of the other factor, and with indices that are positions in them."""
        line_bytes = other.width * other.dtype.itemsize
        for group in self.groups(side, other.lines, line_bytes):
            count = other.lines if group.positions is None else group.positions.size
            if self._fetched.size < count * line_bytes:
                self._fetched = np.zeros(0, np.uint8)  # let go of the old one first
                self._fetched = kernels.aligned_zeros((count * line_bytes,), np.uint8)
            block = self._fetched[: count * line_bytes].view(other.dtype).reshape(count, other.width)
            self.fetch(other, group.positions, block)
            for part, places in zip(group.parts, group.places):
                lines = part.lines()
                # Indices are fewer bytes than the factors' lines that they are positions of.
                yield part, lines if places is None else replace(lines, indices=places[lines.indices]), block

    def groups(self, side: str, others: int, line_bytes: int) -> list[Group]:
        """The parts in groups within the budget, each with what it needs of the other side's lines."""
        room = int(min(self.budget / line_bytes, others))
        if (side, room) not in self._groups:
            together: list[list[tuple[Part, Array | None]]] = [[]]
            count = 0
            for part in self.sides[side].values():
                needed = part.lines_and_needed()[1]
                size = others if needed is None else needed.size
                if together[-1] and room < others and count + size > room:
                    together.append([])
                    count = 0
                together[-1].append((part, None if needed is None else np.array(needed)))
                count += size
            self._groups[side, room] = [_group(lists, others) for lists in together if lists]
        return self._groups[side, room]


def lines_in(part: Part, side: str) -> int:
    """Lines of a shard: those of the part; of held-out entries, a line for each of them."""
    return part.entries if side == HELD_OUT else part.hi - part.lo


def _group(lists: Sequence[tuple[Part, Array | None]], others: int) -> Group:
    parts = [part for part, _ in lists]
    known = [needed for _, needed in lists if needed is not None]
    if len(lists) == 1 and known:
        return Group(parts, known[0], [None])
    positions = None
    if len(known) == len(lists):
        union = np.unique(np.concatenate(known))
        positions = union if union.size < others else None
    if positions is None:
        return Group(parts, None, [needed for _, needed in lists])
    return Group(parts, positions, [np.searchsorted(positions, needed).astype(np.int32) for needed in known])


def joined(nodes: Nodes) -> Nodes:
    """Sums of neighbours in the tree put together, as far as both are there."""
    nodes = dict(nodes)
    for level in range(64):
        if not any(at >= level for at, _ in nodes):
            break
        for index in sorted(index for at, index in nodes if at == level and index % 2 == 0):
            if (level, index + 1) in nodes:
                nodes[level + 1, index // 2] = nodes.pop((level, index)) + nodes.pop((level, index + 1))
    return nodes


def total(nodes: Nodes) -> Array:
    """The sum of all parts: what is left of the tree from the first part to the last."""
    found = joined(nodes)
    first, *rest = sorted(found, key=lambda node: node[1] << node[0])
    answer = found[first]
    for node in rest:
        answer = answer + found[node]
    return answer


def shards_of(owner: Owner, side: str, factor: FactorShards) -> Iterator[tuple[int, Array]]:
    """The shards themselves."""
    for number in owner.sides[side]:
        yield number, owner.shard(factor, number)
