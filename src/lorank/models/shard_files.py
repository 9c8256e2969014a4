"""The files of a folder of shards: what belongs to it, and every file checked before it is used.

A folder can be cut off, damaged, or made to do harm, and compiled code trusts the arrays it is given. So the manifest
holds size and SHA-256 of every other file, and a checksum of itself. Folders of formats 1 and 2 have neither: there the
arrays are checked for what they have to be, as they are in all formats.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import remote, sha256, url_of
from lorank.kernels import unlocked
from lorank.types import Array

MANIFEST = "manifest.json"
# Names of the files in folders of older formats, besides the arrays that the manifest names.
_SHARD = re.compile(r"((row|col)(-ids|-sorted|-places)?|seen(-ends|-values)?)-[0-9]+\.npy")
FORMAT, OLDER = "lorank shards 3", ("lorank shards 1", "lorank shards 2")
# The same with shards of unequal size, whose ends the manifest has; since 5 the calibration may be in shards too.
UNEQUAL_FORMAT = "lorank shards 5"
# With the draws of a posterior.
SAMPLED_FORMAT = "lorank shards 6"
# And with what features say of lines in each draw, by which new ones are folded in.
FEATURED_FORMAT = "lorank shards 7"
CHECKED = (FORMAT, "lorank shards 4", UNEQUAL_FORMAT, SAMPLED_FORMAT, FEATURED_FORMAT)


def is_shards(folder: str | Path) -> bool:
    """Whether a path is a folder of shards."""
    manifest = Path(folder) / MANIFEST
    return manifest.is_file() if (url := url_of(manifest)) is None else remote.kind(url) == "file"


def check_target(folder: Path) -> None:
    """Refuse to replace what is not a folder of shards beyond doubt: its manifest is ours, and no other file is there.

    An empty folder may be replaced too.
    """
    url = url_of(folder)
    if url is None:
        there, is_dir = os.path.lexists(folder), folder.is_dir()
        names = [path.name for path in folder.iterdir()] if is_dir else []
    else:
        there, is_dir = (found := remote.kind(url)) != "nothing", found == "folder"
        names = [name.removeprefix(f"{url}/") for name in remote.files_below(url)] if is_dir else []
    if not there or (is_dir and not names):
        return
    try:
        manifest = read_manifest(folder)
    except InputError:
        raise InputError(f"{url or folder} exists and is not a lorank model; choose another name.") from None
    for name in names:
        strange = url is None and (not (folder / name).is_file() or (folder / name).is_symlink())
        if strange or not _belongs(name, manifest):
            raise InputError(
                f"{url or folder} holds a model and also {name}, which is not part of it; "
                "move that elsewhere, or choose another name."
            )


def _belongs(name: str, manifest: Mapping[str, Any]) -> bool:
    """Whether a file of this name is part of the folder that the manifest describes."""
    if "files" in manifest:
        return name in (MANIFEST, *manifest["files"])
    return name == MANIFEST or name.removesuffix(".npy") in manifest["arrays"] or _SHARD.fullmatch(name) is not None


def write_manifest(folder: Path, manifest: dict[str, Any], known: Mapping[str, list[Any]] | None = None) -> None:
    """Write the manifest, last of all: with size and checksum of what is in the folder, and its own.

    Size and checksum of some files may be known to whoever wrote them.
    """
    known = known or {}
    files = {
        path.name: known.get(path.name) or [path.stat().st_size, _sha256(path)] for path in sorted(folder.iterdir())
    }
    manifest = {"format": FORMAT, **manifest, "files": files}
    (folder / MANIFEST).write_text(json.dumps({**manifest, "checksum": _checksum(manifest)}))


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of any format that is read."""
    try:
        url = url_of(folder / MANIFEST)
        manifest = json.loads((folder / MANIFEST).read_bytes() if url is None else remote.read_bytes(url))
        written = manifest.get("format")
        if written in CHECKED:
            whole = manifest.pop("checksum", None) == _checksum(manifest) and isinstance(manifest["files"], dict)
        elif written in OLDER:
            manifest.pop("files", None)
            manifest["arrays"] = [str(name) for name in manifest.get("arrays", ())]
            whole = {"row", "col", "seen", "setting"} <= manifest.keys()
    except (OSError, ValueError, AttributeError, RecursionError, KeyError, TypeError, ZeroDivisionError, OverflowError):
        raise InputError(f"{folder} is not a folder of model shards, or its manifest is damaged.") from None
    if written not in (*CHECKED, *OLDER):
        raise InputError(f"{folder} has the format {written!r}; this lorank reads {FORMAT!r}.")
    if not whole:
        raise InputError(f"The manifest of {folder} is damaged: its checksum is wrong; save the model again.")
    return dict(manifest)


def _checksum(manifest: Mapping[str, Any]) -> str:
    return sha256(json.dumps(manifest, sort_keys=True).encode())


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ShardFolder:
    """Opens the arrays of a folder, memory-mapped; each is checked when it is opened first, and after a change."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        self.folder = folder
        self._files: Mapping[str, Any] | None = manifest.get("files")
        # Size and time of change of files that were found to be good.
        self._good: dict[str, tuple[int, int]] = {}
        # Of a folder in a store, the files that were needed so far; gone with this object.
        self._copies: Path | None = None
        if url_of(folder) is not None:
            self._copies = Path(tempfile.mkdtemp(prefix="lorank-"))
            weakref.finalize(self, shutil.rmtree, self._copies, ignore_errors=True)

    def open(self, name: str, fits: Callable[[Array], Any] | None = None) -> Array:
        """An array, if it is what was written and `fits`."""
        path = self._fetched(name)
        try:
            about = path.stat()
            known = self._good.get(name) == (about.st_size, about.st_mtime_ns)
            if not known and not self._is_as_written(path, about.st_size):
                raise ValueError
            array = unlocked(np.load(os.fspath(path), mmap_mode="r", allow_pickle=False))
            if not isinstance(array, np.ndarray) or array.dtype.hasobject or not array.dtype.isnative:
                raise ValueError
            if not known and fits is not None and not fits(array):
                raise ValueError
        except FileNotFoundError:
            raise InputError(f"The shard {path} is gone; save the model again.") from None
        except (OSError, ValueError, EOFError, SyntaxError, TypeError, OverflowError, MemoryError, RecursionError):
            raise InputError(f"The shard {path} is damaged; save the model again.") from None
        if fits is not None:
            self._good[name] = (about.st_size, about.st_mtime_ns)
        return array

    def _fetched(self, name: str) -> Path:
        """A file of the folder, copied here first if it is in a store."""
        url = url_of(self.folder / name)
        if url is None or self._copies is None:
            return self.folder / name
        if Path(name).name != name:  # leads elsewhere
            raise InputError(f"The shard {url} is damaged; save the model again.")
        copy = self._copies / name
        if not copy.exists():
            remote.download(url, copy.with_suffix(".part"))
            os.replace(copy.with_suffix(".part"), copy)
        return copy

    def _is_as_written(self, path: Path, size: int) -> bool:
        if self._files is None:
            # A name that leads elsewhere is none of ours.
            return path.parent == (self._copies or self.folder)
        return path.name in self._files and [size, _sha256(path)] == list(self._files[path.name])


def finite(array: Array) -> bool:
    """Whether all numbers are finite, block by block: a mapped file need not fit into memory."""
    return all(np.isfinite(array[at : at + (1 << 16)]).all() for at in range(0, len(array), 1 << 16))


def within(array: Array, size: int) -> bool:
    """Whether an array holds positions from 0 to size - 1."""
    return array.dtype.kind in "iu" and (not array.size or bool(array.min() >= 0 and array.max() < size))
