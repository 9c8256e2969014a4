"""Numbers from large text files, a block of whole lines at a time.

Ratings come in files of gigabytes. Reading them by blocks keeps the memory at the size of the numbers, and an
error can still name the line that caused it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError

# Bytes read at a time: large enough for the loops over blocks to cost nothing, small beside the arrays they
# fill.
BLOCK = 1 << 22

T = TypeVar("T")


def blocks(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Whole lines, about `BLOCK` bytes of them at a time, and the number (from 1) of the first."""
    number, rest = 1, b""
    while chunk := stream.read(BLOCK):
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            rest += chunk
            continue
        lines = rest + chunk[:cut]
        rest = chunk[cut:]
        yield number, lines
        number += lines.count(b"\n")
    if rest:
        yield number, rest


def table(lines: bytes, dtype: npt.DTypeLike, columns: Sequence[int], delimiter: str = "\t") -> npt.NDArray[Any]:
    """Some columns of delimited lines as a structured array; blank lines are passed over, CRLF is a line end.

    Raises
    ------
    ValueError : a line has too few columns, or a field is not of its column's type.
    """
    if not lines.strip():
        return np.empty(0, dtype)
    return np.loadtxt(io.BytesIO(lines), dtype=dtype, usecols=columns, delimiter=delimiter, comments=None, ndmin=1)


def parsed(parse: Callable[[bytes], T], lines: bytes, number: int, name: str, form: str) -> T:
    """`parse(lines)`, whose ValueError becomes an InputError that names the first line that cannot be parsed.

    `number` is that of the first of the lines, `name` the file, `form` what a line should look like.
    """
    try:
        return parse(lines)
    except ValueError:
        suspects = lines.split(b"\n")
    # Bisection: the good half is parsed and dropped, so that finding the line costs about as much as one more
    # parse.
    while len(suspects) > 1:
        half = len(suspects) // 2
        try:
            parse(b"\n".join(suspects[:half]))
        except ValueError:
            suspects = suspects[:half]
        else:
            suspects = suspects[half:]
            number += half
    text = suspects[0].decode("utf-8", "replace").strip()
    raise InputError(f"Line {number} of {name} is {text[:60]!r}, not {form}; correct it or get the file again.")
