"""Files in and out: compressed or not when read, whole or not at all when written."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from lorank.errors import InputError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def kind_of(path: Path) -> str:
    """The suffix that tells the format, without that of a compression: ".csv" of "a.csv.gz" and of a zipped csv."""
    check_exists(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not suffixes:
        return ""
    if suffixes[-1] == ".zip":
        return Path(_only_member(path)).suffix.lower()
    if suffixes[-1] in _OPENERS:
        return suffixes[-2] if len(suffixes) > 1 else ""
    return suffixes[-1]


def check_exists(path: Path) -> None:
    """Refuse a path that is not a file."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file is needed.")
    if not path.exists():
        raise InputError(f"There is no file {path}.")


@contextmanager
def open_input(path: Path, advance: Callable[[int], None] | None = None) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if its name ends in gz, xz, bz2 or zip.

    `advance` is told how many bytes of the file itself have been taken since the last time.
    """
    check_exists(path)
    with open(path, "rb") as plain:
        raw: Any = plain if advance is None else _Counted(plain, advance)
        suffix = path.suffix.lower()
        try:
            if suffix == ".zip":
                with zipfile.ZipFile(raw) as archive, archive.open(_only_member(path)) as member:
                    yield member
            elif suffix in _OPENERS:
                with _OPENERS[suffix](raw, "rb") as unpacked:
                    yield unpacked
            else:
                yield raw
        except (EOFError, zipfile.BadZipFile, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise InputError(f"{path} is damaged or not what its name says ({error}); get it again.") from None


def _only_member(path: Path) -> str:
    """The one file inside a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is not a zip file ({error}).") from None
    if len(names) != 1:
        raise InputError(f"{path} holds {len(names)} files; unpack it and give the one that is meant.")
    return names[0]


class _Counted:
    """A file that tells how far it has been read."""

    def __init__(self, file: IO[bytes], advance: Callable[[int], None]) -> None:
        self._file = file
        self._advance = advance

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._advance(len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` when all is written and on disk.

    If anything fails, the disk being full for one, what was at `path` stays as it was and nothing is left beside it.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); what was there is as it was.") from None
    finally:
        beside.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, compressed if its name ends in gz, xz or bz2."""
    with replacing(path) as beside:
        opener: Callable[..., Any] = _OPENERS.get(path.suffix.lower(), open)
        with opener(beside, "wb") as file:
            file.write(content)


def check_place(path: Path) -> None:
    """Refuse a file that cannot be written for want of a folder, before the work that would fill it is done."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to put {path.name} in; make it first.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path.parent} is not yours to write in; put {path.name} elsewhere.")
