"""`lorank complete`: a table with missing cells in, the same table without them out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lorank.cli.method_options import SetOption, ThetaOption, method_of, number_or_auto, theta_for
from lorank.cli.options import (
    CovariateOption,
    DelimiterOption,
    DimOption,
    HeaderOption,
    JsonOption,
    LamOption,
    LatOption,
    LonOption,
    MaskOption,
    NormalisationOption,
    RankOption,
    SeedOption,
    ThreadsOption,
    TimeOption,
    VariableOption,
)
from lorank.cli.terminal import answer, say
from lorank.errors import InputError

NETCDF = (".nc", ".nc4", ".zarr")


def complete(
    table: Annotated[
        Path,
        typer.Argument(
            help="A wide table (delimited text or parquet), or a NetCDF file of series at locations or on a grid."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, in the same format.")],
    row: Annotated[str | None, typer.Option("--row", help="Column that holds the row ids, and no data.")] = None,
    method: Annotated[
        str, typer.Option(help="Name of the method; auto is the sampler, or nnfn where --lam or --theta are given.")
    ] = "auto",
    assignments: SetOption = None,
    rank: RankOption = "auto",
    lam: LamOption = "auto",
    theta: ThetaOption = None,
    digits: Annotated[int, typer.Option(min=1, max=17, help="Significant digits of the numbers filled in.")] = 6,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    variable: VariableOption = None,
    dim: DimOption = None,
    lat: LatOption = None,
    lon: LonOption = None,
    time: TimeOption = None,
    normalisation: NormalisationOption = "auto",
    covariate: CovariateOption = None,
    mask: MaskOption = "measured",
    as_json: JsonOption = False,
) -> None:
    """Fill the missing cells of a table.

    All other cells, and columns of text, stay as they are, byte for byte. Columns of numbers are brought to one scale,
    a low-rank matrix is fitted to the observed cells, and the missing cells are predicted from it; this is
    `lorank.LowRankImputer`, which chooses everything on cells that are held out.

    A NetCDF file holds time series at locations with latitude and longitude: a location without any measurement is
    predicted from those around it, and the estimated error of each value is written as another variable. Or it holds a
    grid over times with gaps, such as clouds; cells that have no value at all are land, and stay missing.
    """
    given = assignments or lam != "auto" or theta is not None
    name = ("nnfn" if given else "bpmf") if method == "auto" else method
    chosen = method_of(name, assignments)
    params = {
        "method": chosen if assignments else name if given else method,
        "rank": number_or_auto(rank, "--rank", int),
        "lam": number_or_auto(lam, "--lam", float),
        "theta": theta_for(chosen, theta) if name != "bpmf" else None,
        "random_state": seed,
        "n_jobs": threads,
    }
    from lorank.files import kind_of
    from lorank.tables.parquet import SUFFIXES

    if kind_of(table) in NETCDF:
        names: dict[str, Any] = {"variable": variable, "dim": dim, "lat": lat, "lon": lon, "time": time}
        names |= {"covariates": covariate or (), "mask": mask}
        params["method"] = params["method"] if method != "auto" or assignments else "nnfn"
        answer(_fill_netcdf(table, output, names, normalisation, params), as_json)
        return
    filling = _fill_parquet if kind_of(table) in SUFFIXES else _fill_text
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

    table = WideTable.read(path, labels, delimiter, header)
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

    from lorank.tables import parquet, write

    table = parquet.open_parquet(path).read()
    cells, names, _ = parquet.numeric_columns(table, path, labels)
    values, filled = _impute(cells, path, params)
    for j, name in enumerate(names):
        if np.isnan(cells[:, j]).any():
            # What was there keeps its bits; whole numbers with missing cells become floats, which hold them.
            column = np.where(np.isnan(cells[:, j]), values[:, j], cells[:, j])
            table = table.set_column(table.column_names.index(name), name, pa.array(column))
    write(output, dict(zip(table.column_names, table.columns)))
    return filled, values.size


def _impute(values: Any, path: Path, params: dict[str, Any]) -> tuple[Any, int]:
    """The table with its missing cells filled, and their number."""
    import numpy as np

    from lorank.estimators import LowRankImputer

    if not values.size:
        raise InputError(f"{path} has no column of numbers.")
    missing = int(np.isnan(values).sum())
    if not missing:
        say("No cell is missing; the table is copied as it is.")
        return values, 0
    return LowRankImputer(**params).fit(values).transform(values), missing


def _fill_netcdf(
    source: Path, target: Path, names: dict[str, Any], normalisation: str, params: dict[str, Any]
) -> dict[str, Any]:
    """Fill a file by `lorank.spatial`, tuning on held-out locations what is auto; gives the facts to print."""
    from lorank.spatial import complete_file

    if target.suffix.lower() not in NETCDF:
        raise InputError(f"A NetCDF file is filled into a NetCDF file: let the name of {target} end in .nc.")
    given: dict[str, Any] = {name: None if value == "auto" else value for name, value in params.items()}
    used = complete_file(source, target, **names, normalisation=normalisation, **given)
    return {"table": str(target), "cells": used.pop("cells"), "filled": used.pop("filled"), **used}
