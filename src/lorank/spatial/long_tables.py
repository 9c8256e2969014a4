"""Long tables of stations: a line for each value, with its place, its time, and what is known of the place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.spatial.cf import LATITUDE, LONGITUDE
from lorank.spatial.completion import SpatialCompletion
from lorank.types import Array

# What stands for a number that is missing.
EMPTY = ("", "NA", "N/A", "NaN", "nan", "null", "None", "none", "NULL")


def complete_table(
    table: Any,
    value: str,
    place: str,
    time: str,
    lat: str | None = None,
    lon: str | None = None,
    covariates: Sequence[str] = (),
    **parameters: Any,
) -> Any:
    """Fill a long table of series at places: a line for every place and time comes back, none of them missing.

    Parameters
    ----------
    table : DataFrame (pandas, polars, Arrow ...) or mapping of names to columns
        A line for each value. A place that was never measured needs one line, with its coordinates and an empty value.
    value, place, time : names of columns
        Times are dates (or text such as 1998-07 or 1998-07-31), or numbers, which know no season.
    lat, lon : names of columns, in degrees; found if they are called lat or latitude, lon or longitude.
    covariates : names of columns
        What is known of every place, such as its elevation: a number on at least one of its lines.
    parameters
        Of `SpatialCompletion`. Those that are not given are tuned on held-out values.

    Returns
    -------
    The same kind of table
        With the columns place, time, lat, lon, covariates, value, and <value>_error: the estimated standard deviation
        of the error of each value that was filled in, 0 elsewhere. Places are in the order of the table, times ascend.
    """
    if isinstance(table, Mapping):
        return complete_columns(table, value, place, time, lat, lon, covariates, parameters)[0]
    try:
        import narwhals as nw
    except ImportError:
        raise ImportError("DataFrames need narwhals: pip install 'lorank[tables]'.") from None
    frame = nw.from_native(table, eager_only=True)
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    filled, _ = complete_columns(columns, value, place, time, lat, lon, covariates, parameters)
    return nw.from_dict(filled, backend=frame.implementation).to_native()


def complete_columns(
    table: Mapping[str, Any],
    value: str,
    place: str,
    time: str,
    lat: str | None,
    lon: str | None,
    covariates: Sequence[str],
    parameters: Mapping[str, Any],
) -> tuple[dict[str, Array], dict[str, Any]]:
    """As `complete_table`, of columns by name; and what was used and counted."""
    lat, lon = _coordinate(table, lat, LATITUDE), _coordinate(table, lon, LONGITUDE)
    for name in (value, place, time, *covariates):
        if name not in table:
            raise InputError(f"There is no column {name!r} among {', '.join(map(str, table))}.")
    ids = np.asarray(table[place])
    ids = ids.astype(str) if ids.dtype.kind == "O" else ids
    _, first, row = np.unique(ids, return_index=True, return_inverse=True)
    # In the order of the table.
    order = np.argsort(first)
    first, row = first[order], np.argsort(order)[row.ravel()]
    labels, when, col = _times(np.asarray(table[time]), time)
    values = np.full((first.size, labels.size), np.nan)
    numbers = _numbers(table[value], value)
    known = np.flatnonzero(~np.isnan(numbers))
    cells = row[known] * labels.size + col[known]
    _, where, count = np.unique(cells, return_index=True, return_counts=True)
    if (count > 1).any():
        line = known[where[count > 1][0]]
        raise InputError(f"{place} {ids[line]} has two values at {time} {table[time][line]}; average them or keep one.")
    values[row[known], col[known]] = numbers[known]
    about = {name: _of_places(_numbers(table[name], name), row, ids[first], name) for name in (lat, lon, *covariates)}
    model = SpatialCompletion(**parameters)
    model.fit(values, about[lat], about[lon], when, {name: about[name] for name in covariates} or None)
    predicted, deviation = model.predict(return_std=True)
    missing = np.isnan(values)
    out = {place: np.repeat(ids[first], labels.size), time: np.tile(labels, first.size)}
    out |= {name: np.repeat(column, labels.size) for name, column in about.items()}
    out[value] = np.where(missing, predicted, values).ravel()
    out[f"{value}_error"] = np.where(missing, deviation, 0.0).ravel()
    return out, {**model.parameters_, "filled": int(missing.sum()), "cells": values.size}


def _coordinate(table: Mapping[str, Any], given: str | None, usual: tuple[str, ...]) -> str:
    """The column that is named, or the one with a usual name, in any case."""
    if given is not None:
        if given not in table:
            raise InputError(f"There is no column {given!r} among {', '.join(map(str, table))}.")
        return given
    for name in table:
        if str(name).lower() in usual:
            return str(name)
    raise InputError(f"There is no column {' or '.join(usual)} among {', '.join(map(str, table))}; say its name.")


def _times(cells: Array, name: str) -> tuple[Array, Array | None, Array]:
    """The times as the table spells them, ascending; the same as dates, or None; and which of them each line has."""
    dates: Array
    if cells.dtype.kind in "biuf":
        labels, col = np.unique(cells, return_inverse=True)
        return labels, None, col.ravel()
    try:
        dates = cells if cells.dtype.kind == "M" else cells.astype(str).astype("datetime64")
    except ValueError as reason:
        raise InputError(f"Column {name} must hold dates such as 1998-07 or 1998-07-31 ({reason}).") from None
    if np.isnat(dates).any():
        raise InputError(f"Column {name} has no date on line {int(np.flatnonzero(np.isnat(dates))[0]) + 1}.")
    when, first, col = np.unique(dates, return_index=True, return_inverse=True)
    return cells[first], when, col.ravel()


def _numbers(column: Any, name: str) -> Array:
    """Floats, NaN for what is missing."""
    cells = np.asarray(column)
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    texts = np.array(["" if cell is None else str(cell).strip() for cell in cells.tolist()], str)
    try:
        return np.where(np.isin(texts, EMPTY), "nan", texts).astype(np.float64)
    except ValueError as reason:
        raise InputError(f"Column {name} must be numbers ({reason}).") from None


def _of_places(numbers: Array, row: Array, ids: Array, name: str) -> Array:
    """One number for each place (m,), the same on all lines that have one."""
    known = np.flatnonzero(~np.isnan(numbers))
    found = np.full(ids.size, np.nan)
    found[row[known]] = numbers[known]
    if np.isnan(found).any():
        raise InputError(f"{name} of {ids[np.isnan(found)][0]} is missing; give it on one of its lines.")
    other = known[numbers[known] != found[row[known]]]
    if other.size:
        line = other[0]
        raise InputError(
            f"{ids[row[line]]} has two values of {name}, {numbers[line]:g} and {found[row[line]]:g}; it must have one."
        )
    return found
