"""Tables of features of a folder's rows or columns: the driver has a table, and the owners of parts what it says of
their lines.

Lines of a table are named by ids, which are numbered together with those of the entries (`lorank.distributed.prepare`):
an id that only the table has is a line without entries, and one that only the entries have is at the mean of all
features. So F is zero but for the lines of the table, and its directions are found by the driver, which needs only
those. U is cut into shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from lorank.distributed.directions import ShardDirections
from lorank.distributed.engines import Engine
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.owner import Owner
from lorank.errors import InputError
from lorank.files import crc32
from lorank.kernels import LANES
from lorank.linalg.blas import one_blas_thread
from lorank.observations.identifiers import Identifiers
from lorank.side_information import Features
from lorank.side_information.base import several
from lorank.side_information.encoding import Encoding, FeatureTable, table_of
from lorank.types import Array


@dataclass(frozen=True)
class Tables:
    """Tables of features of one side, encoded: the ids of the lines of each, and a matrix (lines, q) in their order."""

    ids: tuple[Array, ...]
    matrices: tuple[Any, ...]
    encodings: tuple[Encoding, ...]

    @classmethod
    def of(cls, given: Any, what: str) -> Tables | None:
        """From DataFrames whose index has ids, one or several in a list; `what` says of what: rows or columns."""
        tables = [_with_ids(table_of(one), what) for one in several(given)]
        if not tables:
            return None
        encoded = [Encoding.learn(table) for table in tables]
        ids: Any = tuple(table.ids for table in tables)
        return cls(ids, tuple(matrix for _, matrix in encoded), tuple(encoding for encoding, _ in encoded))

    @property
    def width(self) -> int:
        """Features of a line."""
        return sum(encoding.width for encoding in self.encodings)

    def __str__(self) -> str:
        """What they are, and a checksum of them: of what a checkpoint is, and what a model's file does not have."""
        arrays = [part for matrix in self.matrices for part in _arrays(matrix)]
        names = [" ".join(map(str, ids.tolist())).encode("utf-8", "surrogatepass") for ids in self.ids]
        found = crc32(*(np.ascontiguousarray(array).data for array in arrays), *names)
        return f"{self.width} features of {max(map(len, self.ids))} lines ({found:08x})"

    def joined(self, positions: Sequence[Array], lines: int) -> SideFeatures:
        """The same by the positions of their ids among so many lines."""
        every = np.unique(np.concatenate(positions))
        parts = [
            Features(_placed(matrix, np.searchsorted(every, at), every.size), encodings=(encoding,))
            for matrix, encoding, at in zip(self.matrices, self.encodings, positions)
        ]
        return SideFeatures(reduce(Features.beside, parts), every, lines)


@dataclass(frozen=True)
class SideFeatures:
    """Features of the lines of one side that tables know: F (known, q), and the positions of these lines, ascending,
    among all. Of the other lines F is zero."""

    features: Features
    positions: Array
    lines: int

    def at(self, positions: Array) -> Features:
        """The features of some lines, in their order."""
        found = np.minimum(np.searchsorted(self.positions, positions), self.positions.size - 1)
        known = np.flatnonzero(self.positions[found] == positions)
        chosen = sp.csr_array((np.ones(known.size), (known, found[known])), shape=(positions.size, self.features.size))
        return Features(chosen @ self.features.matrix, encodings=self.features.encodings)

    @property
    def bytes(self) -> int:
        """What the directions take, over all workers."""
        return 4 * self.lines * _padded(min(self.features.matrix.shape))

    def directions(self, engine: Engine, side: str) -> ShardDirections:
        """The directions, their lines with the owners of the parts."""
        with one_blas_thread():
            found = self.features.directions()
            ones = found.ones
        width = _padded(found.squares.size)
        U: Any = engine.factor(side, self.lines, width, np.float32, width)
        engine.run(side, place, U, self.positions, found.U)
        # Nobody's features are unknown: who is not in the table is at the mean, as in memory.
        return ShardDirections(U, found.squares, sums=ones, known=self.lines)


def place(owner: Owner, side: str, new: FactorShards, positions: Array, lines: Array) -> Iterator[tuple[int, Array]]:
    """A factor with these lines at these positions, ascending, and zero elsewhere; only those of the parts are kept."""
    for number, part in owner.sides[side].items():
        own = slice(*np.searchsorted(positions, [part.lo, part.hi]))
        shard = np.zeros((part.hi - part.lo, new.width), np.float32)
        shard[positions[own] - part.lo, : lines.shape[1]] = lines[own]
        owner.keep(new, number, shard)
        yield number, np.zeros(1)


def _with_ids(table: Any, what: str) -> FeatureTable:
    if not isinstance(table, FeatureTable) or table.ids is None:
        raise InputError(
            f"Features of the {what} of a folder are a table whose lines have ids, such as a DataFrame with ids as its "
            f"index; got {'a table without ids' if isinstance(table, FeatureTable) else type(table).__name__}."
        )
    ids = Identifiers(np.asarray(table.ids))
    ids.find(ids.values[:1])  # refuses an id that comes twice
    if not len(ids):
        raise InputError("There are no lines in the table of features.")
    return table


def _placed(matrix: Any, at: Array, lines: int) -> Any:
    """A matrix whose lines go to these places among so many."""
    chosen = sp.csr_array((np.ones(at.size), (at, np.arange(at.size))), shape=(lines, at.size))
    return chosen @ matrix


def _arrays(matrix: Any) -> list[Array]:
    return [matrix.data, matrix.indices] if hasattr(matrix, "indices") else [np.asarray(matrix)]


def _padded(r: int) -> int:
    """The width of r directions and a column that says of which lines nothing is known."""
    return -(-(r + 1) // LANES) * LANES
