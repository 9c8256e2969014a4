"""Parts: runs of lines, in memory or in a file.

The lines of either side are cut into parts once, by the data alone; workers take runs of parts. What a line gives does
not depend on the part or worker it is in, so the number of workers changes no bit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import replacing
from lorank.kernels import checksum, unlocked
from lorank.observations import Lines
from lorank.types import Array

# The sides of a folder: its rows and columns, and the rows' entries that were held out.
ROWS, COLS, HELD_OUT = "rows", "cols", "held out"
# At most so many entries in a part (one line may have more), and at least so many parts where there are lines enough.
PART_ENTRIES = 1 << 20
PARTS = 32
# A line costs its regression besides its entries: about as much as this many entries at the usual ranks.
LINE_WEIGHT = 8


class DamagedBlock(InputError):
    """A block that is not what was written: of its path, and what is wrong."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)  # as they are, for the way from one process to another
        self.path, self.what = path, what

    def __str__(self) -> str:
        return f"The block {self.path} is {self.what}; fit again."


@dataclass(frozen=True)
class PartFile:
    """Lines in a file: pointers, values, weights if there are any, indices, one after the other; and their checksum.

    Where the lines mention less than half of the other side's, the list of those (`needed` of them, ascending) follows
    the indices, which are then positions in it: whoever has the factors of that list needs no others.
    """

    path: str
    lines: int
    entries: int
    index_type: str
    value_type: str
    checksum: int
    weighted: bool = False
    needed: int = 0

    @classmethod
    def write(cls, path: Path, lines: Lines, width: int = 0) -> PartFile:
        """Write whole or not at all, so that a task that is killed and done again leaves nothing half.

        `width` is the number of lines of the other side; without it there is no list of those that are needed.
        """
        indices, listed = _renumbered(lines.indices, width)
        weights = () if lines.weights is None else (lines.weights,)
        arrays = (lines.pointers, lines.values, *weights, indices, listed)
        with replacing(path, sync=False) as beside:
            with open(beside, "wb") as file:
                file.writelines([np.ascontiguousarray(array).data for array in arrays])
            found = checksum(unlocked(np.memmap(beside, np.uint8, "r")))
        count, entries = lines.pointers.size - 1, lines.values.size
        kinds = lines.indices.dtype.str, lines.values.dtype.str
        return cls(str(path), count, entries, *kinds, found, bool(weights), listed.size)

    def read(self) -> Lines:
        """The lines, memory-mapped. The checksum is looked at each time: compiled code trusts what it reads here."""
        return self.read_all()[0]

    def read_all(self) -> tuple[Lines, Array | None]:
        """The lines, and the list that their indices are positions in; None if they are those of the other side."""
        numbers = [(self.entries, self.value_type)] * (1 + self.weighted)
        sizes = [(self.lines + 1, "<i8"), *numbers, (self.entries, self.index_type), (self.needed, self.index_type)]
        expected = sum(size * np.dtype(kind).itemsize for size, kind in sizes)
        try:
            whole = np.memmap(self.path, np.uint8, "r")
        except (OSError, ValueError):
            raise DamagedBlock(self.path, "gone or empty") from None
        if whole.size != expected or checksum(unlocked(whole)) != self.checksum:
            raise DamagedBlock(self.path, "damaged")
        arrays, at = [], 0
        for size, kind in sizes:
            length = size * np.dtype(kind).itemsize
            arrays.append(unlocked(whole[at : at + length].view(kind)))
            at += length
        pointers, values, *weights, indices, listed = arrays
        return Lines(pointers, indices, values, *weights), listed if self.needed else None


def _renumbered(indices: Array, width: int) -> tuple[Array, Array]:
    """Indices as positions in the list of the distinct ones, and that list; it is empty where it would be long."""
    nothing = indices[:0]
    if not width or not indices.size:
        return indices, nothing
    if width > 8 * indices.size:
        listed, numbered = np.unique(indices, return_inverse=True)
        return numbered.reshape(-1).astype(indices.dtype), listed
    mentioned = np.zeros(width, bool)
    mentioned[indices] = True
    listed = np.flatnonzero(mentioned).astype(indices.dtype)
    if 2 * listed.size > width:
        return indices, nothing
    places = np.empty(width, indices.dtype)
    places[listed] = np.arange(listed.size, dtype=indices.dtype)
    return places[indices], listed


@dataclass(frozen=True)
class Part:
    """Lines lo..hi of one side; `source` is where they are: Lines, a PartFile, or a Ray object of Lines."""

    number: int
    lo: int
    hi: int
    entries: int
    source: Any

    def lines(self) -> Lines:
        """The lines where they lie, in memory or in a file."""
        return self.lines_and_needed()[0]

    def lines_and_needed(self) -> tuple[Lines, Array | None]:
        """The same, and the list of the other side's lines that the indices are positions in, if there is one."""
        if isinstance(self.source, PartFile):
            return self.source.read_all()
        pointers, indices, values, *weights = (unlocked(array) for array in self.source.arrays if array is not None)
        return Lines(pointers, indices, values, *weights), None

    def complete_lines(self) -> Lines:
        """The lines with the positions of their entries on the other side."""
        lines, needed = self.lines_and_needed()
        return lines if needed is None else replace(lines, indices=needed[lines.indices])


def part_count(entries: int) -> int:
    """How many parts so many entries are cut into, about."""
    return max(PARTS, -(-entries // PART_ENTRIES))


def cut(counts: Array) -> Array:
    """Ends of parts of equal weight, from 0 to the number of lines, given the number of entries in each line."""
    work = np.concatenate([[0], np.cumsum(counts + LINE_WEIGHT)])
    inner = np.searchsorted(work, np.linspace(0, work[-1], part_count(int(counts.sum())) + 1)[1:-1])
    return np.unique(np.concatenate([[0], inner, [counts.size]])).astype(np.int64)


def parts_of(lines: Lines) -> list[Part]:
    """Lines in memory, cut into parts; nothing is copied but the pointers."""
    ends = cut(np.diff(lines.pointers)).tolist()
    parts = []
    for number, (lo, hi) in enumerate(pairwise(ends)):
        inside = slice(int(lines.pointers[lo]), int(lines.pointers[hi]))
        weights = None if lines.weights is None else lines.weights[inside]
        pointers = lines.pointers[lo : hi + 1] - lines.pointers[lo]
        own = Lines(pointers, lines.indices[inside], lines.values[inside], weights)
        parts.append(Part(number, lo, hi, inside.stop - inside.start, own))
    return parts


def runs_of(parts: Sequence[Part], workers: int) -> list[list[Part]]:
    """A run of parts for each worker, balanced by entries; some are empty where there are fewer parts than workers."""
    weights = np.array([part.entries + part.hi - part.lo for part in parts], float)
    middle = np.cumsum(weights) - weights / 2
    owner = np.minimum((middle / weights.sum() * workers).astype(int), workers - 1)
    return [[part for part, who in zip(parts, owner) if who == number] for number in range(workers)]


def ends_of(run: Sequence[Part]) -> tuple[int, list[int]]:
    """The number of the first part of a run, and the ends of its parts."""
    return (run[0].number, [run[0].lo, *(part.hi for part in run)]) if run else (0, [0])


def bounds_of(run: Sequence[Part]) -> tuple[int, int]:
    """The first line of a run of parts, and the one after its last."""
    _, ends = ends_of(run)
    return ends[0], ends[-1]


def seen_lines(parts: Sequence[Part], held_out: Sequence[Part] | None) -> Iterator[tuple[int, int, Lines]]:
    """Rows lo..hi with all of their entries, those that were held out among them: both are cut alike."""
    others: Sequence[Part | None] = held_out or [None] * len(parts)
    for part, other in zip(parts, others):
        own = part.complete_lines()
        yield part.lo, part.hi, own if other is None else _merged(own, other.complete_lines())


def _merged(one: Lines, other: Lines) -> Lines:
    rows, cols = np.append(one.expanded, other.expanded), np.append(one.indices, other.indices)
    order = np.lexsort((cols, rows))
    weights = None
    if one.weights is not None and other.weights is not None:
        weights = np.append(one.weights, other.weights)[order]
    return Lines(one.pointers + other.pointers, cols[order], np.append(one.values, other.values)[order], weights)


def line_sums(lines: Lines, numbers: Array) -> Array:
    """Sum of each line's numbers, weighted, in float64, always in the same order."""
    if lines.weights is not None:
        numbers = lines.weights * numbers
    sums = np.zeros(lines.pointers.size - 1)
    filled = np.flatnonzero(np.diff(lines.pointers))
    if filled.size:
        sums[filled] = np.add.reduceat(numbers.astype(np.float64), lines.pointers[filled])
    return sums


def announce(source: Any) -> None:
    """Ask the system to read a mapped part ahead."""
    if isinstance(source, PartFile) and hasattr(os, "posix_fadvise") and os.path.exists(source.path):
        with open(source.path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
