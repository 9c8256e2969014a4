"""Zarr stores, which are folders: what is looked at before one is read, and before one takes the place of another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorank.errors import InputError

# Files that describe a store or an array of it, in formats 2 and 3.
GROUP, ARRAY, MORE = ("zarr.json", ".zgroup"), ("zarr.json", ".zarray"), (".zattrs", ".zmetadata")


def check_codecs(store: Path) -> None:
    """Refuse a store that asks for unpickling, which runs whatever its maker wants."""
    folders = [store, *(entry for entry in store.iterdir() if entry.is_dir())]
    for file in (folder / name for folder in folders for name in {*ARRAY, *MORE}):
        if file.is_file() and any("pickle" in name for name in _codecs(json.loads(file.read_bytes()))):
            raise InputError(f"{store} holds pickled objects, which can run any program; it is not read.")


def check_members(store: Path) -> None:
    """Open what is in a store one by one, so that the first that is damaged is an error.

    All are opened at once later, where an error hides the others until they go, each with a traceback.
    """
    import zarr

    group = zarr.open_group(store, mode="r", use_consolidated=False)
    for entry in sorted(store.iterdir()):
        if any((entry / name).is_file() for name in {*ARRAY, *GROUP}):
            group[entry.name]


def _codecs(content: Any) -> Iterator[str]:
    """What calls itself by "id" or "name" anywhere in a description, as codecs do; attributes are free text."""
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, part in parts:
        if key in ("id", "name") and isinstance(part, str):
            yield part.lower()
        elif key != "attributes":
            yield from _codecs(part)


def check_replaceable(store: Path) -> None:
    """Refuse to put a store in the place of anything but nothing, an empty folder, or a store with nothing beside."""
    if not store.exists():
        return
    if not store.is_dir():
        raise InputError(f"{store} is a file, and a Zarr store is a folder; choose another name.")
    known = {*GROUP, *MORE}
    others = [entry for entry in store.iterdir() if entry.name not in known]
    if others and not any((store / name).is_file() for name in GROUP):
        raise InputError(f"{store} exists and is not a Zarr store; choose another name.")
    for entry in others:
        if not any((entry / name).is_file() for name in {*ARRAY, *GROUP}):
            raise InputError(
                f"{store} is a Zarr store and holds also {entry.name}, which is not part of it; move that elsewhere, "
                "or choose another name."
            )
