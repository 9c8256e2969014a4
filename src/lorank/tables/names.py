"""Ids as files spell them, and ids as models keep them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError, printable
from lorank.observations.identifiers import Identifiers, text_array
from lorank.types import Array

# The only spelling of an integer that comes back the same from int and str; 007 and +7 are text.
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,17}")


def position_of(name: str, columns: Sequence[str], path: str | Path) -> int:
    """Position of a column; one that is not there is an error that suggests the nearest name."""
    refuse_twice([name], columns, path)
    if name in columns:
        return list(columns).index(name)
    near = get_close_matches(name, columns, 1, 0.5) or [c for c in columns if c.lower() == name.lower()]
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {listed(columns)}."
    raise InputError(f"{path} has no column {name!r}{hint}")


def refuse_twice(names: Sequence[str], columns: Sequence[str], path: str | Path) -> None:
    """Refuse one of these names that several columns have."""
    times = Counter(columns)
    for name in names:
        if times[name] > 1:
            raise InputError(f"{path} has {times[name]} columns called {name!r}; give them different names.")


def listed(columns: Sequence[str]) -> str:
    """The names of columns, not more than a sentence can hold, on one line whatever is in them."""
    shown = [printable(name if len(name) <= 40 else f"{name[:37]}...") for name in columns[:12]]
    return ", ".join(shown) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")


class Numbering:
    """Numbers ids in the order in which they are met, a batch at a time; in the end they are sorted."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def codes(self, names: list[Any], which: Array) -> Array:
        """Numbers of names[which]: names are distinct, so that text is looked up once a batch and not once a line."""
        known = self._known
        numbers = np.fromiter((known.setdefault(name, len(known)) for name in names), np.int32, len(names))
        return numbers[which]

    def finish(self, codes: Array) -> Array:
        """The ids, sorted; `codes` is changed in place to go with that order.

        Text becomes integers if every id is one and is spelled the way integers are.
        """
        ids = spelled(list(self._known))
        order = np.argsort(ids, kind="stable")
        rank = np.empty(order.size, codes.dtype)
        rank[order] = np.arange(order.size, dtype=codes.dtype)
        np.take(rank, codes, out=codes)
        return np.asarray(ids[order])

    def __contains__(self, name: object) -> bool:
        return name in self._known


def spelled(names: list[Any]) -> Array:
    """An array of ids; of integers if all are text that spells integers canonically ("7", but neither "007" nor "+7").

    One such text among them keeps them all as text, so that 007 and 7 stay apart.
    """
    if names and all(isinstance(name, str) for name in names):
        if all(_CANONICAL.fullmatch(name) for name in names):
            return np.array([int(name) for name in names], np.int64)
        return text_array(names)
    if names and all(isinstance(name, datetime) for name in names):
        return np.array(names, "datetime64[us]")
    if any(isinstance(name, str) for name in names):  # integers, some of which are too large for 64 bits
        return text_array([str(name) for name in names])
    return np.array(names, np.int64)


def as_model_spells(names: Array, ids: Identifiers | None) -> Array:
    """Names from a file or the command line in the type of a model's ids, so that they can be looked up.

    Without ids the model calls rows and columns by position, and names must be whole numbers.
    """
    wanted = "i" if ids is None else ids.kind
    if names.dtype.kind == wanted or wanted not in "iuUM":
        return names
    if wanted == "U":
        return text_array([str(name) for name in names.tolist()])
    if wanted == "M":
        return np.array([_moment(name) for name in names.tolist()], "datetime64[us]")
    texts = [str(name) for name in names.tolist()]
    if not all(_CANONICAL.fullmatch(text) for text in texts):
        if ids is None:
            wrong = next(text for text in texts if not _CANONICAL.fullmatch(text))
            raise InputError(f"The model calls rows and columns by position, from 0; {wrong!r} is none.")
        mixed = np.empty(len(texts), object)
        mixed[:] = [int(text) if _CANONICAL.fullmatch(text) else text for text in texts]
        return mixed
    return np.array([int(text) for text in texts], np.int64)


def _moment(name: Any) -> np.datetime64:
    try:
        return np.datetime64(name, "us")
    except ValueError:
        raise InputError(f"The model's ids are dates, and {name!r} is none (write 2024-05-31).") from None
