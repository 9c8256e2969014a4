"""Arrays that are cut into files along their first axis, and what a model is made of when it is kept in such arrays.

An index into a `ShardedArray` reads what it names and no more, so that code written for arrays in memory (slices,
arrays of positions) works from disk in bounded memory; `np.asarray` reads all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.kernels import Workers
from lorank.linalg import Factors, gram
from lorank.observations.identifiers import Identifiers
from lorank.types import Array


class ShardedArray:
    """An array whose first axis is cut into shards, each of which is read when it is needed.

    Parameters
    ----------
    ends : (shards + 1,)
        Where the shards begin and end: shard s holds positions ends[s] up to ends[s + 1].
    read : function of the number of a shard
        Its part of the array, memory-mapped if it comes from a file.
    convert : function of an array, optional
        Applied to what was read, such as to decode text.
    """

    def __init__(
        self, ends: Array, read: Callable[[int], Array], convert: Callable[[Array], Array] | None = None
    ) -> None:
        self.ends, self._read = np.asarray(ends, np.int64), read
        self._convert = convert or (lambda part: part)

    def shard(self, number: int) -> Array:
        """One of the parts."""
        return self._convert(self._read(number))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return (int(self.ends[-1]), *self._read(0).shape[1:])

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return self._convert(self._read(0)[:1]).dtype

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self.ends) - 1):
            yield from self.shard(number)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def __getitem__(self, key: Any) -> Any:
        """What numpy would give for a position, an array of them, or a slice of step 1; and then for further axes."""
        if isinstance(key, tuple):
            return self[key[0]][(slice(None), *key[1:])]
        if isinstance(key, slice):
            lo, hi, _ = key.indices(len(self))
            first = int(np.searchsorted(self.ends, lo, side="right")) - 1
            runs: list[Array] = []
            while not runs or (first < len(self.ends) - 1 and self.ends[first] < hi):
                own = min(first, len(self.ends) - 2)
                start, stop = (int(end) for end in self.ends[own : own + 2])
                runs.append(self._convert(self._read(own)[max(lo - start, 0) : max(min(hi, stop) - start, 0)]))
                first += 1
            return runs[0] if len(runs) == 1 else np.concatenate(runs)
        positions = np.asarray(key)
        if positions.size and not 0 <= positions.min() <= positions.max() < len(self):
            raise IndexError(f"There are {len(self)} lines, from 0 on.")
        if positions.ndim == 0:
            return self[positions.reshape(1)][0]
        parts = [(chosen, self._convert(self._read(number)[at])) for number, chosen, at in self.by_shard(positions)]
        kind = np.result_type(*(part.dtype for _, part in parts)) if parts else self.dtype
        out = np.empty((positions.size, *self.shape[1:]), kind)
        for chosen, part in parts:
            out[chosen] = part
        return out

    def owners(self, positions: Array) -> Array:
        """The shard of each position."""
        return np.searchsorted(self.ends, positions, side="right") - 1

    def by_shard(self, positions: Array) -> Iterator[tuple[int, Array, Array]]:
        """For each shard that is concerned: its number, which of the positions are in it, and where."""
        owners = self.owners(positions)
        for number in np.unique(owners).tolist():
            chosen = np.flatnonzero(owners == number)
            yield number, chosen, positions[chosen] - self.ends[number]


@dataclass(frozen=True)
class ShardedFactors(Factors):
    """Factors whose lines are in shards: `left` and `right` are ShardedArrays. W and H read all of them."""

    def predict(self, rows: Array, cols: Array, workers: Workers | None = None) -> Array:
        """Entries X[rows_t, cols_t], one pair of shards after the other."""
        left: Any = self.left
        right: Any = self.right
        answer = np.empty(len(rows), self.dtype)
        a, b = left.owners(rows), right.owners(cols)
        order = np.lexsort((b, a))
        cuts = np.flatnonzero(np.diff(a[order], prepend=-1) | np.diff(b[order], prepend=-1))
        for own in np.split(order, cuts[1:]) if order.size else []:
            i, j = int(a[own[0]]), int(b[own[0]])
            factors = Factors(left.shard(i), right.shard(j), self.k, self.biased, self.offset)
            answer[own] = factors.predict(rows[own] - left.ends[i], cols[own] - right.ends[j], workers)
        return answer

    @cached_property
    def grams(self) -> tuple[Array, Array]:
        """W^T W and H^T H, one shard after the other; once, since they are read whole for it."""
        left: Any = self.left
        right: Any = self.right
        workers = Workers()
        rows, cols = (
            sum((gram(side.shard(number), self.k, workers) for number in range(len(side.ends) - 1)), np.zeros(()))
            for side in (left, right)
        )
        workers.close()
        return rows, cols

    def with_rows(self, rows: Array) -> ShardedFactors:
        """The same columns beside other rows (padded), which are in memory."""
        there: Any = ShardedArray(np.array([0, len(rows)]), lambda number: rows)
        return replace(self, left=there)

    def loaded(self) -> Factors:
        """The same factors in memory."""
        return Factors(np.asarray(self.left), np.asarray(self.right), self.k, self.biased, self.offset)


class ShardedIdentifiers(Identifiers):
    """Ids in shards, found by two bisections: of the shards' first ids, and within the shard.

    Parameters
    ----------
    values : ShardedArray
        Ids by position, text as numpy has it.
    ascending : ShardedArray
        The same ids in ascending order, text as UTF-8, which sorts alike.
    places : ShardedArray, optional
        Position of each of the ascending ids; None if the ids ascend by position.
    """

    def __init__(self, values: Any, ascending: ShardedArray, places: ShardedArray | None = None) -> None:
        super().__init__(values)
        self._ascending, self._places = ascending, places
        self._first: Array | None = None

    def find(self, names: Any) -> Array:
        """Positions of names, -1 where unknown; a name of another type than the ids is unknown."""
        wanted: Array = Identifiers.of(names).values  # type: ignore[union-attr]
        kind = self._ascending.dtype.kind
        if wanted.dtype.kind == "O":
            fitting = np.array([_fits(name, kind) for name in wanted.tolist()], bool)
            found = np.full(wanted.size, -1, np.int64)
            if fitting.any():
                same = np.array(wanted[fitting].tolist(), self._ascending.dtype if kind == "M" else None)
                found[fitting] = self.find(same)
            return found
        if wanted.dtype.kind == "U":
            wanted = np.char.encode(wanted, "utf-8")
        if (wanted.dtype.kind if wanted.dtype.kind in "SM" else "n") != (kind if kind in "SM" else "n"):
            return np.full(wanted.size, -1, np.int64)
        if self._first is None:
            self._first = np.array([self._ascending.shard(s)[0] for s in range(len(self._ascending.ends) - 1)])
        shards = np.maximum(np.searchsorted(self._first, wanted, side="right") - 1, 0)
        found = np.empty(wanted.size, np.int64)
        for number in np.unique(shards).tolist():
            ids, chosen = self._ascending.shard(number), np.flatnonzero(shards == number)
            at = np.minimum(np.searchsorted(ids, wanted[chosen]), len(ids) - 1)
            found[chosen] = np.where(ids[at] == wanted[chosen], at + self._ascending.ends[number], -1)
        if self._places is not None:
            known = found >= 0
            found[known] = self._places[found[known]]
        return found

    def loaded(self) -> Identifiers:
        """The same ids in memory."""
        return Identifiers(np.asarray(self.values))


def _fits(name: Any, kind: str) -> bool:
    """Whether a name is of the type of ids of this kind: text, dates or numbers."""
    if kind == "S":  # numpy would drop a null character at the end, and find another name
        return isinstance(name, str) and not name.endswith("\0")
    if kind == "M":
        return isinstance(name, (date, np.datetime64))
    return isinstance(name, (int, float)) and not isinstance(name, bool) and -(2**63) <= name < 2**64


@dataclass(frozen=True)
class UnknownValues:
    """Stands for the values of entries of which only the position was kept; whoever asks for them is refused."""

    size: int
    dtype: np.dtype[Any]

    def __getitem__(self, key: Any) -> Array:
        raise InputError(
            "This folder of shards keeps which entries were seen and not their values; fit the data again to have both."
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self[:]
