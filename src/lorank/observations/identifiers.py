"""The ids by which users know rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError, one_line
from lorank.observations.checks import refuse_mask

# Numpy's text may take so many times the room of the texts themselves.
WASTE = 64
# Characters beyond which a text is an object in any case: who takes one of them for each entry copies it each time.
LONG = 1000
# Names that are looked up at a time.
BLOCK = 1 << 16
# How a missing id among objects calls itself, but for capitals: of floats and decimals, of dates, and of pandas.
MISSING = ("nan", "nat", "<na>")


class Identifiers:
    """Ids by position, and positions by id. Ids are anything hashable; 7 and "7" and "007" are three ids."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values

    @classmethod
    def of(cls, ids: Any) -> Identifiers | None:
        """Identifiers of a sequence; None and Identifiers stay as they are."""
        if ids is None or isinstance(ids, Identifiers):
            return ids
        return cls(_as_array(ids))

    @classmethod
    def number(cls, names: Any) -> tuple[Identifiers, npt.NDArray[np.int64]]:
        """The distinct ids among names, and the position of each name's id.

        Ids of one type come sorted; of mixed types, in the order in which they appear. A missing one (None, NaN, NaT)
        is an error: all lines without an id would be taken as one.
        """
        array = _as_array(names)
        if array.dtype.kind in "iu" and array.size:
            low, high = int(array.min()), int(array.max())
            if high - low < 4 * array.size + 1024:
                # Dense integers are numbered by counting; sorting millions of them is many times slower. How far they
                # are above the lowest may not fit into their own type; as unsigned 64-bit numbers it always does.
                above = (array.astype(np.uint64) - np.array(low).astype(np.uint64)).astype(np.int64)
                position = np.zeros(high - low + 1, np.int64)
                position[above] = 1
                found = np.flatnonzero(position)
                position[found] = np.arange(found.size)
                ids = (found.astype(np.uint64) + np.array(low).astype(np.uint64)).astype(array.dtype)
                return cls(ids), position[above]
        if array.dtype.kind != "O":
            ids, positions = np.unique(array, return_inverse=True)
            positions = positions.reshape(-1)
            if ids.dtype.kind in "fcmM" and (missing := ids != ids).any():
                _refuse_missing(positions, int(np.argmax(missing)))
            return cls(ids), positions
        known: dict[Any, int] = {}
        try:
            positions = np.fromiter((known.setdefault(name, len(known)) for name in array), np.int64, array.size)
        except TypeError as error:
            raise InputError(f"Ids must be hashable: {one_line(error)}.") from None
        for name, at in known.items():
            if name is None or (not isinstance(name, str) and str(name).lower() in MISSING):
                _refuse_missing(positions, at)
        return cls(_as_array(list(known))), positions

    @cached_property
    def _position(self) -> dict[Any, int]:
        position: dict[Any, int] = {}
        for at, name in enumerate(_keys(self.values)):
            if position.setdefault(name, at) != at:
                raise InputError(
                    f"An id comes twice, {name!r}, and names neither of its lines; give each line its own."
                )
        return position

    def positions(self, names: Any, what: str) -> npt.NDArray[np.int64]:
        """Positions of names; an unknown one is an error that names it."""
        names = _as_array(names)
        found = self.find(names)
        if (found < 0).any():
            unknown = names.tolist()[int(np.argmax(found < 0))]
            raise InputError(f"Unknown {what} {unknown!r}: it was not in the data that the model was fitted on.")
        return found

    def find(self, names: Any) -> npt.NDArray[np.int64]:
        """Positions of names, -1 where unknown."""
        position, array = self._position, _as_array(names)
        found = np.empty(array.size, np.int64)
        for at in range(0, array.size, BLOCK):  # a name is an object while it is looked up: not millions at once
            own = _keys(array[at : at + BLOCK])
            try:
                found[at : at + BLOCK] = np.fromiter((position.get(name, -1) for name in own), np.int64, len(own))
            except TypeError as error:
                raise InputError(f"Ids must be hashable: {one_line(error)}.") from None
        return found

    @cached_property
    def kind(self) -> str:
        """numpy's letter for the type of the ids; U for text also where it is kept as objects."""
        kind: str = self.values.dtype.kind
        return "U" if kind == "O" and all(isinstance(name, str) for name in self.values) else kind

    def __len__(self) -> int:
        return int(self.values.size)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values.tolist())

    def __repr__(self) -> str:
        first = ", ".join(repr(name) for name in self.values[:3].tolist())
        return f"Identifiers({len(self)}: {first}{', ...' if len(self) > 3 else ''})"


def _refuse_missing(positions: npt.NDArray[np.int64], missing: int) -> None:
    at = int(np.argmax(positions == missing))
    raise InputError(f"Entry {at}, counted from 0, has no id; give it one, or drop the entry.")


def _keys(ids: npt.NDArray[Any]) -> list[Any]:
    """Ids to look up; a date is the same one whatever the unit of its array."""
    return (microseconds(ids) if ids.dtype.kind == "M" else ids).tolist()


def microseconds(times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Times in microseconds, by which they are known as ids; an error where two of them might become one."""
    kept = times.astype("datetime64[us]")
    changed = (kept.astype(times.dtype) != times) & ~np.isnat(times)
    if changed.any():
        time = times[int(np.argmax(changed))]
        raise InputError(f"The id {time} is finer than a microsecond or out of range; give ids as numbers or text.")
    return kept


def text_array(texts: Sequence[str]) -> npt.NDArray[Any]:
    """Texts as numpy's text, or as objects where it would lose something or take many times their room.

    It has as much room for each as for the longest one, and drops null characters at the end, so that "a" and "a\\0"
    would be one id.
    """
    longest, total = max(map(len, texts), default=0), sum(map(len, texts))
    wasteful = longest > LONG or 4 * longest * len(texts) > WASTE * (total + 16 * len(texts))
    if wasteful or any(text.endswith("\0") for text in texts):
        array = np.empty(len(texts), object)
        array[:] = texts
        return array
    return np.array(texts, str)


def _as_array(ids: Any) -> npt.NDArray[Any]:
    """A one-dimensional array that keeps each id's type: mixed types stay objects instead of turning into text."""
    refuse_mask(ids, "ids")
    if isinstance(ids, np.ndarray):
        array = np.asarray(ids).ravel()
        if array.dtype.kind == "M":
            microseconds(array)
        return array
    if np.isscalar(ids) or isinstance(ids, (str, bytes)):
        ids = [ids]
    try:
        items = ids.to_pylist() if hasattr(ids, "to_pylist") else list(ids)  # of Arrow, whose own objects are no ids
    except TypeError:
        raise InputError(f"A list of ids is needed, not {type(ids).__name__}.") from None
    kinds = {type(item) for item in items}
    if kinds and kinds <= {str, np.str_}:
        return text_array(items)
    kind = kinds.pop() if len(kinds) == 1 else object
    if issubclass(kind, (np.number, np.bool_, np.datetime64)):
        return _as_array(np.asarray(items))
    if kind is int and (numbers := np.asarray(items)).dtype.kind != "f":  # as which some of -1 and 2^63 would be one
        return numbers
    array = np.empty(len(items), object)
    array[:] = items
    return array
