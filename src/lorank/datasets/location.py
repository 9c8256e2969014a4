"""Where the data files are: the one module that looks for them and, if asked, downloads them.

No data comes with lorank. Files are looked for in the `folder` a loader is given, else in the folder that the
environment variable `LORANK_DATA` names, else in the user's cache folder (`~/.cache/lorank` on Linux).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lorank.errors import InputError
from lorank.files import cache_folder

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class Source:
    """A public dataset: what its files are called and where they are published.

    Parameters
    ----------
    title : what people call it.
    files : glob patterns below the data folder, the preferred one first.
    home : the public page to get it from.
    url, checksum : for a dataset whose licence lets its user download it without signing; the checksum is
        "algorithm:digest", because a file that changed silently would change results silently.
    """

    title: str
    files: tuple[str, ...]
    home: str
    url: str | None = None
    checksum: str | None = None


def data_folder(folder: Folder | None = None) -> Path:
    """The folder to look in: `folder`, else `LORANK_DATA`, else the user's cache."""
    named = folder or os.environ.get("LORANK_DATA")
    if named:
        path = Path(named).expanduser()
        if not path.is_dir():
            origin = "folder=" if folder else "LORANK_DATA"
            raise InputError(f"The data folder {path} (from {origin}) does not exist; create it or name another.")
        return path
    return cache_folder()


def find_all(source: Source, folder: Folder | None = None, fetch: bool = False) -> list[Path]:
    """The files of the first pattern that matches any, sorted; downloaded if none is there and `fetch`."""
    base = data_folder(folder)
    for pattern in source.files:
        if found := sorted(base.glob(pattern)):
            return found
    if fetch and source.url:
        return [_fetch(source, base)]
    hint = "; or pass fetch=True to download it" if source.url else ""
    raise InputError(
        f"{source.title} is not in {base}: get {' or '.join(source.files)} from {source.home} and put it "
        f"there, or say where it is by folder= or the environment variable LORANK_DATA{hint}."
    )


def find(source: Source, folder: Folder | None = None, fetch: bool = False) -> Path:
    """The file of a source; the last by name (the newest version) where several match."""
    return find_all(source, folder, fetch)[-1]


def _fetch(source: Source, base: Path) -> Path:
    try:
        import pooch
    except ImportError:
        raise InputError(
            f"Downloading {source.title} needs pooch: install lorank[data], or get it from {source.home}."
        ) from None
    assert source.url is not None
    name = source.url.rsplit("/", 1)[-1]
    # A bare `ratings.dat` says nothing of its origin: it goes in the folder that the patterns name.
    directory = next((Path(p).parent for p in source.files if Path(p).name == name), Path("."))
    return Path(pooch.retrieve(source.url, known_hash=source.checksum, fname=name, path=base / directory))
