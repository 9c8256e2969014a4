"""A model as a folder of shards, written and opened; what is asked of it is read from there, and nothing more.

manifest.json describes the model and names the shards; each has up to SHARD lines: a padded factor and the ids, and for
rows the columns that were seen and the values there, as .npy files that are memory-mapped. Nothing in it is code.
Format 1 is read as well: it has no values of what was seen, no calibration and no side information.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import replacing_folder
from lorank.kernels import unlocked
from lorank.linalg import padded_width
from lorank.models.contents import Contents
from lorank.models.description import describe, fields_of, outcome_of
from lorank.models.packing import exact_type
from lorank.models.sharded import ShardedArray, ShardedFactors, ShardedIdentifiers, UnknownValues
from lorank.observations import Lines, Observations
from lorank.observations.identifiers import Identifiers
from lorank.solvers import Result
from lorank.types import Array

FORMAT, FIRST_FORMAT = "lorank shards 2", "lorank shards 1"
MANIFEST = "manifest.json"
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
    if model.posterior is not None:
        raise InputError("A model that was sampled is saved as one file: shards have no room for its draws.")
    folder = Path(folder)
    check_target(folder)
    if seen is None and data and model.observations is not None:
        lines = model.observations.by_row
        seen = lambda: _blocks(lines, shard)  # noqa: E731
    with replacing_folder(folder) as beside:
        arrays: dict[str, Array] = {}
        manifest = describe(model, arrays)
        for name, array in arrays.items():
            np.save(beside / f"{name}.npy", array)
        factors = model.factors
        manifest |= {
            "format": FORMAT,
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
        manifest["seen"] = None
        if seen is not None:
            manifest |= _write_seen(seen, beside, model.shape[0], shard)
        (beside / MANIFEST).write_text(json.dumps(manifest))


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
    kind = ids.values.dtype.kind
    if kind not in "iuUfM":
        raise InputError(f"Ids of type {ids.values.dtype} cannot be kept in shards; use numbers, dates or text.")
    before: Any = None
    ascending = True
    for number, lo in enumerate(range(0, len(ids), shard)):
        part = _encoded(ids.values[lo : lo + shard])
        np.save(folder / f"{side}-ids-{number}.npy", part)
        ascending &= bool((part[1:] > part[:-1]).all()) and (before is None or bool(before < part[0]))
        before = part[-1]
    if not ascending:
        values = np.asarray(ids.values)
        places = np.argsort(values, kind="stable")
        for number, lo in enumerate(range(0, len(ids), shard)):
            own = places[lo : lo + shard]
            np.save(folder / f"{side}-sorted-{number}.npy", _encoded(values[own]))
            np.save(folder / f"{side}-places-{number}.npy", own)
    return {"ids": True, "text": kind == "U", "ascending": ascending}


def _encoded(ids: Array) -> Array:
    """Text as UTF-8, which sorts as its text does, and takes a quarter of numpy's four bytes a letter."""
    return np.char.encode(ids, "utf-8") if ids.dtype.kind == "U" else ids


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
        files.append([np.lib.format.open_memmap(path, "w+", kind, shape) for path, kind in paths.items()])
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


def check_target(folder: Path) -> None:
    """Refuse to replace a folder that is not a model."""
    if folder.exists() and not is_shards(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a lorank model; choose another name.")


def is_shards(folder: str | Path) -> bool:
    """Whether a path is a folder of shards."""
    return (Path(folder) / MANIFEST).is_file()


def read(folder: str | Path) -> Contents:
    """The contents of the model in a folder of shards; nothing is read yet but its manifest."""
    folder = Path(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        written = manifest.get("format")
    except (OSError, ValueError, AttributeError, RecursionError):
        raise InputError(f"{folder} is not a folder of model shards, or its manifest is damaged.") from None
    if written not in (FORMAT, FIRST_FORMAT):
        raise InputError(f"{folder} has the format {written!r}; this lorank reads {FORMAT!r}.")
    try:
        return _build(folder, _current(manifest, folder) if written == FIRST_FORMAT else manifest)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise InputError(f"{folder} is not a model that can be used: {' '.join(str(error).split())[:200]}.") from None


def _build(folder: Path, manifest: dict[str, Any]) -> Contents:
    k, biased = int(manifest["k"]), bool(manifest["biased"])
    left, right = (_factor(folder, side, manifest) for side in ("row", "col"))
    factors = ShardedFactors(left, right, k, biased, float(manifest["offset"]))
    ids = [_ids(folder, side, manifest[side]) for side in ("row", "col")]
    arrays = {str(name): _read(folder, f"{name}.npy") for name in manifest["arrays"]}
    seen, totals = None, manifest["seen"]
    if totals is not None:
        cuts = np.concatenate([[0], np.cumsum(totals, dtype=np.int64)])

        def stored(name: str) -> Any:
            return ShardedArray(cuts, lambda s: _read(folder, f"{name}-{s}.npy")[: totals[s]])

        values = stored("seen-values")
        if not manifest.get("values", True):
            values = UnknownValues(int(cuts[-1]), factors.dtype)
        weights = stored("seen-weights") if manifest.get("weights") else None
        lines = Lines(_pointers(folder, manifest["row"], cuts), stored("seen"), values, weights)
        seen = Observations(factors.shape, lines, *ids)
    return Contents(
        result=Result(factors, **outcome_of(manifest)),
        row_ids=ids[0],
        col_ids=ids[1],
        observations=seen,
        sigma=None if manifest["sigma"] is None else np.array(manifest["sigma"], float),
        **fields_of(manifest, arrays, factors.shape),
    )


def _current(manifest: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The manifest of a folder of format 1 as it would be written now."""
    setting = manifest["setting"]
    params = {"method": manifest["method"], **setting, "dtype": str(_read(folder, "row-0.npy").dtype)}
    totals = None
    if manifest["seen"]:
        rows = manifest["row"]
        shards = range(-(-rows["lines"] // rows["shard"]))
        totals = [int(_read(folder, f"seen-ends-{number}.npy")[-1]) for number in shards]
    result = {name: manifest[name] for name in ("objective", "status", "message", "n_iter", "seconds")}
    sides = {side: {"ids": True, "ascending": True, **manifest[side]} for side in ("row", "col")}
    unknown = dict.fromkeys(("range", "calibration", "sigma"))
    empty = {"parameters": {}, "objects": {}, "lost": {}, "trials": (), "history": {}, "arrays": [], "values": False}
    return {**manifest, **unknown, **empty, **sides, "params": params, "result": result, "seen": totals}


def _factor(folder: Path, side: str, manifest: dict[str, Any]) -> Any:
    width = padded_width(int(manifest["k"]))

    def read(number: int) -> Array:
        lines = _read(folder, f"{side}-{number}.npy")
        # Compiled code trusts these shapes.
        if lines.shape != (array.ends[number + 1] - array.ends[number], width) or lines.dtype.kind != "f":
            raise InputError(f"The shard {folder / f'{side}-{number}.npy'} is damaged; save the model again.")
        return lines

    array = ShardedArray(_ends(manifest[side]), read)
    return array


def _ids(folder: Path, side: str, about: dict[str, Any]) -> Identifiers | None:
    if not about["ids"]:
        return None
    ends = _ends(about)

    def stored(what: str, convert: Callable[[Array], Array] | None = None) -> ShardedArray:
        return ShardedArray(ends, lambda number: _read(folder, f"{side}-{what}-{number}.npy"), convert)

    values = stored("ids", _decoded)
    if about["ascending"]:
        return ShardedIdentifiers(values, stored("ids"))
    return ShardedIdentifiers(values, stored("sorted"), stored("places"))


def _pointers(folder: Path, rows: dict[str, Any], cuts: Array) -> Any:
    """Where the entries of each row begin, and where the last ones end."""
    ends = _ends(rows)
    last = ends.size - 2

    def read(number: int) -> Array:
        own = _read(folder, f"seen-ends-{number}.npy")
        return (own if number == last else own[:-1]) + cuts[number]

    return ShardedArray(ends + (np.arange(ends.size) > last), read)


def _ends(about: dict[str, Any]) -> Array:
    lines, shard = int(about["lines"]), int(about["shard"])
    return np.minimum(np.arange(-(-lines // shard) + 1) * shard, lines)


def _read(folder: Path, name: str) -> Array:
    try:
        return unlocked(np.load(folder / name, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError):
        raise InputError(f"The shard {folder / name} is gone or damaged; save the model again.") from None
