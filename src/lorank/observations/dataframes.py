"""DataFrames of any library, through narwhals."""

from __future__ import annotations

from decimal import Decimal
from difflib import get_close_matches
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.observations import checks
from lorank.observations.identifiers import Identifiers
from lorank.types import Array


def _native(frame: Any) -> Any:
    try:
        import narwhals as nw
    except ImportError:
        raise ImportError("DataFrames need narwhals: pip install 'lorank[tables]'.") from None
    try:
        return nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = list(frame.columns)
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise InputError(f"Two columns have the name {twice!r}; give each a name of its own.") from None
    except TypeError:  # also of frames that are lazy
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        raise InputError(f"A DataFrame in memory is needed, not {kind}; collect it, or make one.") from None


def rows_of(frame: Any) -> int:
    """How many rows a frame has; one of which two columns have the same name is refused."""
    return len(_native(frame))


def read_wide(frame: Any) -> tuple[Array, Any, Any]:
    """The cells of a wide frame as floats (NaN and null missing), its row labels (or None) and its column names."""
    import narwhals as nw

    wide = _native(frame)
    columns = []
    for name, column in zip(wide.columns, wide.iter_columns()):
        if not (column.dtype.is_numeric() or column.dtype in (nw.Boolean, nw.Unknown) or column.is_null().all()):
            raise InputError(
                f"Column {name!r} is not numeric ({column.dtype}); drop it or turn it into numbers. A long table, an "
                "entry on each line, is read by Observations.from_table(table, row, col, value)."
            )
        columns.append(_floats(column))
    index = nw.maybe_get_index(wide)
    values = np.column_stack(columns) if columns else np.empty((len(wide), 0))
    return values, None if index is None else list(index), list(wide.columns)


def _floats(column: Any) -> Array:
    import narwhals as nw

    dtype = column.dtype
    if dtype == nw.Float64 or dtype == nw.Float32:
        return np.array(column.to_numpy(), np.float64 if dtype == nw.Float64 else np.float32)
    if column.is_null().all():
        return np.full(len(column), np.nan)
    if dtype == nw.Unknown:  # a library would cast complex numbers to their real parts
        return checks.numbers(column.to_numpy()).astype(np.float64)
    return np.asarray(column.cast(nw.Float64).to_numpy().astype(np.float64))


def read_columns(frame: Any, row: str, col: str, value: str, weight: str | None = None) -> tuple[Array, ...]:
    """Columns of a long table: row ids, column ids, values, and weights where they are named."""
    table = _native(frame)
    numeric = (value,) if weight is None else (value, weight)
    for name in (row, col, *numeric):
        if name not in table.columns:
            near = get_close_matches(str(name), [str(c) for c in table.columns], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"There is no column {name!r} among {', '.join(map(str, table.columns))}{hint}")
    columns = {name: table.get_column(name) for name in (row, col, *numeric)}
    for name in numeric:
        if not columns[name].dtype.is_numeric():
            raise InputError(f"Column {name!r} is not numeric ({columns[name].dtype}); values must be numbers.")
    for name in (row, col):
        if columns[name].is_null().any():
            line = columns[name].is_null().to_list().index(True)
            raise InputError(f"Column {name!r} has no id in line {line}, counted from 0; give one or drop the line.")
    return _ids(columns[row]), _ids(columns[col]), *(_floats(columns[name]) for name in numeric)


def _ids(column: Any) -> Array:
    """A column of ids as an array, of objects where NumPy has no such numbers."""
    import narwhals as nw

    if column.dtype in (nw.Int128, nw.UInt128):
        return np.array(column.to_list(), object)
    return np.asarray(column.to_numpy())


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


def typed_columns(frame: Any) -> list[tuple[Any, Any]]:
    """The columns of a frame by name, as narwhals has them."""
    wide = _native(frame)
    return list(zip(wide.columns, wide.iter_columns()))


def usual_kind(column: Any) -> str | None:
    """What a column's type says of its kind: "count", "ordinal", "id" (dates, lists, nothing), or no kind."""
    import narwhals as nw

    if column.dtype.is_integer():
        return "count" if (column.drop_nulls() >= 0).all() else None
    anything = str(getattr(column.to_native(), "dtype", "")) == "object"
    if not (column.dtype.is_numeric() or anything) and column.is_null().all():
        return "id"  # its type holds no number, and nothing says which classes there are
    if column.dtype.is_temporal() or column.dtype.is_nested() or column.dtype == nw.Unknown:
        return "id"  # of an unknown type, such as Arrow's null, is a column that can hold nothing that is filled in
    if isinstance(column.dtype, (nw.Categorical, nw.Enum)):
        native = column.to_native()
        ordered = getattr(getattr(native, "dtype", None), "ordered", None) or getattr(
            getattr(native, "type", None), "ordered", None
        )
        return "ordinal" if ordered else None
    return None


def listed_levels(column: Any) -> list[Any] | None:
    """The categories that a column's type lists, in order; None if it lists none."""
    import narwhals as nw

    native = column.to_native()
    if hasattr(native, "cat") and hasattr(native.cat, "categories"):
        return list(native.cat.categories)
    if isinstance(column.dtype, nw.Enum):
        return list(column.dtype.categories)
    if isinstance(column.dtype, nw.Categorical) and hasattr(native, "combine_chunks"):
        return list(native.unify_dictionaries().chunk(0).dictionary.to_pylist()) if native.num_chunks else []
    return None


def cells(column: Any) -> Any:
    """A column's cells: floats with NaN if it holds numbers, else a list of its values and None."""
    if column.dtype.is_numeric():
        return _floats(column)
    if column.is_null().all():
        return np.full(len(column), np.nan)
    return [None if missing else cell for cell, missing in zip(column.to_list(), column.is_null().to_list())]


def replaced(frame: Any, changes: dict[Any, tuple[Array, Any]]) -> Any:
    """A copy of a frame with some cells of some columns replaced: a mask and the new cells, by column.

    Each column keeps its type; whole numbers that are given as floats become whole again.
    """
    import narwhals as nw

    wide = _native(frame)
    native, typed = wide.to_native(), dict(typed_columns(frame))
    if nw.maybe_get_index(wide) is not None:
        out = native.copy()
        for name, (mask, new) in changes.items():
            column, dtype = out[name].copy(), typed[name].dtype
            if dtype.is_integer() or dtype == nw.Float32:
                new = new.astype(np.int64 if dtype.is_integer() else np.float32)
            column.iloc[np.flatnonzero(mask)] = new
            out[name] = column
        return out
    columns = []
    for name, (mask, new) in changes.items():
        column = typed[name]
        full = column.to_list()
        listed = new.astype(np.int64).tolist() if column.dtype.is_integer() else new.tolist()
        if column.dtype == nw.Decimal:
            own: Any = column.to_native()
            scale = (own.type if hasattr(own, "type") else own.dtype).scale
            listed = [round(Decimal(value), scale) for value in listed]
        for at, value in zip(np.flatnonzero(mask), listed):
            full[at] = value
        if wide.implementation.is_pyarrow():
            import pyarrow as pa

            made: Any = pa.chunked_array([pa.array(full, type=column.to_native().type)])
            columns.append(nw.from_native(made, series_only=True).alias(name))
        else:
            columns.append(nw.new_series(name, full, column.dtype, backend=nw.get_native_namespace(wide)))
    return wide.with_columns(*columns).to_native() if columns else native


def extended(frame: Any, columns: dict[str, Array]) -> Any:
    """A frame with more columns."""
    import narwhals as nw

    wide, native = _native(frame), nw.get_native_namespace(_native(frame))
    made = [nw.new_series(name, values, backend=native) for name, values in columns.items()]
    index = nw.maybe_get_index(wide)
    if index is not None:
        made = [nw.maybe_set_index(column, index=index) for column in made]
    return wide.with_columns(*made).to_native()
