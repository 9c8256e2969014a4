"""Files in object stores, by their address: s3://, gs://, abfs:// through pyarrow, hf:// through huggingface_hub.

Nothing can be mapped or changed in place there. So what is read is copied to a temporary file first (Parquet is read
where it lies), and what is written is written to a temporary file and sent when it is whole: a store shows an object
when its last byte has arrived, not before. Who we are, and where the store is, the store's own environment variables
say, such as AWS_ACCESS_KEY_ID, AWS_REGION and AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from lorank.errors import InputError, one_line

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hf")
# Words in the errors of stores, and what they mean to a user.
_REASONS = {
    "NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound": "there is no such bucket",
    "ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|InvalidAccessKey|SIGNATURE_DOES|UNRECOGNIZED_CLIENT|[Ee]xpiredToken|"
    "EXPIRED_TOKEN|INVALID_CLIENT_TOKEN|Unauthorized|Forbidden|HTTP response code: 40[13]|PERMISSION_DENIED": (
        "access is denied; give credentials that may do this, for S3 by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    ),
    "NETWORK_CONNECTION|[Cc]ould not connect|resolve host": (
        "the store does not answer; look at the network and, for S3, at AWS_ENDPOINT_URL"
    ),
}


def url_of(path: str | os.PathLike[str]) -> str | None:
    """The address of a file in an object store, of whose two slashes pathlib has made one; None of any other path."""
    scheme, colon, rest = os.fspath(path).partition(":/")
    return f"{scheme}://{rest.strip('/')}" if colon and scheme in SCHEMES else None


def refuse(path: str | os.PathLike[str], what: str) -> None:
    """Refuse an address for what is mapped, locked, or looked at again and again."""
    if (url := url_of(path)) is not None:
        raise InputError(f"{what} must be on a disk of this machine, not at {url}; name a local path.")


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, here or in a store."""
    return path.is_dir() if (url := url_of(path)) is None else kind(url) == "folder"


def kind(url: str) -> str:
    """What is at an address: "file", "folder" or "nothing"."""
    with _asking(url, "read") as (store, place):
        return str({2: "file", 3: "folder"}.get(int(store.get_file_info(place).type), "nothing"))


def files_below(url: str) -> list[str]:
    """The addresses of all files in a folder, in the order of their names."""
    return sorted(address for address, _ in _below(url))


def size(url: str) -> int:
    """Bytes of a file, or of all files in a folder."""
    if kind(url) == "folder":
        return sum(bytes_ for _, bytes_ in _below(url))
    with _asking(url, "read") as (store, place):
        return int(store.get_file_info(place).size or 0)


def open_file(url: str) -> Any:
    """A file of pyarrow, of which what is asked for is fetched."""
    with _asking(url, "read") as (store, place):
        return store.open_input_file(place)


def read_bytes(url: str) -> bytes:
    """The content of a small file."""
    with _asking(url, "read") as (store, place), store.open_input_stream(place) as file:
        content: bytes = file.read()
        return content


def download(url: str, target: Path) -> None:
    """Copy a file to this machine."""
    with _asking(url, "read") as (store, place):
        from pyarrow import fs

        # Compiled, so that Ctrl-C comes after it.
        fs.copy_files(place, str(target), store, fs.LocalFileSystem())


def upload(source: Path, url: str) -> None:
    """Copy a file of this machine to a store, where it is seen when all of it is there."""
    with _asking(url, "written") as (store, place):
        from pyarrow import fs

        fs.copy_files(str(source), place, fs.LocalFileSystem(), store)


def check_writable(url: str) -> None:
    """Refuse an address that cannot be written to, by writing a small file beside it and deleting that."""
    if url.startswith("hf:"):
        return  # where each file is a commit
    with _asking(url, "written") as (store, place):
        beside = f"{place.rpartition('/')[0]}/.lorank-{secrets.token_hex(8)}"
        with store.open_output_stream(beside) as file:
            file.write(b"")
        with suppress(OSError):
            store.delete_file(beside)


@contextmanager
def uploading(url: str) -> Iterator[Path]:
    """A path to write to, whose file is sent to the address when the block ends well."""
    with tempfile.TemporaryDirectory(prefix="lorank-") as folder:
        beside = Path(folder) / url.rpartition("/")[2]
        beside.touch()
        yield beside
        upload(beside, url)


@contextmanager
def uploading_folder(url: str, check: Callable[[Path], None], last: str) -> Iterator[Path]:
    """A folder to write to, whose files are sent to the address when the block ends well.

    A store has no folders that could take another's place. So the file called `last`, without which the folder is not
    what it should be, is deleted first and sent last: what is cut off in between is no model, and looks like none.
    """
    check(Path(url))
    with tempfile.TemporaryDirectory(prefix="lorank-") as folder:
        yield Path(folder)
        check(Path(url))
        new = sorted(path.name for path in Path(folder).iterdir())
        if last:
            _delete(f"{url}/{last}")
        for name in sorted(new, key=lambda name: name == last):
            upload(Path(folder) / name, f"{url}/{name}")
        for old in files_below(url):
            if old.removeprefix(f"{url}/") not in new:
                _delete(old)


def refused(url: str, done: str, error: Exception) -> InputError:
    """The sentence that says why a store did not do what it was asked for."""
    text = " ".join(str(error).split())
    found = (reason for words, reason in _REASONS.items() if re.search(words, text))
    return InputError(f"{url} cannot be {done}: {next(found, text[:200] or type(error).__name__)}.")


def _below(url: str) -> list[tuple[str, int]]:
    with _asking(url, "read") as (store, place):
        from pyarrow import fs

        found = store.get_file_info(fs.FileSelector(place, recursive=True))
        return [(url + info.path[len(place) :], info.size) for info in found if info.is_file]


def _delete(url: str) -> None:
    if kind(url) == "file":
        with _asking(url, "written") as (store, place):
            store.delete_file(place)


@contextmanager
def _asking(url: str, done: str) -> Iterator[tuple[Any, str]]:
    """The store of an address and the place there; its errors are one sentence."""
    try:
        import pyarrow as pa
    except ImportError:
        raise InputError(f"{url} needs pyarrow: pip install 'lorank[cloud]'.") from None
    try:
        scheme, _, rest = url.partition("://")
        bucket, _, inner = rest.partition("/")
        if scheme == "hf":
            yield _store(url)
        else:
            store, root = _store(f"{scheme}://{bucket}")
            yield store, f"{root}/{inner}" if inner else root
    except ImportError as error:
        raise InputError(f"{url} needs another library: pip install 'lorank[cloud]' ({one_line(error)}).") from None
    except FileNotFoundError:
        raise InputError(f"There is no {url}.") from None
    except InputError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise refused(url, done, error) from None


@cache
def _store(root: str) -> tuple[Any, str]:
    """The file system of a bucket; for S3 its region is asked for once."""
    from pyarrow import fs

    store: tuple[Any, str] = fs.FileSystem.from_uri(root)
    return store
