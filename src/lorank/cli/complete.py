"""`lorank complete`: a table with missing cells in, the same table without them out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.inputs import habits_of, refuse_what_is_read
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
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="What a column holds, such as income=positive, share=bounded:0:1, risk=ordinal:low:middle:high, "
            "town=categorical or number=id; may be given several times."
        ),
    ] = None,
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

    All other cells stay as they are, byte for byte. Columns of numbers and of classes are brought to one scale, a
    low-rank matrix is fitted to the observed cells, and the missing cells are predicted from it; this is
    `lorank.LowRankImputer`, which chooses everything on cells that are held out. Whole numbers stay whole. Text with
    more than 50 different values, or with none of them twice, looks like names and stays as it is.

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
        filled, cells = _fill_parquet(table, output, row, kinds_of(kind), draws, params)
    else:
        habits = habits_of(encoding, decimal, na, comment)
        filled, cells = _fill_text(
            table, output, row, kinds_of(kind), delimiter, header, habits, sheet, digits, draws, params
        )
    answer({"table": str(output), "cells": cells, "filled": filled, **({"draws": draws} if draws else {})}, as_json)


def is_netcdf(path: Path) -> bool:
    """Whether it is a NetCDF file, or a Zarr store, which is a folder."""
    from lorank.files import is_folder, kind_of

    return path.suffix.lower() == ".zarr" or (not is_folder(path) and kind_of(path) in NETCDF)


def _fill_text(
    path: Path,
    output: Path,
    labels: str | None,
    kinds: dict[str, Any],
    delimiter: str | None,
    header: bool | None,
    habits: Habits,
    sheet: str | None,
    digits: int,
    draws: int | None,
    params: dict[str, Any],
) -> tuple[int, int]:
    from lorank.files import kind_of, open_input, reading_once, write_bytes
    from lorank.tables import write
    from lorank.tables.names import position_of
    from lorank.tables.parquet import SUFFIXES
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
    for name in kinds:
        position_of(name, table.names, path)
    if table.label is not None and (labels is not None or not table.file.columns[0]):
        kinds = {table.names[table.label]: "id", **kinds}
    answers, filled, cells = _impute(table.typed(), kinds, draws, params)

    def spell(number: float) -> str:
        return f"{number:.{digits}g}".replace(".", habits.decimal)

    for full, where in zip(answers, _outputs(path, output, draws)):
        if where.suffix.lower() in SUFFIXES:
            write(where, dict(zip(full.column_names, full.columns)))
        else:
            write_bytes(where, table.filled(full.to_pydict(), spell).decode().encode(habits.encoding))
    return filled, cells


def _fill_parquet(
    path: Path, output: Path, labels: str | None, kinds: dict[str, Any], draws: int | None, params: dict[str, Any]
) -> tuple[int, int]:
    from lorank.tables import parquet, write
    from lorank.tables.names import position_of, refuse_twice

    table = parquet.read_whole(path)
    refuse_twice(table.column_names, table.column_names, path)
    for name in (*kinds, *([] if labels is None else [labels])):
        position_of(name, table.column_names, path)
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])  # a range is no column
    ids = [name for name in (labels, *index) if isinstance(name, str) and name in table.column_names]
    answers, filled, cells = _impute(table, dict.fromkeys(ids, "id") | kinds, draws, params)
    for full, where in zip(answers, _outputs(path, output, draws)):
        write(where, dict(zip(full.column_names, full.columns)))
    return filled, cells


def kinds_of(assignments: list[str] | None) -> dict[str, Any]:
    """What --kind says of columns: income=positive, share=bounded:0:1, risk=ordinal:low:middle:high."""
    kinds: dict[str, Any] = {}
    for text in assignments or ():
        name, equals, what = text.rpartition("=")
        kind, *more = what.split(":")
        if not (name and equals and kind):
            raise typer.BadParameter(f"give a column and its kind, such as income=positive, not {text!r}.")
        if kind == "bounded":
            more = [number_or_auto(bound, "--kind", float) for bound in more]
        kinds[name] = (kind, *more) if more else kind
    return kinds


def _outputs(table: Path, output: Path, draws: int | None) -> list[Path]:
    """Where the filled tables go: filled.csv, or filled-1.csv, filled-2.csv ..., none of which is the table itself."""
    if draws is None:
        return [output]
    made = [output.with_name(f"{output.stem}-{number}{output.suffix}") for number in range(1, draws + 1)]
    refuse_what_is_read(made, [table])
    return made


def _impute(table: Any, kinds: dict[str, Any], draws: int | None, params: dict[str, Any]) -> tuple[list[Any], int, int]:
    """An Arrow table with its missing cells filled, or one for each draw; how many these cells are, and all."""
    import numpy as np

    from lorank.estimators import LowRankImputer
    from lorank.estimators.columns import describe

    if not any(column.is_null(nan_is_null=True).true_count for column in _chunks(table)):
        say("No cell is missing; the table is copied as it is.")
        return [table] * (draws or 1), 0, table.num_rows * table.num_columns
    first = table.column_names[0]
    is_text = str(table.schema.types[0]) in ("string", "large_string")
    # Names in the first column are those of the rows, as usual, and need no warning.
    if first not in kinds and is_text and describe(first, table[first].to_pylist()).kind == "id":
        kinds = {first: "id", **kinds}
    imputer = LowRankImputer(kinds=kinds, **params).fit(table)
    cells = imputer.layout_.cells(table)
    answers = [imputer.complete()] if draws is None else imputer.draws(draws)
    return answers, int(np.isnan(cells).sum()), cells.size


def _chunks(table: Any) -> Iterator[Any]:
    for column in table.columns:
        yield from column.chunks


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
