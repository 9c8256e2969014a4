"""A model as a folder of shards, written and opened; what is asked of it is read from there, and nothing more.

manifest.json describes the model and names the shards; each has up to SHARD lines: a padded factor and the ids, and for
rows the columns that were seen and the values there, as .npy files that are memory-mapped. Nothing in it is code.
Format 2 is read as well, which has no checksums, and format 1, which also has no values of what was seen, no
calibration and no side information.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError, one_line
from lorank.files import replacing_folder, reserve
from lorank.linalg import padded_width
from lorank.memory import check_memory
from lorank.models.contents import Contents
from lorank.models.description import describe, fields_of, outcome_of
from lorank.models.packing import exact_type, pack_priors
from lorank.models.shard_files import (
    MANIFEST,
    ShardFolder,
    check_target,
    finite,
    is_shards,
    read_manifest,
    within,
    write_manifest,
)
from lorank.models.sharded import ShardedArray, ShardedFactors, ShardedIdentifiers, UnknownValues
from lorank.models.sharded_posterior import laid_out, read_posterior
from lorank.observations import Lines, Observations
from lorank.observations.identifiers import Identifiers
from lorank.solvers import Result
from lorank.types import Array

__all__ = ["MANIFEST", "SHARD", "check_target", "is_shards", "read", "write"]

FIRST_FORMAT = "lorank shards 1"
# Lines in a shard: 24 MB of factors at rank 20.
SHARD = 1 << 17

# Blocks of consecutive rows lo, hi with all of their entries; made anew for each time that they are gone through.
Rows = Callable[[], Iterable[tuple[int, int, Lines]]]


def write(
    model: Contents, folder: str | Path, *, data: bool = True, seen: Rows | None = None, shard: int = SHARD
) -> None:
    """Write a model beside its place, then put it there: an older model stays until the new one is whole.

    Parameters
    ----------
    data : bool
        Keep the entries that the model was fitted on.
    seen : function, optional
        Gives those entries in blocks of rows, for a model that does not hold them itself.
    """
    factors, beside_them, drawn = laid_out(model.factors, model.posterior)
    folder = Path(folder)
    if seen is None and data and model.observations is not None:
        lines = model.observations.by_row
        seen = lambda: _blocks(lines, shard)  # noqa: E731
    with replacing_folder(folder, check_target, MANIFEST) as beside:
        arrays: dict[str, Array] = {}
        manifest = describe(model, arrays)
        if model.posterior is not None:
            pack_priors(model.posterior, arrays)
        for name, array in arrays.items():
            np.save(beside / f"{name}.npy", array)
        manifest |= {
            **drawn,
            "arrays": list(arrays),
            "k": factors.k,
            "biased": factors.biased,
            "offset": float(factors.offset),
            "sigma": model.singular_values.tolist(),
        }
        for side, padded, ids in (("row", factors.left, model.row_ids), ("col", factors.right, model.col_ids)):
            manifest[side] = {"lines": len(padded), "shard": shard, **_write_ids(ids, beside, side, shard)}
            for number, lo in enumerate(range(0, len(padded), shard)):
                np.save(beside / f"{side}-{number}.npy", padded[lo : lo + shard])
                for name, array in beside_them[side].items():
                    np.save(beside / f"{side}-{name}-{number}.npy", array[lo : lo + shard])
        manifest["seen"] = None
        if seen is not None:
            manifest |= _write_seen(seen, beside, model.shape[0], shard)
        write_manifest(beside, manifest)


def _blocks(lines: Lines, size: int) -> Iterator[tuple[int, int, Lines]]:
    """Lines in blocks, which are read one after the other where they are in shards themselves."""
    count = len(lines.pointers) - 1
    for lo in range(0, count, size):
        hi = min(lo + size, count)
        ends = lines.pointers[lo : hi + 1]
        inside = slice(int(ends[0]), int(ends[-1]))
        weights = None if lines.weights is None else lines.weights[inside]
        yield lo, hi, Lines(ends - ends[0], lines.indices[inside], lines.values[inside], weights)


def _write_ids(ids: Identifiers | None, folder: Path, side: str, shard: int) -> dict[str, bool]:
    """The ids by position, and where they do not ascend, the ascending ones too and their positions."""
    if ids is None:
        return {"ids": False}
    kind = ids.kind
    if kind not in "iuUfM":
        raise InputError(f"Ids of type {ids.values.dtype} cannot be kept in shards; use numbers, dates or text.")
    before: Any = None
    ascending = True
    for number, lo in enumerate(range(0, len(ids), shard)):
        part = encoded_ids(ids.values[lo : lo + shard])
        np.save(folder / f"{side}-ids-{number}.npy", part)
        ascending &= bool((part[1:] > part[:-1]).all()) and (before is None or bool(before < part[0]))
        before = part[-1]
    if not ascending:
        values = np.asarray(ids.values)
        places = np.argsort(values, kind="stable")
        for number, lo in enumerate(range(0, len(ids), shard)):
            own = places[lo : lo + shard]
            np.save(folder / f"{side}-sorted-{number}.npy", encoded_ids(values[own]))
            np.save(folder / f"{side}-places-{number}.npy", own)
    return {"ids": True, "text": kind == "U", "ascending": ascending}


def encoded_ids(ids: Array) -> Array:
    """Text as UTF-8, which sorts as its text does, and takes a quarter of numpy's four bytes a letter."""
    if ids.dtype.kind == "U":
        return np.char.encode(ids, "utf-8")
    if ids.dtype.kind != "O":
        return ids
    texts = [text.encode("utf-8", "surrogatepass") for text in ids]
    longest = max(map(len, texts))
    check_memory(2 * longest * len(texts), f"A shard of ids of up to {longest} bytes", "save one file instead")
    if any(text.endswith(b"\0") for text in texts):
        raise InputError("Ids that end in a null character cannot be kept in shards; save one file instead.")
    return np.array(texts)


def _decoded(ids: Array) -> Array:
    return np.char.decode(ids, "utf-8") if ids.dtype.kind == "S" else np.asarray(ids)


def _write_seen(seen: Rows, folder: Path, lines: int, shard: int) -> dict[str, Any]:
    """The entries of each row: for each shard of rows a file of columns, of values, of weights where there are any, and
    one of where rows end.

    The answer has the number of entries in each shard, the least and the largest value, and whether there are weights.
    """
    counts = np.zeros(lines, np.int64)
    kinds: dict[str, np.dtype[Any]] = {}
    extent = [np.inf, -np.inf]
    for lo, hi, own in seen():
        counts[lo:hi] = np.diff(own.pointers)
        kinds["seen"] = own.indices.dtype
        for name, numbers in (("seen-values", own.values), ("seen-weights", own.weights)):
            if numbers is not None:
                kinds[name] = np.promote_types(kinds.get(name, np.float16), exact_type(numbers))
        extent = [min(extent[0], own.values.min(initial=np.inf)), max(extent[1], own.values.max(initial=-np.inf))]
    ends = np.concatenate([[0], np.cumsum(counts)])
    files, totals = [], []
    for number, lo in enumerate(range(0, lines, shard)):
        own_ends = ends[lo : lo + shard + 1] - ends[lo]
        np.save(folder / f"seen-ends-{number}.npy", own_ends)
        totals.append(int(own_ends[-1]))
        # Of a file with no entry nothing could be mapped: it gets one that no row has.
        shape = (max(totals[-1], 1),)
        paths = {folder / f"{name}-{number}.npy": kind for name, kind in kinds.items()}
        files.append([_mapped(path, kind, shape) for path, kind in paths.items()])
    for lo, hi, own in seen():
        for number in range(lo // shard, (hi - 1) // shard + 1):
            first, last = max(lo, number * shard), min(hi, (number + 1) * shard)
            target = slice(*(ends[[first, last]] - ends[number * shard]).tolist())
            source = slice(*own.pointers[[first - lo, last - lo]].tolist())
            for file, numbers in zip(files[number], (own.indices, own.values, own.weights)):
                if numbers is not None:
                    file[target] = numbers[source]
    for file in (file for of_shard in files for file in of_shard):
        file.flush()
    return {"seen": totals, "range": list(map(float, extent)), "weights": "seen-weights" in kinds}


def _mapped(path: Path, kind: Any, shape: tuple[int, ...]) -> Any:
    """A new file as an array. Its room on the disk is reserved: where there is none, a mapped file ends the process."""
    array = np.lib.format.open_memmap(path, "w+", kind, shape)
    reserve(path)
    return array


def read(folder: str | Path) -> Contents:
    """The contents of the model in a folder of shards; nothing is read yet but its manifest."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    files = ShardFolder(folder, manifest)
    try:
        return _build(files, _current(manifest, files) if manifest["format"] == FIRST_FORMAT else manifest)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{folder} is not a model that can be used: {one_line(error)}.") from None


def _build(files: ShardFolder, manifest: dict[str, Any]) -> Contents:
    k, biased = int(manifest["k"]), bool(manifest["biased"])
    kinds: set[np.dtype[Any]] = set()
    left, right = (_factor(files, side, manifest, kinds, side, k) for side in ("row", "col"))
    factors = ShardedFactors(left, right, k, biased, float(manifest["offset"]))
    read = lambda side, name, width: _factor(files, side, manifest, kinds, f"{side}-{name}", width)  # noqa: E731
    ids = [_ids(files, side, manifest[side]) for side in ("row", "col")]
    arrays: dict[str, Any] = {str(name): files.open(f"{name}.npy") for name in manifest["arrays"]}
    posterior = read_posterior(manifest["posterior"], factors, read, arrays) if "posterior" in manifest else None
    if manifest.get("scales"):
        arrays |= {f"calibration.{side}_scale": _scale(files, side, manifest) for side in ("row", "col")}
    seen = None
    if manifest["seen"] is not None:
        totals = [int(total) for total in manifest["seen"]]
        if len(totals) != _ends(manifest["row"]).size - 1:
            raise ValueError("it has not as many shards of entries as of rows")
        seen = Observations((len(left), len(right)), _seen(files, manifest, totals, len(right)), *ids)
    return Contents(
        result=Result(factors, posterior=posterior, **outcome_of(manifest, arrays)),
        row_ids=ids[0],
        col_ids=ids[1],
        observations=seen,
        sigma=None if manifest["sigma"] is None else np.array([float(value) for value in manifest["sigma"]]),
        **fields_of(manifest, arrays, (len(left), len(right))),
    )


def _current(manifest: dict[str, Any], files: ShardFolder) -> dict[str, Any]:
    """The manifest of a folder of format 1 as it would be written now."""
    setting = manifest["setting"]
    params = {"method": manifest["method"], **setting, "dtype": str(files.open("row-0.npy").dtype)}
    totals = None
    if manifest["seen"]:
        rows = manifest["row"]
        shards = range(-(-rows["lines"] // rows["shard"]))
        totals = [int(files.open(f"seen-ends-{number}.npy")[-1]) for number in shards]
    result = {name: manifest[name] for name in ("objective", "status", "message", "n_iter", "seconds")}
    sides = {side: {"ids": True, "ascending": True, **manifest[side]} for side in ("row", "col")}
    unknown = dict.fromkeys(("range", "calibration", "sigma"))
    empty = {"parameters": {}, "objects": {}, "lost": {}, "trials": (), "history": {}, "arrays": [], "values": False}
    return {**manifest, **unknown, **empty, **sides, "params": params, "result": result, "seen": totals}


def _factor(
    files: ShardFolder, side: str, manifest: dict[str, Any], kinds: set[np.dtype[Any]], name: str, k: int
) -> Any:
    """A padded factor of width k in files of this name; `kinds` takes the type of all shards, which is one."""
    width, ends = padded_width(k), _ends(manifest[side])

    def read(number: int) -> Array:
        def fits(lines: Array) -> bool:
            good = lines.shape == (ends[number + 1] - ends[number], width) and lines.flags.c_contiguous
            alike = lines.dtype in (np.float32, np.float64) and kinds | {lines.dtype} == {lines.dtype}
            if good and alike and finite(lines):
                kinds.add(lines.dtype)
                return True
            return False

        return files.open(f"{name}-{number}.npy", fits)

    return ShardedArray(ends, read)


def _scale(files: ShardFolder, side: str, manifest: dict[str, Any]) -> ShardedArray:
    """The calibration's scales of one side; the last shard has that of lines without observations."""
    ends = _ends(manifest[side])
    ends = np.append(ends, ends[-1] + 1)

    def read(number: int) -> Array:
        def fits(own: Array) -> bool:
            return own.shape == (ends[number + 1] - ends[number],) and own.dtype == np.float32 and finite(own)

        return files.open(f"{side}-scale-{number}.npy", fits)

    return ShardedArray(ends, read)


def _ids(files: ShardFolder, side: str, about: dict[str, Any]) -> Identifiers | None:
    if not about["ids"]:
        return None
    ends = _ends(about)

    def stored(what: str, convert: Callable[[Array], Array] | None = None) -> ShardedArray:
        def read(number: int) -> Array:
            def fits(part: Array) -> bool:
                whole = part.shape == (ends[number + 1] - ends[number],) and part.dtype.kind in "iufSM"
                return whole and (what != "places" or within(part, int(ends[-1])))

            return files.open(f"{side}-{what}-{number}.npy", fits)

        return ShardedArray(ends, read, convert)

    values = stored("ids", _decoded)
    if about["ascending"]:
        return ShardedIdentifiers(values, stored("ids"))
    return ShardedIdentifiers(values, stored("sorted"), stored("places"))


def _seen(files: ShardFolder, manifest: dict[str, Any], totals: list[int], columns: int) -> Any:
    """The entries of each row, which a shard of rows has in three files."""
    ends, cuts = _ends(manifest["row"]), np.concatenate([[0], np.cumsum(totals, dtype=np.int64)])
    last = ends.size - 2

    def pointers(number: int) -> Array:
        def fits(own: Array) -> bool:
            rows = ends[number + 1] - ends[number]
            whole = own.dtype == np.int64 and own.shape == (rows + 1,) and own[0] == 0 and own[-1] == totals[number]
            return whole and bool((own[1:] >= own[:-1]).all())

        own = files.open(f"seen-ends-{number}.npy", fits)
        return (own if number == last else own[:-1]) + cuts[number]

    def part(name: str, good: Callable[[Array], bool]) -> Any:
        def read(number: int) -> Array:
            # Of a file with no entry nothing could be mapped: it has one that no row has.
            def fits(own: Array) -> bool:
                return own.shape == (max(totals[number], 1),) and good(own[: totals[number]])

            return files.open(f"{name}-{number}.npy", fits)[: totals[number]]

        return ShardedArray(cuts, read)

    cols = part("seen", lambda own: within(own, columns))
    values = part("seen-values", lambda own: own.dtype.kind == "f" and finite(own))
    if not manifest.get("values", True):
        values = UnknownValues(int(cuts[-1]), np.dtype(manifest["params"]["dtype"]))
    weights = None
    if manifest.get("weights"):
        weights = part("seen-weights", lambda own: own.dtype.kind == "f" and finite(own) and bool((own >= 0).all()))
    starts: Any = ShardedArray(ends + (np.arange(ends.size) > last), pointers)
    return Lines(starts, cols, values, weights)


def _ends(about: dict[str, Any]) -> Array:
    lines = int(about["lines"])
    if "ends" in about:
        ends = np.array(about["ends"], np.int64)
        if ends.ndim != 1 or ends.size < 2 or ends[0] != 0 or ends[-1] != lines or (np.diff(ends) < 1).any():
            raise ValueError("its shards do not follow each other")
        return ends
    shard = int(about["shard"])
    if lines < 1 or shard < 1 or lines > shard << 24:  # no folder has so many files
        raise ValueError("it has no rows or columns, or too many shards of them")
    return np.minimum(np.arange(-(-lines // shard) + 1) * shard, lines)
