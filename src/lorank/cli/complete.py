"""`lorank complete`: a table with missing cells in, the same table without them out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.inputs import habits_of
from lorank.cli.method_options import SetOption, ThetaOption, method_of, number_or_auto, theta_for
from lorank.cli.options import (
    CommentOption,
    CovariateOption,
    DecimalOption,
    DelimiterOption,
    DimOption,
    EncodingOption,
    HeaderOption,
    JsonOption,
    LamOption,
    LatOption,
    LonOption,
    MaskOption,
    NaOption,
    NormalisationOption,
    RankOption,
    SeedOption,
    SheetOption,
    ThreadsOption,
    TimeOption,
    VariableOption,
)
from lorank.cli.terminal import answer, say
from lorank.errors import InputError

if TYPE_CHECKING:
    from lorank.tables import Habits

NETCDF = (".nc", ".nc4", ".zarr")


def complete(
    table: Annotated[
        Path,
        typer.Argument(
            help="A wide table (delimited text or parquet), or series at locations or on a grid (NetCDF or Zarr)."
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
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Write so many tables, each with other draws of the missing cells: OUTPUT-1, -2, ..."),
    ] = None,
    digits: Annotated[int, typer.Option(min=1, max=17, help="Significant digits of the numbers filled in.")] = 6,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    na: NaOption = None,
    comment: CommentOption = "",
    sheet: SheetOption = None,
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

    With --variable a table is long: a line for each value, with columns of its location (--dim), its date (--time),
    latitude and longitude, and covariates. It comes back with a line for every location and date.

    Example: lorank complete table.csv -o filled.csv
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

    if is_netcdf(table):
        names: dict[str, Any] = {"variable": variable, "dim": dim, "lat": lat, "lon": lon, "time": time}
        names |= {"covariates": covariate or (), "mask": mask}
        params["method"] = params["method"] if method != "auto" or assignments else "nnfn"
        answer(_fill_netcdf(table, output, names, normalisation, params), as_json)
        return
    if variable is not None:
        places: dict[str, Any] = {"value": variable, "place": dim or row, "time": time, "lat": lat, "lon": lon}
        places["covariates"] = covariate or ()
        params["method"] = params["method"] if method != "auto" or assignments else "nnfn"
        answer(_fill_long(table, output, places, {"normalisation": normalisation, **params}), as_json)
        return
    if draws is not None and method == "auto" and not given:
        params["method"] = "bpmf"
    if kind_of(table) in SUFFIXES:
        filled, cells = _fill_parquet(table, output, row, draws, params)
    else:
        habits = habits_of(encoding, decimal, na, comment)
        filled, cells = _fill_text(table, output, row, delimiter, header, habits, sheet, digits, draws, params)
    answer({"table": str(output), "cells": cells, "filled": filled, **({"draws": draws} if draws else {})}, as_json)


def is_netcdf(path: Path) -> bool:
    """Whether it is a NetCDF file, or a Zarr store, which is a folder."""
    from lorank.files import is_folder, kind_of

    return path.suffix.lower() == ".zarr" or (not is_folder(path) and kind_of(path) in NETCDF)


def _fill_text(
    path: Path,
    output: Path,
    labels: str | None,
    delimiter: str | None,
    header: bool | None,
    habits: Habits,
    sheet: str | None,
    digits: int,
    draws: int | None,
    params: dict[str, Any],
) -> tuple[int, int]:
    from lorank.files import kind_of, open_input, reading_once, write_bytes
    from lorank.tables.translation import EXCEL, JSON_LINES, translated
    from lorank.tables.wide import WideTable

    if str(output) == "-":
        raise InputError("A filled table is written to a file; name one, as in -o filled.csv.")
    if output.suffix.lower() in (*EXCEL, *JSON_LINES):
        raise InputError(f"A filled table is written as text; let the name of {output} end in .csv.")
    with reading_once(), translated(path, habits, delimiter, sheet) as plain:
        table = WideTable.read(plain, labels, delimiter, header)
        if plain != path and kind_of(path) not in (*EXCEL, *JSON_LINES):
            with open_input(path) as file:
                table.restored(file.read().decode(habits.encoding))
    if table.text_columns:
        say(f"Columns of text stay as they are: {', '.join(table.text_columns)}.")
    answers, filled = _impute(table.values, path, draws, params)

    def spell(number: float) -> str:
        return f"{number:.{digits}g}".replace(".", habits.decimal)

    for values, where in zip(answers, _outputs(output, draws)):
        write_bytes(where, table.filled(values, spell).decode().encode(habits.encoding))
    return filled, table.values.size


def _fill_parquet(
    path: Path, output: Path, labels: str | None, draws: int | None, params: dict[str, Any]
) -> tuple[int, int]:
    import numpy as np
    import pyarrow as pa

    from lorank.tables import parquet, write

    table = parquet.read_whole(path)
    cells, names, _ = parquet.numeric_columns(table, path, labels)
    answers, filled = _impute(cells, path, draws, params)
    for values, where in zip(answers, _outputs(output, draws)):
        written = table
        for j, name in enumerate(names):
            if np.isnan(cells[:, j]).any():
                # What was there keeps its bits; whole numbers with missing cells become floats, which hold them.
                column = np.where(np.isnan(cells[:, j]), values[:, j], cells[:, j])
                written = written.set_column(written.column_names.index(name), name, pa.array(column))
        write(where, dict(zip(written.column_names, written.columns)))
    return filled, cells.size


def _outputs(output: Path, draws: int | None) -> list[Path]:
    """Where the filled tables go: filled.csv, or filled-1.csv, filled-2.csv ..."""
    if draws is None:
        return [output]
    return [output.with_name(f"{output.stem}-{number}{output.suffix}") for number in range(1, draws + 1)]


def _impute(values: Any, path: Path, draws: int | None, params: dict[str, Any]) -> tuple[list[Any], int]:
    """Tables with their missing cells filled, one or one for each draw; and the number of these cells."""
    import numpy as np

    from lorank.estimators import LowRankImputer

    if not values.size:
        raise InputError(f"{path} has no column of numbers.")
    missing = int(np.isnan(values).sum())
    if not missing:
        say("No cell is missing; the table is copied as it is.")
        return [values] * (draws or 1), 0
    imputer = LowRankImputer(**params).fit(values)
    return [imputer.transform(values)] if draws is None else imputer.draws(draws), missing


def _fill_long(source: Path, target: Path, names: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """Fill a long table of series at locations; gives the facts to print."""
    from lorank.files import reading_once
    from lorank.spatial.long_tables import complete_columns
    from lorank.tables import write
    from lorank.tables.side_tables import read_columns

    for name, option in (("place", "--dim"), ("time", "--time")):
        if names[name] is None:
            raise InputError(f"A long table of locations needs {option}: the name of the column of its {name}s.")
    given = {name: None if value == "auto" and name != "normalisation" else value for name, value in params.items()}
    with reading_once():
        columns = read_columns(source)
    filled, used = complete_columns(columns, **names, parameters=given)
    write(target, filled)
    return {"table": str(target), "cells": used.pop("cells"), "filled": used.pop("filled"), **used}


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
