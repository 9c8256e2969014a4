"""A model as a folder of shards: predict and recommend without ever loading all of it.

manifest.json names the shards; each has up to SHARD lines: a padded factor and the ids, sorted, as .npy files that are
memory-mapped. Nothing in it is code.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.distributed.model import DistributedModel
from lorank.distributed.parts import unlocked
from lorank.errors import InputError
from lorank.linalg import Factors

Array = npt.NDArray[Any]

FORMAT = "lorank shards 1"
# Lines in a shard: 24 MB of factors at rank 20.
SHARD = 1 << 17


def save_shards(model: DistributedModel, folder: str | Path, shard: int = SHARD) -> None:
    """Write the model beside its place, then put it there: an older model stays until the new one is whole."""
    folder = Path(folder)
    if folder.exists() and not (folder / "manifest.json").exists():
        raise InputError(f"{folder} exists and is not a lorank model; choose another name.")
    beside = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    beside.mkdir(parents=True)
    try:
        factors = model.result.factors
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "k": factors.k,
            "biased": factors.biased,
            "offset": float(factors.offset),
            "lam": model.lam,
            "objective": float(model.result.objective),
        }
        for side, padded, ids in (("row", factors.left, model.row_ids), ("col", factors.right, model.col_ids)):
            values = ids.values
            if values.dtype.kind not in "iuUf":
                raise InputError(f"Ids of type {values.dtype} cannot be kept in shards; use numbers or text.")
            manifest[side] = {"lines": len(padded), "shard": shard, "text": values.dtype.kind == "U"}
            for number, lo in enumerate(range(0, len(padded), shard)):
                part = values[lo : lo + shard]
                # UTF-8 sorts as its text does, and takes a quarter of numpy's four bytes a letter.
                part = np.char.encode(part, "utf-8") if part.dtype.kind == "U" else part
                np.save(beside / f"{side}-{number}.npy", padded[lo : lo + shard])
                np.save(beside / f"{side}-ids-{number}.npy", part)
        (beside / "manifest.json").write_text(json.dumps(manifest))
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def open_shards(folder: str | Path) -> ShardedModel:
    """The model in a folder of shards; nothing is read yet but its manifest."""
    folder = Path(folder)
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError):
        raise InputError(f"{folder} is not a folder of model shards, or its manifest is damaged.") from None
    if manifest.get("format") != FORMAT:
        raise InputError(f"{folder} has the format {manifest.get('format')!r}; this lorank reads {FORMAT!r}.")
    return ShardedModel(folder, manifest)


class ShardedModel:
    """A model on disk. Only shards that are asked for are mapped, one of each side at a time."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self._ends: dict[str, Array] = {}

    @property
    def shape(self) -> tuple[int, int]:
        return self.manifest["row"]["lines"], self.manifest["col"]["lines"]

    def predict(self, rows: npt.ArrayLike, cols: npt.ArrayLike) -> Array:
        """Entries at (rows_t, cols_t), by id."""
        left, right = self._positions("row", rows), self._positions("col", cols)
        left, right = (np.ascontiguousarray(side) for side in np.broadcast_arrays(left, right))
        first, second = self.manifest["row"]["shard"], self.manifest["col"]["shard"]
        answer: Array | None = None
        owner = left // first * self._count("col") + right // second
        for which in np.unique(owner):
            chosen = np.flatnonzero(owner == which)
            a, b = divmod(int(which), self._count("col"))
            factors = self._factors(a, b)
            found = factors.predict(left[chosen] - a * first, right[chosen] - b * second)
            if answer is None:
                answer = np.empty(left.size, found.dtype)
            answer[chosen] = found
        return np.empty(0) if answer is None else answer

    def recommend_all(self, count: int = 10, rows: int = 1024) -> Iterator[tuple[Array, Array, Array]]:
        """For every row its `count` columns of highest prediction: (row ids, column ids, predictions), some rows at a
        time. Holds rows x (a shard of columns) predictions and no more."""
        n = self.shape[1]
        count = min(count, n)
        for a in range(self._count("row")):
            left, names = self._factors(a, 0).left, self._ids("row", a)
            for lo in range(0, len(left), rows):
                block = np.ascontiguousarray(left[lo : lo + rows])
                yield _named(names[lo : lo + rows]), *self._best(block, count)

    def _best(self, block: Array, count: int) -> tuple[Array, Array]:
        scores = np.full((len(block), 0), 0, block.dtype)
        places = np.zeros((len(block), 0), np.int64)
        width = self.manifest["col"]["shard"]
        for b in range(self._count("col")):
            right = self._factors(0, b).right
            for lo in range(0, len(right), 4096):
                part = Factors(block, right[lo : lo + 4096], self.manifest["k"], self.manifest["biased"])
                both = np.concatenate([scores, _dense(part, self.manifest["offset"])], axis=1)
                here = np.arange(both.shape[1] - scores.shape[1]) + b * width + lo
                found = np.concatenate([places, np.broadcast_to(here, (len(block), here.size))], axis=1)
                # Ties go to the earlier column, however the columns are cut.
                keep = np.argsort(-both, axis=1, kind="stable")[:, :count]
                scores, places = (np.take_along_axis(x, keep, 1) for x in (both, found))
        return self._names("col", places), scores

    def _factors(self, a: int, b: int) -> Factors:
        left, right = self._read(f"row-{a}.npy"), self._read(f"col-{b}.npy")
        return Factors(left, right, self.manifest["k"], self.manifest["biased"], self.manifest["offset"])

    def _count(self, side: str) -> int:
        about = self.manifest[side]
        return int(-(-about["lines"] // about["shard"]))

    def _ids(self, side: str, number: int) -> Array:
        return self._read(f"{side}-ids-{number}.npy")

    def _names(self, side: str, places: Array) -> Array:
        shard = self.manifest[side]["shard"]
        flat = places.ravel()
        parts = {number: _named(np.asarray(self._ids(side, number))) for number in np.unique(flat // shard).tolist()}
        names = np.array([parts[number][at] for number, at in zip((flat // shard).tolist(), (flat % shard).tolist())])
        return names.reshape(places.shape)

    def _positions(self, side: str, names: npt.ArrayLike) -> Array:
        """Places of ids by two bisections: of the shards' first ids, and within the shard."""
        wanted = np.atleast_1d(np.asarray(names))
        if wanted.dtype.kind == "U":
            wanted = np.char.encode(wanted, "utf-8")
        if side not in self._ends:
            self._ends[side] = np.array([self._ids(side, number)[0] for number in range(self._count(side))])
        if (wanted.dtype.kind == "S") != self.manifest[side]["text"]:
            raise InputError(
                f"Ids of {side}s are {'text' if self.manifest[side]['text'] else 'numbers'} in this model."
            )
        shard = np.maximum(np.searchsorted(self._ends[side], wanted, side="right") - 1, 0)
        places = np.empty(wanted.size, np.int64)
        for number in np.unique(shard).tolist():
            ids, chosen = self._ids(side, number), np.flatnonzero(shard == number)
            at = np.minimum(np.searchsorted(ids, wanted[chosen]), len(ids) - 1)
            wrong = np.flatnonzero(ids[at] != wanted[chosen])
            if wrong.size:
                unknown = _named(wanted[chosen][wrong[:1]]).tolist()[0]
                raise InputError(f"Unknown {side} {unknown!r}: it was not in the data that the model was fitted on.")
            places[chosen] = at + number * self.manifest[side]["shard"]
        return places

    def _read(self, name: str) -> Array:
        try:
            return unlocked(np.load(self.folder / name, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError):
            raise InputError(f"The shard {self.folder / name} is gone or damaged; save the model again.") from None


def _dense(factors: Factors, offset: float) -> Array:
    X = factors.W @ factors.H.T
    if factors.biased:
        X += (factors.row_bias + factors.dtype.type(offset))[:, None]
        X += factors.col_bias[None, :]
    return X


def _named(ids: Array) -> Array:
    return np.char.decode(ids, "utf-8") if ids.dtype.kind == "S" else np.asarray(ids)
