"""When each entry of a long table was made, for splits by time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lorank.errors import InputError
from lorank.observations import Observations
from lorank.tables.damage import reading
from lorank.tables.reading import find_delimiter, read_long
from lorank.tables.translation import PLAIN, Habits, translated
from lorank.types import Array


def read_times(
    path: str | Path,
    row: str,
    col: str,
    time: str,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    habits: Habits = PLAIN,
    sheet: str | None = None,
) -> Observations:
    """The time of each pair as its value: the last one of a pair that comes more than once.

    Times are numbers, or dates and times such as 2026-03-31 or 2026-03-31T18:05:00.
    """
    path = Path(path)
    with reading(path, "a table"), translated(path, habits, delimiter, sheet) as plain:
        delimiter = find_delimiter(plain, delimiter, (row, col, time))
        pairs = read_long(plain, row, col, None, delimiter=delimiter, header=header)
        # Read as names, since they may be text.
        named = read_long(plain, time, row, None, delimiter=delimiter, header=header)
    when = _parsed(named.row_ids, time, path)[named.rows]
    m, n = pairs.row_ids.size, pairs.col_ids.size
    order = np.argsort(when, kind="stable")
    cells = pairs.rows.astype(np.int64)[order] * n + pairs.cols[order]
    unique, first = np.unique(cells[::-1], return_index=True)
    times = when[order][::-1][first]
    return Observations.from_coo(unique // n, unique % n, times, (m, n), pairs.row_ids, pairs.col_ids)


def _parsed(names: Array, time: str, path: Path) -> Array:
    """Distinct times as numbers; of dates, seconds."""
    if names.dtype.kind in "iuf":
        return names.astype(np.float64)
    texts = names.astype(str)
    try:
        return texts.astype(np.float64)
    except ValueError:
        pass
    try:
        # ISO 8601 in UTC ends in Z, which NumPy does not read.
        plain = np.char.rstrip(np.char.replace(texts, " ", "T"), "Z")
        return plain.astype("datetime64[s]").astype(np.float64)
    except ValueError:
        raise InputError(
            f"Column {time!r} of {path} has times such as {texts[0]!r}; give numbers, or dates such as 2026-03-31."
        ) from None
