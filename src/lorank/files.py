"""Files: compressed or not when read, whole or not at all when written, checksums, and the cache folder."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import secrets
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import platformdirs

from lorank.errors import InputError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def cache_folder() -> Path:
    """The folder in which this user's system keeps files that can be fetched again; it need not exist yet."""
    return platformdirs.user_cache_path("lorank", appauthor=False)


def kind_of(path: Path) -> str:
    """The suffix that tells the format, without that of a compression: ".csv" of "a.csv.gz" and of a zipped csv."""
    check_exists(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not suffixes:
        return ""
    if suffixes[-1] == ".zip":
        with _zipped(path, path) as archive:
            return Path(_member(archive, path)).suffix.lower()
    if suffixes[-1] in _OPENERS:
        return suffixes[-2] if len(suffixes) > 1 else ""
    return suffixes[-1]


def check_exists(path: Path) -> None:
    """Refuse a path that is not a file."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file is needed.")
    if not path.exists():
        raise InputError(f"There is no file {path}.")


def check_writable(path: Path, folder: bool = False) -> None:
    """Refuse a file (or folder) that cannot be written, before the work that would fill it is done."""
    if path.is_dir() and not folder:
        raise InputError(f"{path} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to put {path.name} in; make it first.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path.parent} is not yours to write in; put {path.name} elsewhere.")


@contextmanager
def open_input(path: Path, advance: Callable[[int], None] | None = None, member: str = "") -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if its name ends in gz, xz, bz2 or zip.

    Parameters
    ----------
    path : the file.
    advance : called with the number of bytes of the file itself that were read since the last call.
    member : of a zip, the name of the file that is meant, in whatever folder of it; without it there must be only one.
    """
    check_exists(path)
    with open(path, "rb") as plain:
        raw: Any = plain if advance is None else _Counted(plain, advance)
        suffix = path.suffix.lower()
        try:
            if suffix == ".zip":
                with _zipped(raw, path) as archive, archive.open(_member(archive, path, member)) as stream:
                    yield stream
            elif suffix in _OPENERS:
                with _OPENERS[suffix](raw, "rb") as stream:
                    yield stream
            else:
                yield raw
        except (EOFError, zipfile.BadZipFile, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path} is damaged or not what its name says ({error}); get it again.") from None


def _zipped(file: Any, path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is damaged or not a zip file ({error}); get it again.") from None


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


@contextmanager
def replacing(path: str | os.PathLike[str], *, sync: bool = True) -> Iterator[Path]:
    """A path to write to, which takes the place of the file at `path` when the block ends well.

    The new file is written beside the old one, under a name that nobody can foresee, forced to the disk and then
    renamed: a crash leaves the old file or the new one, never a part. If anything fails, the disk being full for one,
    the old file stays and nothing is left beside it. Its permissions are kept; of a symbolic link, the file that
    it points to is replaced.

    Parameters
    ----------
    path : the file to write.
    sync : force the content to the disk first. Without it only a crash of the machine, not of the process, may leave
        a damaged file: for files that such a crash makes worthless anyway.

    Raises
    ------
    InputError
        If the system refuses to write; its cause is the OSError.
    """
    target = Path(os.path.realpath(path))
    beside = _beside(target)
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        # Exclusive: a file or link that is there already, whoever made it, is not written to.
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode | stat.S_IWUSR))
        yield beside
        if sync:
            _force_to_disk(beside)
        if mode is not None:
            os.chmod(beside, mode)
        os.replace(beside, target)
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        with suppress(OSError):
            beside.unlink()


@contextmanager
def replacing_folder(path: str | os.PathLike[str], check: Callable[[Path], None]) -> Iterator[Path]:
    """A new folder to write to, which takes the place of the folder at `path` when the block ends well.

    Like `replacing`, but a folder cannot be replaced in one step: the old one is moved aside first, and moved
    back if the new one cannot take its place. `check` refuses to replace what is none of ours; it is called before
    anything is written, and once more before the old folder is moved.
    """
    target = Path(os.path.realpath(path))
    beside, aside = _beside(target), _beside(target)
    check(target)
    try:
        beside.mkdir(parents=True)
        yield beside
        check(target)
        for file in beside.rglob("*"):
            if file.is_file():
                _force_to_disk(file)
        if target.exists():
            os.replace(target, aside)
        try:
            os.replace(beside, target)
        except OSError:
            if aside.exists():
                os.replace(aside, target)
            raise
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        for folder in (beside, aside):
            shutil.rmtree(folder, ignore_errors=True)


def _beside(target: Path) -> Path:
    """A name in the same folder that nobody can foresee, and that no pattern of visible files matches."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")


def reserve(path: Path) -> None:
    """Have the disk keep room for the whole of a file that has its size already; an OSError if there is none."""
    size = path.stat().st_size
    with open(path, "rb+") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
            return
        # Elsewhere what is there is written again, which fills the holes.
        for at in range(0, size, 1 << 20):
            file.seek(at)
            held = file.read(1 << 20)
            file.seek(at)
            file.write(held)


def _force_to_disk(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _refused(path: str | os.PathLike[str], error: OSError) -> InputError:
    return InputError(f"{path} cannot be written ({error.strerror or error}); what was there is as it was.")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, compressed if its name ends in gz, xz or bz2."""
    with replacing(path) as beside:
        opener: Callable[..., Any] = _OPENERS.get(path.suffix.lower(), open)
        with opener(beside, "wb") as file:
            file.write(content)


def crc32(*parts: Any) -> int:
    """CRC-32 of buffers (bytes or contiguous arrays) one after the other: finds damage, not forgery."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


def sha256(*parts: Any) -> str:
    """SHA-256 of buffers (bytes or contiguous arrays) one after the other, in hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
