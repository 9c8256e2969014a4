"""Files in: compressed or not, named or through a pipe."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from lorank.errors import InputError, one_line
from lorank.files import remote

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
# By what files begin with that have no name.
_COMPRESSIONS = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\0": ".xz", b"BZh": ".bz2", b"PK\x03\x04": ".zip"}
_FORMATS = {
    b"PAR1": ".parquet",
    b"\x93NUMPY": ".npy",
    b"%%MatrixMarket": ".mtx",
    b"\x89HDF": ".nc",
    b"CDF": ".nc",
}
# What the decompressors raise on damaged files: gzip's BadGzipFile and a failing seek of zipfile are OSErrors, a
# method or a password that zipfile does not know is one of the others.
DAMAGED = (
    EOFError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    gzip.BadGzipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)
# The temporary copies of pipes, and what removes them.
_COPIES: ContextVar[tuple[ExitStack, dict[str, Path]] | None] = ContextVar("copies", default=None)


def kind_of(path: Path) -> str:
    """The suffix that tells the format, without that of a compression: ".csv" of "a.csv.gz" and of a zipped csv.

    A pipe has no name: of it the first bytes tell, and "" is text.
    """
    check_exists(path)
    if is_stream(path):
        return _kind_of_stream(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not suffixes:
        return ""
    if suffixes[-1] == ".zip":
        with _zipped(on_disk(path), path) as archive:
            return Path(_member(archive, path)).suffix.lower()
    if suffixes[-1] in _OPENERS:
        return suffixes[-2] if len(suffixes) > 1 else ""
    return suffixes[-1]


def check_exists(path: Path) -> None:
    """Refuse a path that is not a file, a pipe or "-"."""
    if is_stream(path):
        if path.is_char_device() or path.is_block_device():
            raise InputError(
                f"{path} is a device, which may have no end; give a file, a pipe, or - for standard input."
            )
        return
    if (url := remote.url_of(path)) is not None:
        found = remote.kind(url)
        if found != "file":
            raise InputError(f"{url} is a folder; a file is needed." if found == "folder" else f"There is no {url}.")
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file is needed.")
    if not path.exists():
        raise InputError(f"There is no file {path}.")


@contextmanager
def open_input(path: Path, advance: Callable[[int], None] | None = None, member: str = "") -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if its name (of a pipe, its first bytes) says gz, xz, bz2 or zip.

    Parameters
    ----------
    path : the file.
    advance : called with the number of bytes of the file itself that were read since the last call.
    member : of a zip, the name of the file that is meant, in whatever folder of it; without it there must be only one.
    """
    check_exists(path)
    copy = on_disk(path)
    with open(copy, "rb") as plain:
        raw: Any = plain if advance is None else _Counted(plain, advance)
        suffix = _compression(copy) if is_stream(path) else path.suffix.lower()
        try:
            if suffix == ".zip":
                with _zipped(raw, path) as archive, archive.open(_member(archive, path, member)) as stream:
                    yield stream
            elif suffix in _OPENERS:
                with _OPENERS[suffix](raw, "rb") as stream:
                    yield stream
            else:
                yield raw
        except DAMAGED as error:
            reason = one_line(error)
            raise InputError(f"{path} is damaged or not what its name says ({reason}); get it again.") from None


def _zipped(file: Any, path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError) as error:
        raise InputError(f"{path} is damaged or not a zip file ({one_line(error)}); get it again.") from None


def _member(archive: zipfile.ZipFile, path: Path, member: str = "") -> str:
    """The file of this name inside a zip, or the only one."""
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    if member:
        names = [name for name in names if name.rsplit("/", 1)[-1] == member]
        if not names:
            raise InputError(f"{path} holds no file called {member}; get it again.")
    elif len(names) != 1:
        raise InputError(f"{path} holds {len(names)} files; unpack it and give the one that is meant.")
    return names[0]


def is_stream(path: Path) -> bool:
    """Whether a path can be read only once: "-" for standard input, a pipe, or a device."""
    if str(path) == "-":
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def reading_once() -> Iterator[None]:
    """Within this block a pipe is read once, into a temporary file, and whoever opens it again reads that.

    Formats are found out from the first lines, and errors are looked for from the start: a second opening of a pipe
    would go on where the first one ended, and lines would be lost.
    """
    if _COPIES.get() is not None:
        yield
        return
    with ExitStack() as stack:
        token = _COPIES.set((stack, {}))
        try:
            yield
        finally:
            _COPIES.reset(token)


def on_disk(path: Path) -> Path:
    """The file itself, or, of a pipe or a file in a store, the temporary file that it was copied to; inside
    `reading_once`."""
    url = remote.url_of(path)
    if url is None and not is_stream(path):
        return path
    scope = _COPIES.get()
    if scope is None and url is not None:
        raise InputError(f"{url} is in a store; read it by lorank.tables.read, or copy it to a disk.")
    if scope is None:
        raise InputError(f"{path} is a pipe, which can be read only once; read it by lorank.tables.read, or save it.")
    stack, copies = scope
    if str(path) not in copies:
        copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lorank-"))) / "copy"
        if url is not None:
            remote.download(url, copy)
            copies[str(path)] = copy
            return copy
        try:
            source: Any = nullcontext(sys.stdin.buffer) if str(path) == "-" else open(path, "rb")  # noqa: SIM115
            with source as stream, open(copy, "xb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        except OSError as error:
            raise InputError(f"{path} cannot be copied to {copy.parent.parent} ({error.strerror or error}).") from None
        copies[str(path)] = copy
    return copies[str(path)]


def _compression(copy: Path) -> str:
    with open(copy, "rb") as file:
        head = file.read(8)
    return next((suffix for magic, suffix in _COMPRESSIONS.items() if head.startswith(magic)), "")


def _kind_of_stream(path: Path) -> str:
    if _compression(on_disk(path)) == ".zip":
        with _zipped(on_disk(path), path) as archive:
            names = archive.namelist()
            if names and all(name.endswith(".npy") for name in names):
                return ".npz"
            return Path(_member(archive, path)).suffix.lower()
    with open_input(path) as file:
        head = file.read(16)
    return next((suffix for magic, suffix in _FORMATS.items() if head.startswith(magic)), "")


class _Counted:
    """A file that reports how far it has been read."""

    def __init__(self, file: IO[bytes], advance: Callable[[int], None]) -> None:
        self._file = file
        self._advance = advance

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._advance(len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
