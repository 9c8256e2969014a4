"""From Parquet files to parts on disk, in three passes; no process ever holds more than a batch, a part, or the ids
of a file.

1. `scan`, a task for each file: its distinct ids and how often each occurs. They are numbered in ascending order and
   both sides cut into parts (`lorank.distributed.numbering`).
2. `spill`, a task for each file: ids become positions, held-out entries are drawn, and each batch is written twice,
   sorted by row part and by column part.
3. `assemble`, a task for each part: its piece of every batch, sorted into lines.

Tasks write whole files under names of their own, so that a task that was killed can simply be run again. The parts do
not depend on the number of workers or the order of the files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lorank import kernels
from lorank.distributed.ids import Positions, Tally, id_file, write_table
from lorank.distributed.numbering import Map, Numbering, as_ids, number_ids, positions_of, write_part_ids
from lorank.distributed.parts import COLS, HELD_OUT, ROWS, Part, PartFile
from lorank.errors import InputError, printable
from lorank.files import replacing
from lorank.observations import Lines
from lorank.observations.checks import check_lines
from lorank.tables import parquet
from lorank.types import Array

# Names of the columns that hold the row id, the column id, the value, and the weight if there is one.
Columns = tuple[str, str, str] | tuple[str, str, str, str]
# Lines of a table that a task holds at a time.
BATCH = 1 << 18


@dataclass(frozen=True)
class Prepared:
    """What a fit needs of a folder."""

    sides: dict[str, list[Part]]
    # Files of the ids of each part.
    ids: dict[str, list[str]]
    shape: tuple[int, int]
    # What it was made from.
    files: Sequence[str]
    plan: Plan
    # Of each side, the positions of the ids of tables that came along.
    positions: Mapping[str, list[Array]] = field(default_factory=dict)

    def with_held_out(self, run: Map) -> Prepared:
        """The same parts with the entries that were held out among the others: the files are read once more."""
        for part in [part for parts in self.sides.values() for part in parts]:
            os.unlink(part.source.path)  # first, so that no more room is needed than before
        plan = replace(self.plan, held_out=0.0)
        return replace(self, sides=_sides(self.files, plan, (ROWS, COLS), run), plan=plan)

    def rebuild(self, path: str) -> None:
        """Write the file of a part again from the Parquet files, if they give what it was; here, in one process."""
        side, part = next((side, part) for side in self.sides for part in self.sides[side] if part.source.path == path)
        counts = [spill(file, self.plan, number, (side,)) for number, file in enumerate(self.files)]
        made = assemble(side, part.number, self.plan, counts)
        for spilled in _spilled(self.plan, side, counts):
            os.unlink(spilled)
        if made != part.source:
            raise InputError(f"The block {path} is damaged, and its Parquet files have changed; fit again.")


@dataclass(frozen=True)
class Plan:
    """What every spilling task must know."""

    columns: Columns
    folder: str
    ids: dict[str, Numbering]
    cuts: dict[str, Array]
    dtype: str
    held_out: float
    seed: int

    @property
    def index(self) -> str:
        """The type of a position."""
        largest = max(int(ends[-1]) for ends in self.cuts.values())
        return "<i4" if largest <= np.iinfo(np.int32).max else "<i8"

    def record(self, size: int) -> np.dtype[Any]:
        """An entry on its way: its line within the part, the other side's position, value and weight in `size` bytes.

        It is as short as it can be: preparation takes as long as the disk needs to write these.
        """
        longest = max(int(np.diff(ends).max()) for ends in self.cuts.values())
        line = "<u2" if longest <= 1 << 16 else self.index
        numbers = [(name, f"<f{size}") for name in ("value", "weight")[: len(self.columns) - 2]]
        return np.dtype([("line", line), ("other", self.index), *numbers])


def prepare(
    files: Sequence[str],
    columns: Columns,
    folder: Path,
    dtype: str,
    held_out: float,
    seed: int,
    run: Map,
    named: Mapping[str, Sequence[Array]] | None = None,
) -> Prepared:
    """Parts of the training rows, training columns and held-out rows, in `folder`.

    `named` are the ids of tables about a side: those without entries become lines too.
    """
    run(scan, [(path, columns, str(folder), number) for number, path in enumerate(files)])
    ids: dict[str, Numbering] = {}
    positions: dict[str, list[Array]] = {}
    for side in (ROWS, COLS):
        paths = [path for number in range(len(files)) if os.path.exists(path := id_file(folder, side, number))]
        more = [as_ids(own, side, paths[0]) for own in (named or {}).get(side, ()) if paths]
        further = [id_file(folder, side, len(files) + number) for number in range(len(more))]
        for own, path in zip(more, further):
            write_table(pa.table({"id": own, "count": np.zeros(len(own), np.int64)}), path)
        if paths:
            ids[side] = number_ids(folder, side, [*paths, *further], run)
        if not paths or not ids[side].entries:
            raise InputError(f"No value in {Path(files[0]).parent} is known; there is nothing to learn from.")
        positions[side] = [positions_of(own, path, ids[side]) for own, path in zip(more, further)]
    cuts = {side: numbering.cuts for side, numbering in ids.items()}
    cuts[HELD_OUT] = cuts[ROWS]
    plan = Plan(columns, str(folder), ids, cuts, np.dtype(dtype).str, held_out, seed)
    sides = _sides(files, plan, (ROWS, COLS, HELD_OUT) if held_out else (ROWS, COLS), run)
    paths_of = {side: [f"{folder}/ids-{side}-{part.number}.npy" for part in sides[side]] for side in ids}
    for side, numbering in ids.items():
        jobs = [(path, numbering, part.lo, part.hi) for path, part in zip(paths_of[side], sides[side])]
        run(write_part_ids, jobs)
    return Prepared(sides, paths_of, (ids[ROWS].lines, ids[COLS].lines), files, plan, positions)


def _sides(files: Sequence[str], plan: Plan, names: Sequence[str], run: Map) -> dict[str, list[Part]]:
    """The parts of some sides: the second pass and the third."""
    batched = run(spill, [(path, plan, number, names) for number, path in enumerate(files)])
    sides = {}
    for side in names:
        made = run(assemble, [(side, number, plan, batched) for number in range(len(plan.cuts[side]) - 1)])
        ends = plan.cuts[side].tolist()
        sides[side] = [Part(at, lo, hi, made[at].entries, made[at]) for at, (lo, hi) in enumerate(pairwise(ends))]
        for path in _spilled(plan, side, batched):
            os.unlink(path)
    return sides


def scan(path: str, columns: Columns, folder: str, number: int) -> None:
    """Distinct ids of one file and how many known values each has."""
    tallies = {ROWS: Tally(), COLS: Tally()}
    for rows, cols, values, _ in parquet.batches(path, *columns[:3], BATCH):
        tallies[ROWS].add(rows, values)
        tallies[COLS].add(cols, values)
    for side, tally in tallies.items():
        if (found := tally.table()) is not None:
            write_table(found, id_file(folder, side, number))


# What single precision cannot hold is kept in double, or refused later.
@np.errstate(over="ignore")
def spill(path: str, plan: Plan, number: int, sides: Sequence[str]) -> int:
    """Write one file's entries for some sides, each batch sorted by part behind a table of where the parts begin; gives
    the number of batches."""
    written = 0
    found = {side: Positions(id_file(plan.folder, side, number), plan.cuts[side]) for side in (ROWS, COLS)}
    for batch, (rows, cols, values, weights) in enumerate(
        parquet.batches(path, *plan.columns[:3], BATCH, *plan.columns[3:])
    ):
        (i, row_part), (j, col_part) = found[ROWS].of(rows, path), found[COLS].of(cols, path)
        known, held = ~np.isnan(values), drawn(i, j, plan.held_out, plan.seed)
        if weights is not None:
            known &= weights > 0  # nothing is learnt from what weighs nothing
        numbers = [values] if weights is None else [values, weights]
        exact = all((each.astype(np.float32) == each)[known].all() for each in numbers)
        size = 4 if plan.dtype == "<f4" or exact else 8
        kind = plan.record(size)
        for side, line, other, part, chosen in (
            (ROWS, i, j, row_part, known & ~held),
            (COLS, j, i, col_part, known & ~held),
            (HELD_OUT, i, j, row_part, known & held),
        ):
            if side not in sides:
                continue
            records = np.empty(np.count_nonzero(chosen), kind)
            for each, name in zip(numbers, ("value", "weight")):
                starts = np.zeros(plan.cuts[side].size, np.int64)
                fields = records["line"], records["other"], records[name]
                kernels.deal(part, chosen, line, other, each, plan.cuts[side], starts, *fields)
            target = _spill_file(plan, side, number, batch)
            with replacing(target, sync=False) as beside, open(beside, "wb") as file:
                np.append(size, starts).astype("<i8").tofile(file)
                records.tofile(file)
        written = batch + 1
    return written


def drawn(rows: Array, cols: Array, fraction: float, seed: int) -> Array:
    """Which entries are held out: by a hash of position and seed (splitmix64), so that any process can tell."""
    if not fraction:
        return np.zeros(rows.size, bool)
    with np.errstate(over="ignore"):
        z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + cols.astype(np.uint64)
        z += np.uint64(seed) * np.uint64(0xD1B54A32D192ED03)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z < np.uint64(min(int(fraction * 2.0**64), 2**64 - 1))


def _spill_file(plan: Plan, side: str, number: int, batch: int) -> str:
    return f"{plan.folder}/spill-{number}-{batch}-{side.replace(' ', '-')}"


def _spilled(plan: Plan, side: str, counts: Sequence[int]) -> list[str]:
    return [_spill_file(plan, side, number, batch) for number, count in enumerate(counts) for batch in range(count)]


def _piece(path: str, number: int, plan: Plan, side: str) -> Array:
    """One part's entries of one batch. The file begins with the bytes of a value and where the parts begin."""
    head, records = 8 + 8 * plan.cuts[side].size, None
    with open(path, "rb") as file:
        size = np.fromfile(file, "<i8", 1).tolist()
        file.seek(8 + 8 * number)
        ends = np.fromfile(file, "<i8", 2).tolist()
        if size in ([4], [8]) and len(ends) == 2:
            kind, (start, stop) = plan.record(*size), ends
            if 0 <= start <= stop and head + stop * kind.itemsize <= os.path.getsize(path):
                file.seek(head + start * kind.itemsize)
                records = np.fromfile(file, kind, stop - start)
    width = int(plan.cuts[ROWS if side == COLS else COLS][-1])
    lo, hi = plan.cuts[side][number : number + 2]
    if records is None or not (_inside(records["line"], 0, hi - lo) and _inside(records["other"], 0, width)):
        raise InputError(f"The spilled batch {path} is damaged; fit again.")
    return records


def _joined(pieces: Sequence[Array], name: str, kind: str) -> Array:
    """One field of all pieces."""
    return np.concatenate([np.empty(0, kind), *(piece[name] for piece in pieces)], dtype=kind, casting="same_kind")


def _inside(positions: Array, lo: int, hi: int) -> bool:
    return not positions.size or bool(positions.min() >= lo and positions.max() < hi)


def assemble(side: str, number: int, plan: Plan, counts: Sequence[int]) -> PartFile:
    """The lines of one part, from its piece of every batch."""
    try:
        found = [_piece(path, number, plan, side) for path in _spilled(plan, side, counts)]
    except OSError as error:
        raise InputError(f"The spilled batch {error.filename} is gone from the work folder; fit again.") from None
    lo, hi = int(plan.cuts[side][number]), int(plan.cuts[side][number + 1])
    width = int(plan.cuts[ROWS if side == COLS else COLS][-1])
    kinds = {"line": plan.index, "other": plan.index, "value": plan.dtype}
    line, other, value = (_joined(found, name, kind) for name, kind in kinds.items())
    weights = _joined(found, "weight", plan.dtype) if len(plan.columns) > 3 else None
    found.clear()
    # Where there are weights, numbers of the entries are sorted in the place of one of the two.
    carried = value if weights is None else np.arange(value.size)
    line, other, carried = kernels.radix_sort(line, other, carried, width)
    pointers, indices, values = np.zeros(hi - lo + 1, np.int64), np.empty_like(other), np.empty_like(carried)
    kernels.compress(line, other, carried, pointers, indices, values)
    if weights is not None:
        values, weights = value[values], weights[values]
    twice = kernels.first_duplicate(pointers, indices)
    if twice >= 0:
        at = lo + int(np.searchsorted(pointers, twice, side="right")) - 1
        pair = (int(indices[twice]), at) if side == COLS else (at, int(indices[twice]))
        names = [plan.ids[which].id_of(at) for which, at in zip((ROWS, COLS), pair)]
        entry = printable(f"({names[0]}, {names[1]})")
        raise InputError(f"The entry {entry} is given more than once; keep one value for each pair.")
    lines = Lines(pointers, indices, values, weights)
    check_lines(lines.pointers, lines.indices, lines.values, (hi - lo, width), weights)
    return PartFile.write(Path(plan.folder) / f"{side.replace(' ', '-')}-{number}.part", lines, width)
