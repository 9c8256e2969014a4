"""A model as a folder of shards, written and opened.

manifest.json names the shards; each has up to SHARD lines: a padded factor and the ids, sorted, and for rows the
columns that were seen, as .npy files that are memory-mapped. Nothing in it is code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorank.distributed.parts import Part
from lorank.distributed.seen import write_seen
from lorank.distributed.sharded import ShardedModel
from lorank.errors import InputError
from lorank.files import replacing_folder

if TYPE_CHECKING:
    from lorank.distributed.model import DistributedModel

FORMAT = "lorank shards 1"
MANIFEST = "manifest.json"
# Lines in a shard: 24 MB of factors at rank 20.
SHARD = 1 << 17


def save_shards(
    model: DistributedModel,
    folder: str | Path,
    sides: Mapping[str, Sequence[Part]] | None = None,
    shard: int = SHARD,
) -> None:
    """Write the model beside its place, then put it there: an older model stays until the new one is whole.

    With the blocks that it was fitted on, `sides`, it also keeps which columns were seen in each row.
    """
    folder = Path(folder)
    check_target(folder)
    with replacing_folder(folder) as beside:
        factors, result = model.result.factors, model.result
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "k": factors.k,
            "biased": factors.biased,
            "offset": float(factors.offset),
            "method": model.method,
            "setting": vars(model.setting),
            "mean": model.mean,
            "entries": model.entries,
            "columns": list(model.columns),
            "seen": sides is not None,
            "objective": float(result.objective),
            "status": result.status.name,
            "message": result.message,
            "n_iter": result.n_iter,
            "seconds": result.seconds,
        }
        for side, padded, ids in (("row", factors.left, model.row_ids), ("col", factors.right, model.col_ids)):
            values = ids.values
            if values.dtype.kind not in "iuUfM":
                raise InputError(f"Ids of type {values.dtype} cannot be kept in shards; use numbers, dates or text.")
            manifest[side] = {"lines": len(padded), "shard": shard, "text": values.dtype.kind == "U"}
            for number, lo in enumerate(range(0, len(padded), shard)):
                part = values[lo : lo + shard]
                # UTF-8 sorts as its text does, and takes a quarter of numpy's four bytes a letter.
                part = np.char.encode(part, "utf-8") if part.dtype.kind == "U" else part
                np.save(beside / f"{side}-{number}.npy", padded[lo : lo + shard])
                np.save(beside / f"{side}-ids-{number}.npy", part)
        if sides is not None:
            write_seen(sides, beside, model.shape[0], shard)
        (beside / MANIFEST).write_text(json.dumps(manifest))


def check_target(folder: Path) -> None:
    """Refuse to replace a folder that is not a model."""
    if folder.exists() and not is_shards(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a lorank model; choose another name.")


def is_shards(folder: str | Path) -> bool:
    """Whether a path is a folder of shards."""
    return (Path(folder) / MANIFEST).is_file()


def open_shards(folder: str | Path) -> ShardedModel:
    """The model in a folder of shards; nothing is read yet but its manifest."""
    folder = Path(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        raise InputError(f"{folder} is not a folder of model shards, or its manifest is damaged.") from None
    if manifest.get("format") != FORMAT:
        raise InputError(f"{folder} has the format {manifest.get('format')!r}; this lorank reads {FORMAT!r}.")
    return ShardedModel(folder, manifest)
