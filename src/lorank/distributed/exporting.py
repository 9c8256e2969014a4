"""Where the model of a folder ends up: in memory, in one file, or in shards that the owners of the parts write.

In shards each part's factor, ids and entries are files of its own.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lorank.distributed.calibrating import Scales
from lorank.distributed.engines import Engine
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.kept_draws import in_memory, posterior_in_memory
from lorank.distributed.numbering import read_ids
from lorank.distributed.owner import Owner
from lorank.distributed.parts import COLS, HELD_OUT, ROWS, Part, seen_lines
from lorank.distributed.prepare import Prepared
from lorank.files import replacing_folder
from lorank.linalg import Factors
from lorank.memory import check_memory
from lorank.models import Model, shards
from lorank.models.description import describe
from lorank.models.packing import exact_type, pack_priors
from lorank.models.shard_files import MANIFEST, UNEQUAL_FORMAT, check_target, write_manifest
from lorank.models.sharded_posterior import laid_out
from lorank.observations import Lines, Observations
from lorank.types import Array

# How the name of a model that is one file ends; any other name is that of a folder of shards.
ONE_FILE = ".lorank"
NAMES = {ROWS: "row", COLS: "col"}
# Files that were written, with size and SHA-256.
Written = dict[str, list[Any]]


def export(
    engine: Engine,
    model: Model,
    factors: Factors,
    ids: Mapping[str, Sequence[str]],
    scales: Scales | None,
    staged: Path,
    folder: str | Path,
) -> None:
    """Have the shards of a model written to `staged`, a folder that all owners see, and put the model in its place.

    Parameters
    ----------
    model : what is to be said of it; its factors and ids are not looked at.
    ids : files of the ids of each part, by side.
    scales : what its intervals are made of.
    """
    staged.mkdir()
    seen = engine.each(ROWS, seen_extent)
    kind = np.result_type(*(kind for _, _, _, kind, _ in seen)).str
    files: Written = {}
    about: dict[str, Any] = {"k": factors.k, "biased": factors.biased, "offset": float(factors.offset)}
    factors, beside_them, drawn = laid_out(factors, model.posterior)
    factor: Any
    for side, factor in ((ROWS, factors.left), (COLS, factors.right)):
        name = NAMES[side]
        named = {name: factor} | {f"{name}-{what}": own for what, own in beside_them[name].items()}
        args = (named, list(ids[side]), None if scales is None else scales.sides[side], str(staged), kind)
        for written in engine.each(side, write_part, *args):
            files |= written
        text = np.load(ids[side][0], mmap_mode="r").dtype.kind == "S"
        ends = [0, *(hi for _, hi in engine.spans(side))]
        about[NAMES[side]] = {"lines": ends[-1], "ends": ends, "ids": True, "text": text, "ascending": True}
    about["seen"] = [entries for entries, *_ in seen]
    about["range"] = [min(low for _, low, *_ in seen), max(high for _, _, high, *_ in seen)]
    about["weights"] = all(weighted for *_, weighted in seen)
    with replacing_folder(folder, check_target, MANIFEST) as beside:
        arrays: dict[str, Array] = {}
        if scales is not None:
            about |= {"calibration": scales.found.count, "scales": True}
            arrays["calibration.ratios"] = scales.found.ratios.astype(np.float32)
            for side, name in NAMES.items():
                np.save(beside / f"{name}-scale-{len(ids[side])}.npy", scales.unseen[side])
        sigma = None if model.sigma is None else model.sigma.tolist()
        about |= {**describe(model, arrays), **about, "sigma": sigma, "format": UNEQUAL_FORMAT}
        if model.posterior is not None:
            pack_priors(model.posterior, arrays)
        about |= {**drawn, "arrays": list(arrays)}
        for name, array in arrays.items():
            np.save(beside / f"{name}.npy", array)
        for path in staged.iterdir():
            shutil.move(path, beside / path.name)
        write_manifest(beside, about, files)


def placed(
    engine: Engine, model: Model, prepared: Prepared, scales: Scales | None, work: Path, output: str | Path | None
) -> Model:
    """Save a model that is still with the engine, if it is to be saved; the model as it is given back.

    Its factors and ids are read from the folder of shards that was written; if there is none, they are in memory.
    """
    result, ids = model.result, prepared.ids
    if output is not None and Path(output).suffix != ONE_FILE:
        export(engine, model, result.factors, ids, scales, work / "model", output)
        there = shards.read(output)
        result = replace(result, factors=there.factors, posterior=there.posterior)
        model = replace(model, result=result, calibration=there.calibration)
        return replace(model, row_ids=there.row_ids, col_ids=there.col_ids)
    if result.posterior is None:
        result = replace(result, factors=in_memory(engine, result.factors))
    else:
        posterior = posterior_in_memory(engine, result.posterior)
        result = replace(result, factors=posterior.mean, posterior=posterior)
    calibration = None if scales is None else scales.calibration(engine)
    model = replace(model, result=result, calibration=calibration)
    model = replace(model, row_ids=read_ids(ids[ROWS]), col_ids=read_ids(ids[COLS]))
    if output is not None:
        _save_one_file(model, output, prepared.sides)
    return model


def _save_one_file(model: Model, path: str | Path, sides: Mapping[str, Sequence[Part]]) -> None:
    """Save a model with the blocks that it was fitted on, as one file."""
    size = model.entries * (model.factors.dtype.itemsize + 4)
    check_memory(3 * size, f"{model.entries} entries in one file", "save a folder of shards instead")
    pieces = [piece for _, _, piece in seen_lines(sides[ROWS], sides.get(HELD_OUT))]
    counts = np.concatenate([np.diff(piece.pointers) for piece in pieces])
    names = ("indices", "values") if pieces[0].weights is None else ("indices", "values", "weights")
    indices, values, *weights = (np.concatenate([getattr(piece, part) for piece in pieces]) for part in names)
    lines = Lines(np.concatenate([[0], np.cumsum(counts)]), indices, values, *weights)
    seen = Observations(model.shape, lines, model.row_ids, model.col_ids)
    replace(model, observations=seen, range=(float(values.min()), float(values.max()))).save(path)


def seen_extent(owner: Owner, side: str) -> Iterator[tuple[int, tuple[int, float, float, str, bool]]]:
    """How many entries each part of the rows has, the least and the largest, the type that holds them exactly, and
    whether they have weights."""
    for number in owner.sides[side]:
        lines = _seen(owner, number)
        low, high = lines.values.min(initial=np.inf), lines.values.max(initial=-np.inf)
        yield (
            number,
            (lines.values.size, float(low), float(high), exact_type(lines.values).str, lines.weights is not None),
        )


def write_part(
    owner: Owner,
    side: str,
    named: Mapping[str, FactorShards],
    ids: Sequence[str],
    scale: FactorShards | None,
    folder: str,
    kind: str,
) -> Iterator[tuple[int, Written]]:
    """The files of each part: factors by name, scales, ids, and what was seen in rows."""
    name = NAMES[side]
    for number in owner.sides[side]:
        written: Written = {}

        def save(what: str, array: Array, number: int = number, written: Written = written) -> None:
            path = Path(folder) / f"{what}-{number}.npy"
            np.save(path, array)
            written[path.name] = _facts(path)

        for what, factor in named.items():
            save(what, owner.shard(factor, number))
        if scale is not None:
            save(f"{name}-scale", owner.shard(scale, number)[:, 0])
        copy = Path(folder) / f"{name}-ids-{number}.npy"
        shutil.copyfile(ids[number], copy)
        written[copy.name] = _facts(copy)
        if side == ROWS:
            lines = _seen(owner, number)
            # Of a file with no entry nothing could be mapped: it gets one that no row has.
            empty = not lines.values.size
            save("seen-ends", np.asarray(lines.pointers, np.int64))
            save("seen", np.zeros(1, lines.indices.dtype) if empty else lines.indices)
            save("seen-values", np.zeros(1, kind) if empty else lines.values.astype(kind))
            if lines.weights is not None:
                save("seen-weights", np.zeros(1, lines.weights.dtype) if empty else lines.weights)
        yield number, written


def _seen(owner: Owner, number: int) -> Lines:
    """The rows of a part with all of their entries, held-out ones among them."""
    held = owner.sides.get(HELD_OUT)
    ((_, _, lines),) = seen_lines([owner.sides[ROWS][number]], None if held is None else [held[number]])
    return lines


def _facts(path: Path) -> list[Any]:
    with open(path, "rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]
