"""`lorank predict`, `recommend` and `similar`: a model and names in, answers out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.folders import predict_from_shards, recommend_from_shards
from lorank.cli.terminal import (
    Bar,
    ClipOption,
    ColOption,
    DelimiterOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    RowOption,
    answer_table,
    say,
)

if TYPE_CHECKING:
    from lorank.estimators import MatrixCompletion

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="csv, tsv or parquet; standard output if not given.")
]


class Unseen(StrEnum):
    """What --unseen may be."""

    bias = "bias"
    error = "error"


# Pairs that are predicted at a time.
BLOCK = 1 << 20


def predict(
    model: ModelArgument,
    pairs: Annotated[Path, typer.Argument(help="A table with a row id and a column id on each line.")],
    output: OutputOption = None,
    row: RowOption = None,
    col: ColOption = None,
    interval: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Also a range that holds this share of the values, such as 0.9."),
    ] = None,
    clip: ClipOption = False,
    unseen: Annotated[
        Unseen, typer.Option(help="Ids that the model does not know: predict them from what is known, or refuse them.")
    ] = Unseen.bias,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the values at (row, column) pairs."""
    if unseen not in ("bias", "error"):
        raise typer.BadParameter(f"give bias or error, not {unseen!r}.", param_hint="--unseen")
    if model.is_dir():
        if interval is not None:
            raise typer.BadParameter("shards keep no ranges; fit one .lorank file for them.", param_hint="--interval")

        def find_columns(shards: Any) -> tuple[str, str]:
            return pair_columns(pairs, shards, row, col, delimiter, header)

        predict_from_shards(model, pairs, find_columns, output, unseen, delimiter, header, as_json)
        return
    import numpy as np

    from lorank.models import model_file as models
    from lorank.tables import reading as tables
    from lorank.tables.names import as_model_spells

    fitted = models.load(model).set_params(unseen=unseen.value)
    names = pair_columns(pairs, fitted, row, col, delimiter, header)
    with Bar(f"Reading {pairs.name}", pairs.stat().st_size) as bar:
        table = tables.read_long(pairs, *names, None, delimiter=delimiter, header=header, advance=bar.advance)
    row_ids = as_model_spells(table.row_ids, fitted.observations_.row_ids)
    col_ids = as_model_spells(table.col_ids, fitted.observations_.col_ids)
    parts = []
    with Bar("Predicting", table.rows.size) as bar:
        for start in range(0, table.rows.size, BLOCK):
            block = slice(start, start + BLOCK)
            found = fitted.predict(row_ids[table.rows[block]], col_ids[table.cols[block]], interval, clip)
            parts.append(np.atleast_2d(found))
            bar.advance(parts[-1].shape[1])
    predicted = np.concatenate(parts, axis=1)
    titles = ("prediction", "lower", "upper")[: len(predicted)]
    columns = {names[0]: table.row_ids[table.rows], names[1]: table.col_ids[table.cols], **dict(zip(titles, predicted))}
    _deliver(columns, output, as_json)


def recommend(
    model: ModelArgument,
    row: Annotated[list[str] | None, typer.Option("--row", help="A row's id; may be given several times.")] = None,
    every: Annotated[bool, typer.Option("--all", help="For all rows.")] = False,
    n: Annotated[int, typer.Option("-n", min=1, help="How many for each row.")] = 10,
    seen: Annotated[bool, typer.Option("--seen", help="Columns that were seen may come again.")] = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """The best columns for rows, leaving out what was seen."""
    if bool(row) == every:
        raise typer.BadParameter("give --row, or --all for all rows.")
    if model.is_dir():
        recommend_from_shards(model, row, n, seen, output, as_json)
        return
    import numpy as np

    from lorank.models import model_file as models
    from lorank.models.recommending import recommend as rank
    from lorank.tables.names import as_model_spells

    fitted = models.load(model)
    observations = fitted.observations_
    rows = None if every else as_model_spells(np.array(row), observations.row_ids)
    with Bar("Recommending", observations.shape[0]) as bar:
        ranking = rank(fitted, rows, n, seen=seen, advance=bar.advance)
    if not ranking.rows.size:
        say("Every column was seen in these rows; nothing is left to recommend.")
    names = getattr(fitted, "columns_", ("row", "column"))
    _deliver({names[0]: ranking.rows, names[1]: ranking.cols, "score": ranking.scores}, output, as_json)


def similar(
    model: ModelArgument,
    col: Annotated[str | None, typer.Option("--col", help="A column's id.")] = None,
    row: Annotated[str | None, typer.Option("--row", help="A row's id.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many.")] = 10,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Columns that are most like a column, or rows like a row."""
    if (row is None) == (col is None):
        raise typer.BadParameter("give either --col or --row.")
    import numpy as np

    from lorank.models import model_file as models
    from lorank.models.recommending import similar as find
    from lorank.tables.names import as_model_spells

    fitted = models.load(model)
    ids = fitted.observations_.row_ids if row is not None else fitted.observations_.col_ids
    name = as_model_spells(np.array([row if row is not None else col]), ids).tolist()[0]
    names, cosine = find(fitted, n=n, **({"row": name} if row is not None else {"col": name}))
    titles = getattr(fitted, "columns_", ("row", "column"))
    _deliver({titles[0 if row is not None else 1]: names, "cosine": cosine}, output, as_json)


def pair_columns(
    path: Path, model: MatrixCompletion, row: str | None, col: str | None, delimiter: str | None, header: bool | None
) -> tuple[str, str]:
    """The id columns of a table: those named, those of the model's own table, or the first two of two or three."""
    from lorank.errors import InputError
    from lorank.tables import reading as tables

    columns = tables.column_names(path, delimiter, header)
    own = getattr(model, "columns_", (None, None))
    row, col = row or (own[0] if own[0] in columns else None), col or (own[1] if own[1] in columns else None)
    if row is None and col is None and len(columns) in (2, 3):
        row, col = columns[:2]
        say(f"Taking column {row!r} as rows and {col!r} as columns.")
    if row is None or col is None:
        raise InputError(f"Say which columns of {path} are --row and --col; there are {', '.join(columns)}.")
    return row, col


def _deliver(columns: dict[str, Any], output: Path | None, as_json: bool) -> None:
    """A table into a file, or onto standard output."""
    if output is None:
        answer_table(columns, as_json)
        return
    from lorank.tables import reading as tables

    tables.write(output, columns)
    say(f"{len(next(iter(columns.values())))} lines in {output}.")
