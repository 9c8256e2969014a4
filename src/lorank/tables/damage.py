"""Errors of the libraries that read files, as one sentence: in one place, for every reader."""

from __future__ import annotations

import csv
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lorank.errors import InputError, one_line
from lorank.files import url_of
from lorank.files.reading import DAMAGED
from lorank.files.remote import refused

# What libraries raise when a file is not what it should be. Errors of the program itself (NameError, AssertionError)
# are none of them; nor is MemoryError, which says what it is.
ERRORS = (
    *DAMAGED,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    OSError,
    SyntaxError,
    csv.Error,
    RecursionError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    tokenize.TokenError,
)


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Within this block an error of a library is an InputError that names the file: it is damaged, or not `what`."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"The file {path} is gone; put it back.") from None
    except PermissionError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None
    except ERRORS as error:
        if isinstance(error, OSError) and (url := url_of(path)) is not None:
            raise refused(url, "read", error) from None
        raise InputError(f"{path} is damaged or not {what} ({one_line(error)}).") from None
