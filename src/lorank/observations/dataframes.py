"""DataFrames of any library, through narwhals."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.observations.identifiers import Identifiers
from lorank.types import Array


def _native(frame: Any) -> Any:
    try:
        import narwhals as nw
    except ImportError:
        raise ImportError("DataFrames need narwhals: pip install 'lorank[tables]'.") from None
    return nw.from_native(frame, eager_only=True)


def read_wide(frame: Any) -> tuple[Array, Any, Any]:
    """The cells of a wide frame as floats (NaN and null missing), its row labels (or None) and its column names."""
    import narwhals as nw

    wide = _native(frame)
    columns = []
    for name, column in zip(wide.columns, wide.iter_columns()):
        if not (column.dtype.is_numeric() or column.dtype in (nw.Boolean, nw.Unknown) or column.is_null().all()):
            raise InputError(f"Column {name!r} is not numeric ({column.dtype}); drop it or turn it into numbers.")
        columns.append(_floats(column))
    index = nw.maybe_get_index(wide)
    values = np.column_stack(columns) if columns else np.empty((len(wide), 0))
    return values, None if index is None else list(index), list(wide.columns)


def _floats(column: Any) -> Array:
    import narwhals as nw

    if column.is_null().all():
        return np.full(len(column), np.nan)
    wanted = nw.Float32 if column.dtype == nw.Float32 else nw.Float64
    floats = column.cast(wanted).to_numpy().astype(np.float32 if wanted == nw.Float32 else np.float64)
    return np.asarray(floats)


def read_columns(frame: Any, row: str, col: str, value: str, weight: str | None = None) -> tuple[Array, ...]:
    """Columns of a long table: row ids, column ids, values, and weights where they are named."""
    table = _native(frame)
    numeric = (value,) if weight is None else (value, weight)
    for name in (row, col, *numeric):
        if name not in table.columns:
            near = get_close_matches(str(name), [str(c) for c in table.columns], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"There is no column {name!r} among {', '.join(map(str, table.columns))}{hint}")
    for name in numeric:
        if not table[name].dtype.is_numeric():
            raise InputError(f"Column {name!r} is not numeric ({table[name].dtype}); values must be numbers.")
    return table[row].to_numpy(), table[col].to_numpy(), *(_floats(table[name]) for name in numeric)


def read_features(frame: Any) -> tuple[list[str], list[Array], Array | None]:
    """Names of the columns of a frame, the columns, of floats where they are numbers and else of text, and the index.

    An index that has no name and counts from 0, which pandas gives to a frame without one, is None.
    """
    import narwhals as nw

    wide = _native(frame)
    numeric = [column.dtype.is_numeric() or column.dtype == nw.Boolean for column in wide.iter_columns()]
    columns = [
        _floats(column) if number else column.cast(nw.String).to_numpy().astype(str)
        for column, number in zip(wide.iter_columns(), numeric)
    ]
    index = nw.maybe_get_index(wide)
    if index is not None and index.name is None and list(index[:1]) == [0] and type(index).__name__ == "RangeIndex":
        index = None
    ids = None if index is None else Identifiers.of(list(index))
    return list(map(str, wide.columns)), columns, None if ids is None else ids.values


def like(frame: Any, values: Array) -> Any:
    """A frame of the same library, columns and index as this one, holding these values."""
    import narwhals as nw

    wide = _native(frame)
    native = wide.to_native()
    if nw.maybe_get_index(wide) is not None:
        return type(native)(values, index=native.index, columns=native.columns)
    columns = {name: values[:, j] for j, name in enumerate(wide.columns)}
    return nw.from_dict(columns, backend=nw.get_native_namespace(wide)).to_native()
