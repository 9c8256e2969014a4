"""Parts: runs of lines, in memory or in a file, and the arithmetic on them.

The lines of either side are cut into parts once, by the data alone; workers take runs of parts. What a line gives does
not depend on the part or worker it is in, so the number of workers changes no bit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lorank import kernels
from lorank.errors import InputError
from lorank.files import replacing
from lorank.kernels import checksum, unlocked
from lorank.linalg import Factors
from lorank.observations import Lines
from lorank.types import Array

# At most so many entries in a part (one line may have more), and at least so many parts where there are lines enough.
PART_ENTRIES = 1 << 20
PARTS = 32
# A line costs its regression besides its entries: about as much as this many entries at the usual ranks.
LINE_WEIGHT = 8


@dataclass(frozen=True)
class PartFile:
    """Lines in a file: pointers, values, weights if there are any, indices, one after the other; and their checksum."""

    path: str
    lines: int
    entries: int
    index_type: str
    value_type: str
    checksum: int
    weighted: bool = False

    @classmethod
    def write(cls, path: Path, lines: Lines) -> PartFile:
        """Write whole or not at all, so that a task that is killed and done again leaves nothing half."""
        weights = () if lines.weights is None else (lines.weights,)
        arrays = [np.ascontiguousarray(array).data for array in (lines.pointers, lines.values, *weights, lines.indices)]
        with replacing(path, sync=False) as beside:
            with open(beside, "wb") as file:
                file.writelines(arrays)
            found = checksum(unlocked(np.memmap(beside, np.uint8, "r")))
        count, entries = lines.pointers.size - 1, lines.values.size
        kinds = lines.indices.dtype.str, lines.values.dtype.str
        return cls(str(path), count, entries, *kinds, found, bool(weights))

    def read(self) -> Lines:
        """The lines, memory-mapped. The checksum is looked at each time: compiled code trusts what it reads here."""
        numbers = [(self.entries, self.value_type)] * (1 + self.weighted)
        sizes = [(self.lines + 1, "<i8"), *numbers, (self.entries, self.index_type)]
        expected = sum(size * np.dtype(kind).itemsize for size, kind in sizes)
        try:
            whole = np.memmap(self.path, np.uint8, "r")
        except (OSError, ValueError):
            raise InputError(f"The block {self.path} is gone or empty; fit again.") from None
        if whole.size != expected or checksum(unlocked(whole)) != self.checksum:
            raise InputError(f"The block {self.path} is damaged; fit again.")
        arrays, at = [], 0
        for size, kind in sizes:
            length = size * np.dtype(kind).itemsize
            arrays.append(unlocked(whole[at : at + length].view(kind)))
            at += length
        pointers, values, *weights, indices = arrays
        return Lines(pointers, indices, values, *weights)


@dataclass(frozen=True)
class Part:
    """Lines lo..hi of one side; `source` is where they are: Lines, a PartFile, or a Ray object of Lines."""

    lo: int
    hi: int
    entries: int
    source: Any

    def lines(self) -> Lines:
        """The lines where they lie, in memory or in a file."""
        if isinstance(self.source, PartFile):
            return self.source.read()
        pointers, indices, values, *weights = (unlocked(array) for array in self.source.arrays if array is not None)
        return Lines(pointers, indices, values, *weights)


def cut(counts: Array) -> Array:
    """Ends of parts of equal weight, from 0 to the number of lines, given the number of entries in each line."""
    work = np.concatenate([[0], np.cumsum(counts + LINE_WEIGHT)])
    parts = max(PARTS, -(-int(counts.sum()) // PART_ENTRIES))
    inner = np.searchsorted(work, np.linspace(0, work[-1], parts + 1)[1:-1])
    return np.unique(np.concatenate([[0], inner, [counts.size]])).astype(np.int64)


def parts_of(lines: Lines) -> list[Part]:
    """Lines in memory, cut into parts; nothing is copied but the pointers."""
    ends = cut(np.diff(lines.pointers)).tolist()
    parts = []
    for lo, hi in pairwise(ends):
        inside = slice(int(lines.pointers[lo]), int(lines.pointers[hi]))
        weights = None if lines.weights is None else lines.weights[inside]
        pointers = lines.pointers[lo : hi + 1] - lines.pointers[lo]
        own = Lines(pointers, lines.indices[inside], lines.values[inside], weights)
        parts.append(Part(lo, hi, inside.stop - inside.start, own))
    return parts


def seen_lines(parts: Sequence[Part], held_out: Sequence[Part] | None) -> Iterator[tuple[int, int, Lines]]:
    """Rows lo..hi with all of their entries, those that were held out among them: both are cut alike."""
    others: Sequence[Part | None] = held_out or [None] * len(parts)
    for part, other in zip(parts, others):
        yield part.lo, part.hi, part.lines() if other is None else _merged(part.lines(), other.lines())


def _merged(one: Lines, other: Lines) -> Lines:
    rows, cols = np.append(one.expanded, other.expanded), np.append(one.indices, other.indices)
    order = np.lexsort((cols, rows))
    weights = None
    if one.weights is not None and other.weights is not None:
        weights = np.append(one.weights, other.weights)[order]
    return Lines(one.pointers + other.pointers, cols[order], np.append(one.values, other.values)[order], weights)


class Block:
    """A run of parts of one side, and what is asked of them: each answer is by line, in the order of the lines.

    Mapped parts are used one after the other, and the next is announced to the system: pages are read in sequence, once
    a half-sweep, and those behind may be dropped at any time.
    """

    def __init__(self, parts: Sequence[Part], workers: kernels.Workers) -> None:
        self.parts, self.workers = list(parts), workers

    def solve(
        self, right: Array, k: int, biased: bool, offset: float, ridge: Array, drag: Array
    ) -> tuple[Array, Array]:
        """Padded factor and loss of each line."""
        right, drag = unlocked(right), unlocked(drag)
        count = self.parts[-1].hi - self.parts[0].lo if self.parts else 0
        out, loss = np.empty((count, right.shape[1]), right.dtype), np.empty(count)
        for span, lines in self._each():
            own = np.ascontiguousarray(drag[span]) if drag.size else drag
            found = kernels.solve_lines(*lines.arrays, right, k, biased, offset, ridge, own, self.workers)
            out[span], loss[span] = found
        return out, loss

    def pulled(
        self, drag: Array, right: Array, k: int, biased: bool, offset: float, ridge: Array
    ) -> tuple[Array, Array]:
        """The same with a pull on each line."""
        return self.solve(right, k, biased, offset, ridge, drag)

    def counts(self) -> tuple[Array]:
        """Entries of each line; what they weigh together, where there are weights."""
        return (self._by_line(lambda span, lines: lines.totals()),)

    def residual_sums(self, other: Array) -> tuple[Array, Array]:
        """Sum and sum of squares of v_ij - other_j over each line."""
        other = unlocked(other)
        count = self.parts[-1].hi - self.parts[0].lo if self.parts else 0
        sums, squares = np.empty(count), np.empty(count)
        for span, lines in self._each():
            args = (*lines.arrays, other, sums[span], squares[span])
            self.workers.run(kernels.line_sums, lines.pointers, *args, work_per_entry=4)
        return sums, squares

    def distances(self, offset: float) -> tuple[Array, Array]:
        """Sums over each line of (value - offset) and of its absolute value, weighted."""
        signed = self._by_line(lambda span, lines: _line_sums(lines, lines.values - offset))
        return signed, self._by_line(lambda span, lines: _line_sums(lines, np.abs(lines.values - offset)))

    def squared_errors(self, left: Array, right: Array, k: int, biased: bool, offset: float) -> tuple[Array]:
        """Weighted sum over each line of (X_ij - O_ij)^2; left holds the factors of these lines only."""
        factors = Factors(unlocked(left), unlocked(right), k, biased, offset)

        def errors(span: slice, lines: Lines) -> Array:
            own = Factors(np.ascontiguousarray(factors.left[span]), factors.right, k, biased, offset)
            residual = own.predict(lines.expanded, lines.indices, self.workers) - lines.values
            return _line_sums(lines, residual.astype(np.float64) ** 2)

        return (self._by_line(errors),)

    def _by_line(self, function: Any) -> Array:
        answers = [function(span, lines) for span, lines in self._each()]
        return np.concatenate(answers) if answers else np.zeros(0)

    def _each(self) -> Iterator[tuple[slice, Lines]]:
        for number, part in enumerate(self.parts):
            if number + 1 < len(self.parts):
                _announce(self.parts[number + 1].source)
            yield slice(part.lo - self.parts[0].lo, part.hi - self.parts[0].lo), part.lines()


def _line_sums(lines: Lines, numbers: Array) -> Array:
    """Sum of each line's numbers, weighted, in float64, always in the same order."""
    if lines.weights is not None:
        numbers = lines.weights * numbers
    sums = np.zeros(lines.pointers.size - 1)
    filled = np.flatnonzero(np.diff(lines.pointers))
    if filled.size:
        sums[filled] = np.add.reduceat(numbers.astype(np.float64), lines.pointers[filled])
    return sums


def _announce(source: Any) -> None:
    if isinstance(source, PartFile) and hasattr(os, "posix_fadvise") and os.path.exists(source.path):
        with open(source.path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
