"""Some lines of a folder in memory, drawn at random: what is tuned is tuned on them first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lorank.distributed.engines import Engine
from lorank.distributed.owner import Owner
from lorank.distributed.parts import COLS, ROWS
from lorank.distributed.prepare import drawn
from lorank.observations import Observations
from lorank.types import Array

# A line with more than this part of the entries that are wanted is left out: it would be most of the sample.
LONGEST = 0.1


def row_sample(
    engine: Engine, shape: tuple[int, int], entries: float, size: int, seed: int
) -> tuple[Observations, Array, Array]:
    """The entries of some rows, at most `size` in all, that a fit is to learn from; of all rows if they are so few. And
    the positions of their rows and columns.

    Rows, or columns where there are more of them, are drawn by a hash of their position and the seed. Lines are
    numbered anew, so that what is here grows neither with the number of rows nor with that of columns.
    """
    transposed = shape[1] > shape[0]
    side = COLS if transposed else ROWS
    share = min(size / entries, 1.0)
    lines, counts = (np.concatenate(found) for found in zip(*engine.each(side, drawn_lines, share, seed)))
    if share < 1:
        lines, counts = lines[counts <= LONGEST * size], counts[counts <= LONGEST * size]
        order = np.random.default_rng(seed).permutation(lines.size)
        lines = np.sort(lines[order[np.cumsum(counts[order]) <= size]])
    own, other, values, *weights = (np.concatenate(found) for found in zip(*engine.each(side, entries_of, lines)))
    (own_lines, own), (other_lines, other) = (np.unique(at, return_inverse=True) for at in (own, other))
    shape_here = own_lines.size, other_lines.size
    sample = Observations.from_coo(own, other, values, shape_here, weights=weights[0] if weights else None)
    return (sample.transposed(), other_lines, own_lines) if transposed else (sample, own_lines, other_lines)


def drawn_lines(owner: Owner, side: str, share: float, seed: int) -> Iterator[tuple[int, tuple[Array, Array]]]:
    """A share of the lines of each part, and how many entries they have."""
    for number, part in owner.sides[side].items():
        positions = np.arange(part.lo, part.hi)
        # Beside no column, so that it does not depend on whether the entry there is held out.
        chosen = drawn(positions, np.full(positions.size, -1), share, seed)
        yield number, (positions[chosen], np.diff(part.lines().pointers)[chosen])


def entries_of(owner: Owner, side: str, lines: Array) -> Iterator[tuple[int, tuple[Array, ...]]]:
    """The entries of some lines, ascending: line, position on the other side, value, and weight if there are any."""
    for number, part in owner.sides[side].items():
        found = part.complete_lines()
        chosen = np.isin(np.arange(part.lo, part.hi), lines)[found.expanded]
        numbers = (each[chosen] for each in (found.values, found.weights) if each is not None)
        yield number, (found.expanded[chosen] + part.lo, found.indices[chosen], *numbers)
