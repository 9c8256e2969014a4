"""Ids of rows and columns: counted file by file, and looked up.

Integers that lie close together are counted and looked up in arrays; others, and text, by Arrow's hash tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather

from lorank import kernels
from lorank.errors import InputError
from lorank.files import replacing
from lorank.types import Array

# An array over all integers between the smallest and the largest id may have this many numbers for each id, and so many
# in any case.
SPREAD, SMALL = 4, 1 << 20
FIRST = np.iinfo(np.int64).min
# Tables of counts that are kept before they are summed.
TABLES = 16


class Tally:
    """How many known values each id has, added up batch by batch."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._lowest, self._counts = 0, np.empty(0, np.int64)

    def add(self, ids: pa.Array, values: Array) -> None:
        """Count the ids of a batch; a value that is NaN is not known, but its id is still a line of the matrix."""
        lowest, span = _span(ids)
        if span and self._covers(lowest, span, len(ids)):
            kernels.count_known(ids.to_numpy(), values, self._lowest, self._counts)
            return
        known = pa.array(~np.isnan(values))
        seen = pc.value_counts(ids.filter(known))
        self._tables.append(pa.table({"id": seen.field(0), "count": seen.field(1)}))
        if len(seen) == 0 or pc.sum(known).as_py() < len(ids):
            every = pc.unique(ids)
            self._tables.append(pa.table({"id": every, "count": pa.array(np.zeros(len(every), np.int64))}))
        if len(self._tables) > TABLES:
            self._tables = [_summed(self._tables)]

    def _covers(self, lowest: int, span: int, lines: int) -> bool:
        """Whether the array reaches over these integers too; it grows if it stays small enough for that."""
        end = lowest + span
        if self._counts.size:
            lowest, end = min(lowest, self._lowest), max(end, self._lowest + self._counts.size)
        if end - lowest == self._counts.size:
            return True
        room = _room(int(np.count_nonzero(self._counts >= 0)) + lines)
        if end - lowest > room:
            return False
        # With some to spare on both sides, so that ids that go on growing do not copy it in each batch.
        spare = min(end - lowest, room - (end - lowest)) // 2
        lowest, end = max(lowest - spare, FIRST), end + spare
        wider = np.full(end - lowest, -1)
        at = self._lowest - lowest if self._counts.size else 0
        wider[at : at + self._counts.size] = self._counts
        self._lowest, self._counts = lowest, wider
        return True

    def table(self) -> pa.Table | None:
        """Each id once, and its count; None if there was no batch."""
        tables = list(self._tables)
        if self._counts.size:
            at = np.flatnonzero(self._counts >= 0)
            tables.append(pa.table({"id": at + self._lowest, "count": self._counts[at]}))
        return _summed(tables) if tables else None


def _summed(tables: list[pa.Table]) -> pa.Table:
    if len(tables) > 1:
        tables = [pa.concat_tables(tables).group_by("id").aggregate([("count", "sum")]).rename_columns(["id", "count"])]
    return pa.table({name: _one(tables[0][name]) for name in ("id", "count")})


def _span(ids: pa.Array) -> tuple[int, int]:
    """The smallest of integer ids, and how many integers there are from it to the largest; (0, 0) of other ids."""
    if not pa.types.is_int64(ids.type) or not len(ids):
        return 0, 0
    numbers = ids.to_numpy()
    lowest = int(numbers.min())
    return lowest, int(numbers.max()) - lowest + 1


def _room(ids: int) -> int:
    """How long an array for so many ids may be."""
    return max(SPREAD * ids, SMALL)


class Positions:
    """Where the ids of one file stand among all ids, and in which part."""

    def __init__(self, path: str, cuts: Array) -> None:
        table = feather.read_table(path)
        self._ids, self._positions = _one(table["id"]), table["position"].to_numpy()
        self._parts = (np.searchsorted(cuts, self._positions, side="right") - 1).astype(np.int32)
        self._lowest, span = _span(self._ids)
        self._dense = 0 < span <= _room(len(self._ids))
        if self._dense:
            at = self._ids.to_numpy() - self._lowest
            found = self._positions, self._parts
            self._positions, self._parts = (np.full(span, -1, array.dtype) for array in found)
            self._positions[at], self._parts[at] = found

    def of(self, ids: pa.Array, path: str) -> tuple[Array, Array]:
        """Position and part of each id of a batch of a file."""
        at = ids.to_numpy() - self._lowest if self._dense else _look_up(ids, self._ids)
        # A file that was written anew since its ids were counted has others, of which nothing is known here.
        known = at.dtype.kind == "i" and (not at.size or 0 <= at.min() <= at.max() < self._parts.size)
        part = self._parts[at] if known else None
        if part is None or (part.size and part.min() < 0):
            raise InputError(f"{path} was changed while it was read; fit again when it is complete.")
        return self._positions[at], part


def id_file(folder: str | Path, side: str, number: int) -> str:
    """Where the ids of one side and one file are kept."""
    return f"{folder}/ids-{side}-{number}.feather"


def write_table(table: pa.Table, path: str) -> None:
    """Write a table whole or not at all."""
    with replacing(path, sync=False) as beside:
        feather.write_feather(table, beside, compression="uncompressed")


def _look_up(ids: pa.Array, known: pa.Array) -> Array:
    """Position of each id among the known ones."""
    return pc.index_in(ids, value_set=known).to_numpy(zero_copy_only=False)


def _one(column: Any) -> pa.Array:
    """A chunked column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
