"""What was seen of each row, from the blocks of a fit, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from lorank.distributed.parts import Part
from lorank.distributed.problem import HELD_OUT, ROWS
from lorank.observations import Lines


def seen_lines(sides: Mapping[str, Sequence[Part]]) -> Iterator[tuple[int, int, Lines]]:
    """Rows lo..hi with all of their entries, those that were held out among them: both sides are cut alike."""
    held_out: Sequence[Part | None] = sides.get(HELD_OUT) or [None] * len(sides[ROWS])
    for part, other in zip(sides[ROWS], held_out):
        yield part.lo, part.hi, part.lines() if other is None else _merged(part.lines(), other.lines())


def _merged(one: Lines, other: Lines) -> Lines:
    rows, cols = np.append(one.expanded, other.expanded), np.append(one.indices, other.indices)
    order = np.lexsort((cols, rows))
    return Lines(one.pointers + other.pointers, cols[order], np.append(one.values, other.values)[order])


def write_seen(sides: Mapping[str, Sequence[Part]], folder: Path, lines: int, shard: int) -> None:
    """The columns that were seen in each row: for each shard of rows a file of columns, and one of where rows end."""
    counts = np.zeros(lines, np.int64)
    for lo, hi, own in seen_lines(sides):
        counts[lo:hi] = np.diff(own.pointers)
    ends = np.concatenate([[0], np.cumsum(counts)])
    index_type = next(seen_lines(sides))[2].indices.dtype
    files = []
    for number, lo in enumerate(range(0, lines, shard)):
        own_ends = ends[lo : lo + shard + 1] - ends[lo]
        np.save(folder / f"seen-ends-{number}.npy", own_ends)
        # Of a file with no entry nothing could be mapped: it gets one that no row has.
        shape = (max(int(own_ends[-1]), 1),)
        files.append(np.lib.format.open_memmap(folder / f"seen-{number}.npy", "w+", index_type, shape))
    for lo, hi, own in seen_lines(sides):
        for number in range(lo // shard, (hi - 1) // shard + 1):
            first, last = max(lo, number * shard), min(hi, (number + 1) * shard)
            base = ends[number * shard]
            files[number][ends[first] - base : ends[last] - base] = own.indices[
                own.pointers[first - lo] : own.pointers[last - lo]
            ]
    for file in files:
        file.flush()
