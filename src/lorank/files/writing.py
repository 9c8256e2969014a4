"""Files out: whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import secrets
import shutil
import stat
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lorank.errors import InputError
from lorank.files import remote

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
# Seconds without a change after which a part is taken as left behind: of a file, and of a folder, which changes only
# when a file is added to it.
STALE, STALE_FOLDER = 3600.0, 86400.0


def check_writable(path: Path, folder: bool = False) -> None:
    """Refuse a file (or folder) that cannot be written, before the work that would fill it is done."""
    if (url := remote.url_of(path)) is not None:
        remote.check_writable(url)
        return
    if path.is_dir() and not folder:
        raise InputError(f"{path} is a folder; give the name of a file.")
    target = Path(os.path.realpath(path))  # of a link, what it points to is written
    for place in (path.parent, target.parent):
        if not place.is_dir():
            raise InputError(f"There is no folder {place} to put {path.name} in; make it first.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{target.parent} is not yours to write in; put {path.name} elsewhere.")
    _check_regular(target, path)


@contextmanager
def replacing(path: str | os.PathLike[str], *, sync: bool = True, over: Path | None = None) -> Iterator[Path]:
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
    over : a file that nobody needs any more, if it is there. It becomes the new one, content and all: to write over
        what the disk and its cache have room for already is quicker than to free that and to find room again.

    Raises
    ------
    InputError
        If the system refuses to write; its cause is the OSError.
    """
    if (url := remote.url_of(path)) is not None:
        try:
            with remote.uploading(url) as beside:
                yield beside
        except OSError as error:
            raise _refused(url, error) from error
        return
    target = Path(os.path.realpath(path))
    _check_regular(target, path)
    beside = _beside(target)
    try:
        if sync:
            _remove_stale(target)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        # Exclusive: a file or link that is there already, whoever made it, is not written to.
        if over is None or not _moved(over, beside):
            mask = 0o666 if mode is None else mode | stat.S_IWUSR
            os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mask))
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
def replacing_folder(path: str | os.PathLike[str], check: Callable[[Path], None], last: str = "") -> Iterator[Path]:
    """A new folder to write to, which takes the place of the folder at `path` when the block ends well.

    Like `replacing`, but a folder cannot be replaced in one step: the old one is moved aside first, and moved
    back if the new one cannot take its place. `check` refuses to replace what is none of ours; it is called before
    anything is written, and once more before the old folder is moved. In a store, the file called `last` is sent last.
    """
    if (url := remote.url_of(path)) is not None:
        try:
            with remote.uploading_folder(url, check, last) as beside:
                yield beside
        except OSError as error:
            raise _refused(url, error) from error
        return
    target = Path(os.path.realpath(path))
    beside, aside = _beside(target), _beside(target)
    check(target)
    try:
        _remove_stale(target)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir(mode=0o777 if mode is None else 0o700)
        yield beside
        check(target)
        for file in beside.rglob("*"):
            if file.is_file():
                _force_to_disk(file)
        if mode is not None:
            os.chmod(beside, mode)
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


def _moved(path: Path, target: Path) -> bool:
    """Whether a file was there to be moved."""
    try:
        os.replace(path, target)
    except FileNotFoundError:
        return False
    return True


def _beside(target: Path) -> Path:
    """A name in the same folder that nobody can foresee, and that no pattern of visible files matches."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")


def _check_regular(target: Path, path: str | os.PathLike[str]) -> None:
    """Refuse to put a file in the place of a pipe, a device or a socket."""
    if os.path.lexists(target) and not target.is_file() and not target.is_dir():
        raise InputError(f"{path} is no regular file, and nothing is put in its place; give the name of a file.")


def _remove_stale(target: Path) -> None:
    """Remove what processes that were killed have left beside a file: parts that nobody has touched for long."""
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            if not (entry.name.startswith(f".{target.name}.") and entry.name.endswith(".part")):
                continue
            about, folder = entry.stat(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
            ours = not hasattr(os, "getuid") or about.st_uid == os.getuid()
            if not ours or entry.is_symlink() or time.time() - about.st_mtime < (STALE_FOLDER if folder else STALE):
                continue
            shutil.rmtree(entry.path, ignore_errors=True) if folder else os.unlink(entry.path)


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


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays as np.savez does, whole or not at all.

    On a full disk NumPy 1.26 leaves its archive open, which prints a traceback when it goes.
    """
    import numpy as np  # commands that write no arrays begin without it

    with replacing(path) as beside, zipfile.ZipFile(beside, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, compressed if its name ends in gz, xz or bz2."""
    with replacing(path) as beside:
        opener: Callable[..., Any] = _OPENERS.get(path.suffix.lower(), open)
        with opener(beside, "wb") as file:
            file.write(content)
