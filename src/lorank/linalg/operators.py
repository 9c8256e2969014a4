"""The operator low rank + sparse, which is all that a proximal solver ever holds of an m x n matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lorank import kernels
from lorank.observations import Lines
from lorank.types import Array


@dataclass(frozen=True)
class SparsePlusLowRank:
    """Z = U V^T + S, U (m, r), V (n, r), S sparse; costs O(nnz + (m + n) r) memory.

    by_row and by_col are S in both directions.
    """

    U: Array
    V: Array
    by_row: Lines
    by_col: Lines
    workers: kernels.Workers

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.U), len(self.V)

    def dot(self, B: Array) -> Array:
        """Z @ B for B (n, r)."""
        return self.U @ (self.V.T @ B) + _sparse_product(self.by_row, B, self.workers)

    def transposed_dot(self, B: Array) -> Array:
        """Z^T @ B for B (m, r)."""
        return self.V @ (self.U.T @ B) + _sparse_product(self.by_col, B, self.workers)


def _sparse_product(lines: Lines, B: Array, workers: kernels.Workers) -> Array:
    width = -(-B.shape[1] // kernels.LANES) * kernels.LANES
    features = np.zeros((len(B), width), B.dtype)
    features[:, : B.shape[1]] = B
    out = np.empty((len(lines.pointers) - 1, width), B.dtype)
    args = (lines.pointers, lines.indices, lines.values, features, out)
    workers.run(kernels.multiply_lines, lines.pointers, *args, work_per_entry=width)
    return out[:, : B.shape[1]]
