"""`lorank complete`: a table with holes in, the same table without out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.fitting import LamOption, RankOption
from lorank.cli.maps import (
    NETCDF,
    DimOption,
    LatOption,
    LonOption,
    NormalisationOption,
    TimeOption,
    VariableOption,
    fill_netcdf,
)
from lorank.cli.methods import MethodOption, SetOption, ThetaOption, method_of, number_or_auto, theta_for
from lorank.cli.terminal import DelimiterOption, HeaderOption, JsonOption, SeedOption, ThreadsOption, answer, say

if TYPE_CHECKING:
    from lorank.tables.wide import WideTable


def complete(
    table: Annotated[
        Path,
        typer.Argument(help="A wide table (csv, tsv, other text, parquet), or NetCDF with places."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the filled table goes.")],
    row: Annotated[str | None, typer.Option("--row", help="Column that names the rows, and holds no data.")] = None,
    method: MethodOption = "nnfn",
    assignments: SetOption = None,
    rank: RankOption = "auto",
    lam: LamOption = "auto",
    theta: ThetaOption = None,
    digits: Annotated[int, typer.Option(min=1, max=17, help="Digits of the numbers filled in.")] = 6,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    variable: VariableOption = None,
    dim: DimOption = None,
    lat: LatOption = None,
    lon: LonOption = None,
    time: TimeOption = None,
    normalisation: NormalisationOption = "anomalies",
    as_json: JsonOption = False,
) -> None:
    """Fill the missing cells of a table, and change no other.

    Every cell that was there stays as it is, byte for byte, and so does a column of text. Columns of numbers are
    brought to one scale, a low-rank matrix is fitted to what is there, and holes are read from it.

    A NetCDF file holds series at places with latitudes and longitudes: places that were never measured are filled from
    those around them, and the estimated error of each place is written beside.
    """
    chosen = method_of(method, assignments)
    params = {
        "method": chosen if assignments else method,
        "rank": number_or_auto(rank, "--rank", int),
        "lam": number_or_auto(lam, "--lam", float),
        "theta": theta_for(chosen, theta),
        "random_state": seed,
        "n_jobs": threads,
    }
    from lorank.files import kind_of
    from lorank.tables.reading import PARQUET

    if kind_of(table) in NETCDF:
        names = {"variable": variable, "dim": dim, "lat": lat, "lon": lon, "time": time}
        answer(fill_netcdf(table, output, names, normalisation, params), as_json)
        return
    filling = _fill_parquet if kind_of(table) in PARQUET else _fill_text
    filled, cells = filling(table, output, row, delimiter, header, digits, params)
    answer({"table": str(output), "cells": cells, "filled": filled}, as_json)


def _fill_text(
    path: Path,
    output: Path,
    labels: str | None,
    delimiter: str | None,
    header: bool | None,
    digits: int,
    params: dict[str, Any],
) -> tuple[int, int]:
    from lorank.files import write_bytes
    from lorank.tables.wide import WideTable

    table: WideTable = WideTable.read(path, labels, delimiter, header)
    if table.text_columns:
        say(f"Columns of text stay as they are: {', '.join(table.text_columns)}.")
    values, filled = _impute(table.values, path, params)
    write_bytes(output, table.filled(values, lambda number: f"{number:.{digits}g}"))
    return filled, values.size


def _fill_parquet(
    path: Path,
    output: Path,
    labels: str | None,
    delimiter: str | None,
    header: bool | None,
    digits: int,
    params: dict[str, Any],
) -> tuple[int, int]:
    import numpy as np
    import pyarrow as pa

    from lorank.tables import arrays as matrices
    from lorank.tables import reading as tables

    table = matrices.parquet_file(path).read()
    cells, names, _ = matrices.numeric_columns(table, path, labels)
    values, filled = _impute(cells, path, params)
    for j, name in enumerate(names):
        if np.isnan(cells[:, j]).any():
            # What was there keeps its bits; whole numbers with holes become floats, which hold them.
            column = np.where(np.isnan(cells[:, j]), values[:, j], cells[:, j])
            table = table.set_column(table.column_names.index(name), name, pa.array(column))
    tables.write(output, dict(zip(table.column_names, table.columns)))
    return filled, values.size


def _impute(values: Any, path: Path, params: dict[str, Any]) -> tuple[Any, int]:
    """The table with its holes filled, and how many there were."""
    import numpy as np

    from lorank.errors import InputError
    from lorank.estimators import LowRankImputer

    if not values.size:
        raise InputError(f"{path} has no column of numbers.")
    missing = int(np.isnan(values).sum())
    if not missing:
        say("No cell is missing; the table is copied as it is.")
        return values, 0
    return LowRankImputer(**params).fit(values).transform(values), missing
