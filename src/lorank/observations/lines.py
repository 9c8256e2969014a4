"""Compressed lines: the rows or the columns of a matrix, with what was observed in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lorank import kernels
from lorank.types import Array


@dataclass(frozen=True)
class Lines:
    """Compressed lines: line i holds indices[pointers[i]:pointers[i + 1]], ascending, and their values.

    `weights` (one for each value, > 0) are None where all of them are 1.
    """

    pointers: Array
    indices: Array
    values: Array
    weights: Array | None = None

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array | None]:
        """Pointers, indices, values and weights, as kernels take them."""
        return self.pointers, self.indices, self.values, self.weights

    def transposed(self, lines: int) -> Lines:
        """The same entries by the other direction, which has so many lines."""
        moved = []
        for numbers in (self.values, self.weights):
            if numbers is not None:
                pointers, indices = np.zeros(lines + 1, np.int64), np.empty_like(self.indices)
                moved.append(np.empty_like(numbers))
                kernels.transpose(self.pointers, self.indices, numbers, pointers, indices, moved[-1])
        return Lines(pointers, indices, *moved)

    def totals(self) -> Array:
        """What the entries of each line weigh together: their number where there are no weights."""
        counts = np.diff(self.pointers)
        if self.weights is None:
            return counts
        sums = np.zeros(counts.size)
        filled = np.flatnonzero(counts)
        if filled.size:
            sums[filled] = np.add.reduceat(self.weights.astype(np.float64), self.pointers[filled])
        return sums

    @property
    def expanded(self) -> Array:
        """The line of each entry."""
        counts = np.diff(self.pointers)
        return np.repeat(np.arange(counts.size, dtype=self.indices.dtype), counts)
