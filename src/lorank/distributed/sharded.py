"""Predict and recommend from a folder of shards without ever loading all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.distributed.parts import unlocked
from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.models.recommending import Ranking
from lorank.types import Array

# For recommendations, rows that are taken at a time, columns that they are compared with at a time, and entries that
# these rows may have together: 32 MB each.
ROWS_AT_ONCE, COLUMNS_AT_ONCE, SEEN_AT_ONCE = 256, 1 << 14, 1 << 22


class ShardedModel:
    """A model on disk. Only shards that are asked for are mapped, one of each side at a time.

    `columns_` are the names of the columns of its table, as a MatrixCompletion from a table has them.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self.columns_: tuple[str, ...] = tuple(manifest["columns"])
        self._first: dict[str, Array] = {}

    @property
    def shape(self) -> tuple[int, int]:
        return self.manifest["row"]["lines"], self.manifest["col"]["lines"]

    def predict(self, rows: npt.ArrayLike, cols: npt.ArrayLike, unseen: str = "error") -> Array:
        """Entries at (rows_t, cols_t), by id; ids that are not known are an error, or, with unseen="bias", are
        predicted from what is known as by MatrixCompletion."""
        left, right = self.find("row", rows), self.find("col", cols)
        for side, found, names in (("row", left, rows), ("column", right, cols)):
            if unseen == "error" and (found < 0).any():
                unknown = np.atleast_1d(np.asarray(names)).tolist()[int(np.argmax(found < 0))]
                raise InputError(f"Unknown {side} {unknown!r}: it was not in the data that the model was fitted on.")
        left, right = (np.ascontiguousarray(side) for side in np.broadcast_arrays(left, right))
        answer = np.empty(left.size, self._factors(0, 0).dtype)
        new = (left < 0) | (right < 0)
        answer[new] = self._from_biases(left[new], right[new])
        known = np.flatnonzero(~new)
        a, b = left[known] // self._shard("row"), right[known] // self._shard("col")
        order = np.lexsort((b, a))
        cuts = np.flatnonzero(np.diff(a[order], prepend=-1) | np.diff(b[order], prepend=-1))
        for own in np.split(order, cuts[1:]) if order.size else []:
            which, at = (int(a[own[0]]), int(b[own[0]])), known[own]
            factors = self._factors(*which)
            places = left[at] - which[0] * self._shard("row"), right[at] - which[1] * self._shard("col")
            answer[at] = factors.predict(*places)
        return answer

    def recommend(self, rows: Any = None, n: int = 10, *, seen: bool = False) -> Iterator[Ranking]:
        """The n columns of highest prediction for each row, best first: a long table for some rows at a time.

        Parameters
        ----------
        rows : ids; None for all rows, in their order
        n : how many for each row; fewer where not so many are left
        seen : whether columns that were seen in a row may be recommended to it again
        """
        if n < 1:
            raise InputError(f"n must be at least 1; got {n}.")
        if not seen and not self.manifest["seen"]:
            raise InputError(
                "This model was saved without its data, so that what was seen is not known; "
                "save it with its data, or ask for seen columns too."
            )
        places = None
        if rows is not None:
            places = self.find("row", rows)
            if (places < 0).any():
                unknown = np.atleast_1d(np.asarray(rows)).tolist()[int(np.argmax(places < 0))]
                raise InputError(f"Unknown row {unknown!r}: it was not in the data that the model was fitted on.")
        total = self.shape[0] if places is None else places.size
        for lo in range(0, total, ROWS_AT_ONCE):
            block = np.arange(lo, min(lo + ROWS_AT_ONCE, total))
            yield from self._ranked(block if places is None else places[block], min(n, self.shape[1]), seen)

    def _ranked(self, block: Array, n: int, seen: bool) -> Iterator[Ranking]:
        """Rankings of a block of rows, in halves where they have too many entries."""
        taken = (np.empty(0, np.int64), np.empty(0, np.int64))
        if not seen:
            starts, counts = self._extent(block)
            if counts.sum() > SEEN_AT_ONCE and block.size > 1:
                for half in np.array_split(block, 2):
                    yield from self._ranked(half, n, seen)
                return
            taken = self._seen(block, starts, counts)
        scores, places = self._best(self._lines("row", block), n, *taken)
        there = np.isfinite(scores)
        rows = np.repeat(block, there.sum(axis=1))
        yield Ranking(self.names("row", rows), self.names("col", places[there]), scores[there])

    def _best(self, left: Array, n: int, taken_rows: Array, taken_cols: Array) -> tuple[Array, Array]:
        """The n best columns of each row and their predictions, in tiles of columns; `taken` ascends by column."""
        scores = np.empty((len(left), 0), left.dtype)
        places = np.empty((len(left), 0), np.int64)
        for b in range(self._count("col")):
            right, base = self._factors(0, b).right, b * self._shard("col")
            for lo in range(0, len(right), COLUMNS_AT_ONCE):
                tile = _dense(self._view(left, right[lo : lo + COLUMNS_AT_ONCE]))
                first, last = np.searchsorted(taken_cols, (base + lo, base + lo + tile.shape[1]))
                tile[taken_rows[first:last], taken_cols[first:last] - base - lo] = -np.inf
                # The best of the tile, beside the best so far.
                best = np.argpartition(-tile, min(n, tile.shape[1]) - 1, axis=1)[:, :n]
                best.sort(axis=1)
                scores = np.concatenate([scores, np.take_along_axis(tile, best, 1)], axis=1)
                places = np.concatenate([places, best + base + lo], axis=1)
                # Earlier columns come first, so that they win ties.
                keep = np.argsort(-scores, axis=1, kind="stable")[:, :n]
                scores, places = np.take_along_axis(scores, keep, 1), np.take_along_axis(places, keep, 1)
        return scores, places

    def _extent(self, block: Array) -> tuple[Array, Array]:
        """Where the entries of each row begin in its shard's file, and how many there are."""
        starts, counts = np.empty(block.size, np.int64), np.empty(block.size, np.int64)
        for number, chosen, at in self._by_shard("row", block):
            ends = self._read(f"seen-ends-{number}.npy")
            starts[chosen], counts[chosen] = ends[at], ends[at + 1] - ends[at]
        return starts, counts

    def _seen(self, block: Array, starts: Array, counts: Array) -> tuple[Array, Array]:
        """Entries of these rows, by row of the block and column, ascending by column."""
        rows, cols = [], []
        for number, chosen, _ in self._by_shard("row", block):
            own = counts[chosen]
            first = np.repeat(starts[chosen] - np.concatenate([[0], np.cumsum(own)[:-1]]), own)
            cols.append(self._read(f"seen-{number}.npy")[first + np.arange(own.sum())].astype(np.int64))
            rows.append(np.repeat(chosen, own))
        whole = np.concatenate(cols)
        order = np.argsort(whole, kind="stable")
        return np.concatenate(rows)[order], whole[order]

    def _from_biases(self, left: Array, right: Array) -> Array:
        """Offset and the biases that are known; without biases the mean of what was observed."""
        if not self.manifest["biased"]:
            return np.full(left.size, self.manifest["mean"])
        total = np.full(left.size, self.manifest["offset"])
        for side, places in (("row", left), ("col", right)):
            there = np.flatnonzero(places >= 0)
            total[there] += self._lines(side, places[there])[:, self.manifest["k"]]
        return total

    def _lines(self, side: str, places: Array) -> Array:
        """Padded factors of some lines."""
        first = self._read(f"{side}-0.npy")
        out = np.empty((places.size, first.shape[1]), first.dtype)
        for number, chosen, at in self._by_shard(side, places):
            out[chosen] = self._read(f"{side}-{number}.npy")[at]
        return out

    def names(self, side: str, places: Array) -> Array:
        """Ids of lines; side is "row" or "col"."""
        parts = [(chosen, _named(self._ids(side, number)[at])) for number, chosen, at in self._by_shard(side, places)]
        kind = np.result_type(*(names.dtype for _, names in parts)) if parts else self.id_type(side)
        out = np.empty(places.size, kind)
        for chosen, names in parts:
            out[chosen] = names
        return out

    def id_type(self, side: str) -> np.dtype[Any]:
        """The type of the ids, as numpy has it."""
        return _named(self._ids(side, 0)[:1]).dtype

    def find(self, side: str, names: npt.ArrayLike) -> Array:
        """Places of ids, -1 where unknown, by two bisections: of the shards' first ids, and within the shard."""
        wanted = np.atleast_1d(np.asarray(names))
        if wanted.dtype.kind == "O":
            # Names of several kinds: those of another kind than the ids are unknown.
            kind = str if self.manifest[side]["text"] else (int, float)
            fitting = np.array([isinstance(name, kind) for name in wanted.tolist()], bool)
            found = np.full(wanted.size, -1, np.int64)
            if fitting.any():
                found[fitting] = self.find(side, np.array(wanted[fitting].tolist()))
            return found
        if wanted.dtype.kind == "U":
            wanted = np.char.encode(wanted, "utf-8")
        if (wanted.dtype.kind == "S") != self.manifest[side]["text"]:
            raise InputError(
                f"Ids of {side}s are {'text' if self.manifest[side]['text'] else 'numbers'} in this model."
            )
        if side not in self._first:
            self._first[side] = np.array([self._ids(side, number)[0] for number in range(self._count(side))])
        shard = np.maximum(np.searchsorted(self._first[side], wanted, side="right") - 1, 0)
        places = np.empty(wanted.size, np.int64)
        for number in np.unique(shard).tolist():
            ids, chosen = self._ids(side, number), np.flatnonzero(shard == number)
            at = np.minimum(np.searchsorted(ids, wanted[chosen]), len(ids) - 1)
            places[chosen] = np.where(ids[at] == wanted[chosen], at + number * self._shard(side), -1)
        return places

    def _by_shard(self, side: str, places: Array) -> Iterator[tuple[int, Array, Array]]:
        """For each shard that is concerned: its number, which of the places are in it, and where."""
        shard = self._shard(side)
        owner = places // shard
        for number in np.unique(owner).tolist():
            chosen = np.flatnonzero(owner == number)
            yield number, chosen, places[chosen] - number * shard

    def _factors(self, a: int, b: int) -> Factors:
        return self._view(self._read(f"row-{a}.npy"), self._read(f"col-{b}.npy"))

    def _view(self, left: Array, right: Array) -> Factors:
        return Factors(left, right, self.manifest["k"], self.manifest["biased"], self.manifest["offset"])

    def _shard(self, side: str) -> int:
        return int(self.manifest[side]["shard"])

    def _count(self, side: str) -> int:
        return int(-(-self.manifest[side]["lines"] // self._shard(side)))

    def _ids(self, side: str, number: int) -> Array:
        return self._read(f"{side}-ids-{number}.npy")

    def _read(self, name: str) -> Array:
        try:
            return unlocked(np.load(self.folder / name, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError, EOFError):
            raise InputError(f"The shard {self.folder / name} is gone or damaged; save the model again.") from None


def _dense(factors: Factors) -> Array:
    X = factors.W @ factors.H.T
    if factors.biased:
        X += (factors.row_bias + factors.dtype.type(factors.offset))[:, None]
        X += factors.col_bias[None, :]
    return X


def _named(ids: Array) -> Array:
    return np.char.decode(ids, "utf-8") if ids.dtype.kind == "S" else np.asarray(ids)
