"""Errors of the libraries that read files, as one sentence: in one place, for every reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lorank.errors import InputError, one_line
from lorank.files import url_of
from lorank.files.remote import refused

# Errors that say what they are, or are the program's own. Whatever else is raised while a file is read is of the
# library that reads it: each has its own kinds, some (pyarrow's ArrowException) derive from Exception alone, and some
# (Zarr's) are assertions.
OTHERS = (MemoryError, ImportError, NameError, Warning)


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Within this block an error of a library is an InputError that names the file: it is damaged, or not `what`.

    So is one of ours, which may be about arrays and know nothing of files.
    """
    try:
        yield
    except OTHERS:
        raise
    except InputError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}") from None
    except FileNotFoundError:
        raise InputError(f"The file {path} is gone; put it back.") from None
    except PermissionError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None
    except Exception as error:
        if isinstance(error, OSError) and (url := url_of(path)) is not None:
            raise refused(url, "read", error) from None
        raise InputError(f"{path} is damaged or not {what} ({one_line(error)}).") from None
