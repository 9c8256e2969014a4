"""Numbers for the ids of a folder: sorted, counted and cut into parts in tasks, range by range.

Each file's distinct ids are sorted, and a sample of all files says where to cut the ids into ranges of about equal
size. A range is merged by one task, so that neither the driver nor any task holds all ids; the driver knows how many
ids and entries each range has. The numbers do not depend on the ranges: they are places in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather

from lorank.distributed.ids import write_table
from lorank.distributed.parts import LINE_WEIGHT, part_count
from lorank.errors import InputError
from lorank.files import replacing
from lorank.models.shards import encoded_ids
from lorank.observations.identifiers import Identifiers, text_array
from lorank.types import Array

# Ids of a file that tell where to cut, and ids in a range, about.
SAMPLE, RANGE = 256, 1 << 18
# Runs a function on every item, in whatever processes, and gives the answers in order.
Map = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]


@dataclass(frozen=True)
class Numbering:
    """The ids of one side: the files of their ranges, the number of the first id in each (and the number of all), and
    where the lines are cut into parts."""

    ranges: list[str]
    firsts: list[int]
    entries: int
    cuts: Array

    @property
    def lines(self) -> int:
        return self.firsts[-1]

    def pieces(self, lo: int, hi: int) -> Iterator[pa.Array]:
        """The ids with the numbers lo to hi - 1, in pieces."""
        for path, first, last in zip(self.ranges, self.firsts, self.firsts[1:]):
            if first < hi and last > lo:
                ids = read_table(path)["id"].combine_chunks()
                yield ids.slice(max(lo - first, 0), min(hi, last) - max(lo, first))

    def entries_at(self, positions: Array) -> bool:
        """Whether a line at one of these positions has entries."""
        for path, first, last in zip(self.ranges, self.firsts, self.firsts[1:]):
            own = positions[(positions >= first) & (positions < last)] - first
            if own.size and read_table(path)["count"].to_numpy()[own].any():
                return True
        return False

    def id_of(self, number: int) -> Any:
        """The id that has a number."""
        return next(self.pieces(number, number + 1))[0].as_py()


def number_ids(folder: Path, side: str, paths: Sequence[str], run: Map) -> Numbering:
    """Numbers for the ids of some tables (id, count), which become tables of (id, position)."""
    samples = run(sort_table, [(path,) for path in paths])
    kinds = {str(sample.type): sample.type for sample, _ in samples}
    if len(kinds) > 1:
        first, second, *_ = kinds
        raise InputError(f"The {side} have ids of different types in different files: {first} and {second}.")
    total = sum(size for _, size in samples)
    ranges = max(1, -(-total // RANGE))
    known = pa.concat_arrays([sample for sample, _ in samples]) if samples else pa.array([])
    known = known.take(pc.sort_indices(known)).unique() if samples else known
    at = np.unique(np.linspace(0, len(known), ranges + 1)[1:-1].astype(np.int64))
    splits = known.take(pa.array(at[(at > 0) & (at < len(known))]))
    targets = [f"{folder}/ids-{side}-range-{number}.feather" for number in range(len(splits) + 1)]
    sizes = run(merge_range, [(target, number, splits, list(paths)) for number, target in enumerate(targets)])
    firsts = np.cumsum([0, *(ids for ids, _ in sizes)]).tolist()
    entries = sum(count for _, count in sizes)
    work = np.cumsum([0, *(count + LINE_WEIGHT * ids for ids, count in sizes)]).tolist()
    inner = np.linspace(0, work[-1], part_count(entries) + 1)[1:-1]
    ends = run(cut_range, [(target, done, inner) for target, done in zip(targets, work)])
    found = [first + end for first, end in zip(firsts, ends)]
    cuts = np.unique(np.concatenate([[0], *found, [firsts[-1]]])).astype(np.int64)
    numbering = Numbering(targets, firsts, entries, cuts)
    run(number_table, [(path, numbering, splits) for path in paths])
    return numbering


def as_ids(ids: Array, side: str, path: str) -> pa.Array:
    """Ids of a table about one side as those of the entries are, of which `path` has a table."""
    kind = read_table(path)["id"].type
    found = pa.array(ids.tolist() if ids.dtype.kind in "OU" else ids)
    known = (
        (pa.types.is_integer, pa.int64()),
        (pa.types.is_string, pa.large_string()),
        (pa.types.is_timestamp, pa.timestamp("us")),
    )
    found = next((found.cast(like) for is_like, like in known if is_like(found.type)), found)
    if found.type != kind:
        raise InputError(
            f"The features of {side} have ids of type {found.type}, and the folder's are {kind}; give the same."
        )
    return found


def positions_of(ids: pa.Array, path: str, numbering: Numbering) -> Array:
    """The numbers of some ids, of which `path` has a table, in their order; refused where none of them has entries."""
    table = read_table(path)
    at = pc.index_in(ids, value_set=table["id"].combine_chunks()).to_numpy()
    positions: Array = table["position"].to_numpy()[at]
    if not numbering.entries_at(positions):
        others = np.setdiff1d(np.arange(min(numbering.lines, positions.size + 1)), positions)
        raise InputError(
            f"No id of the data is among those of the features, which begin with {ids[0].as_py()!r}; the data's begin "
            f"with {numbering.id_of(int(others[0]))!r}."
        )
    return positions


def sort_table(path: str) -> tuple[pa.Array, int]:
    """Sort a table by its ids; some of them, evenly spread, and their number."""
    table = read_table(path)
    table = table.take(pc.sort_indices(table["id"]))
    write_table(table, path)
    ids = table["id"].combine_chunks()
    return ids.take(pa.array(np.unique(np.linspace(0, len(ids) - 1, SAMPLE).astype(np.int64)))), len(ids)


def merge_range(target: str, number: int, splits: pa.Array, paths: Sequence[str]) -> tuple[int, int]:
    """The ids of one range in all sorted tables, with their counts summed; how many ids and entries it has."""
    pieces = []
    for path in paths:
        table = read_table(path)
        lo, hi = _within(table["id"].combine_chunks(), number, splits)
        pieces.append(table.slice(lo, hi - lo))
    whole = pa.concat_tables(pieces).group_by("id").aggregate([("count", "sum")])
    whole = whole.take(pc.sort_indices(whole["id"]))
    write_table(pa.table({"id": whole["id"], "count": whole["count_sum"]}), target)
    return len(whole), int(pc.sum(whole["count_sum"]).as_py() or 0)


def cut_range(path: str, done: int, inner: Array) -> Array:
    """Where parts end within a range, given the work before it and the work at which they are to end."""
    counts = read_table(path)["count"].to_numpy()
    work = done + np.concatenate([[0], np.cumsum(counts + LINE_WEIGHT)])
    return np.searchsorted(work, inner[(inner > work[0]) & (inner <= work[-1])])


def number_table(path: str, numbering: Numbering, splits: pa.Array) -> None:
    """Give the ids of a sorted table their numbers."""
    ids = read_table(path)["id"].combine_chunks()
    positions = np.empty(len(ids), np.int64)
    for number, (target, first) in enumerate(zip(numbering.ranges, numbering.firsts)):
        lo, hi = _within(ids, number, splits)
        if hi > lo:
            known = read_table(target)["id"].combine_chunks()
            positions[lo:hi] = first + pc.index_in(ids.slice(lo, hi - lo), value_set=known).to_numpy()
    write_table(pa.table({"id": ids, "position": positions}), path)


def write_part_ids(path: str, numbering: Numbering, lo: int, hi: int) -> None:
    """The ids of some lines as an array in a file, text as UTF-8."""
    pieces = list(numbering.pieces(lo, hi))
    text = pa.types.is_large_string(pieces[0].type)
    values = np.concatenate([piece.to_numpy(zero_copy_only=False) for piece in pieces])
    if not text and values.dtype.kind not in "iufM":
        raise InputError(f"Ids of type {pieces[0].type} cannot be kept in shards; use numbers, dates or text.")
    ids = encoded_ids(text_array(values.tolist()) if text else values)
    with replacing(path, sync=False) as beside, open(beside, "wb") as file:
        np.save(file, ids)


def read_ids(paths: Sequence[str]) -> Identifiers:
    """The ids of all parts, in memory."""
    parts = [np.load(path) for path in paths]
    if parts[0].dtype.kind == "S":
        return Identifiers(
            text_array([name.decode("utf-8", "surrogatepass") for part in parts for name in part.tolist()])
        )
    return Identifiers(np.concatenate(parts))


def _within(ids: pa.Array, number: int, splits: pa.Array) -> tuple[int, int]:
    """Where a range begins and ends among sorted ids: from one split up to the next."""
    lo = _bisect(ids, splits[number - 1]) if number else 0
    return lo, _bisect(ids, splits[number]) if number < len(splits) else len(ids)


def _bisect(ids: pa.Array, split: pa.Scalar) -> int:
    lo, hi = 0, len(ids)
    while lo < hi:
        middle = (lo + hi) // 2
        if pc.less(ids[middle], split).as_py():
            lo = middle + 1
        else:
            hi = middle
    return lo


def read_table(path: str) -> pa.Table:
    """A table, memory-mapped."""
    return feather.read_table(path, memory_map=True)
