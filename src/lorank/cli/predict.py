"""`lorank predict`: values at (row, column) pairs."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from lorank.cli.inputs import pair_columns, spelled_for_shards
from lorank.cli.options import (
    ClipOption,
    ColOption,
    DelimiterOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    OutputOption,
    RowOption,
)
from lorank.cli.terminal import answer_table, answering
from lorank.progress import ProgressBar


class Unseen(StrEnum):
    """What --unseen may be."""

    bias = "bias"
    error = "error"


# Pairs that are predicted at a time.
BLOCK = 1 << 20


def predict(
    model: ModelArgument,
    pairs: Annotated[Path, typer.Argument(help="Table with a row id and a column id on each line.")],
    output: OutputOption = None,
    row: RowOption = None,
    col: ColOption = None,
    interval: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Also print the bounds of an interval with this coverage, such as 0.9."),
    ] = None,
    clip: ClipOption = False,
    unseen: Annotated[
        Unseen,
        typer.Option(help="Ids that the model was not fitted on: predict from the biases, or stop with an error."),
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
    with ProgressBar(f"Reading {pairs.name}", pairs.stat().st_size) as bar:
        table = tables.read_long(pairs, *names, None, delimiter=delimiter, header=header, advance=bar.advance)
    row_ids = as_model_spells(table.row_ids, fitted.observations_.row_ids)
    col_ids = as_model_spells(table.col_ids, fitted.observations_.col_ids)
    parts = []
    with ProgressBar("Predicting", table.rows.size) as bar:
        for start in range(0, table.rows.size, BLOCK):
            block = slice(start, start + BLOCK)
            found = fitted.predict(row_ids[table.rows[block]], col_ids[table.cols[block]], interval, clip)
            parts.append(np.atleast_2d(found))
            bar.advance(parts[-1].shape[1])
    predicted = np.concatenate(parts, axis=1)
    titles = ("prediction", "lower", "upper")[: len(predicted)]
    columns = {names[0]: table.row_ids[table.rows], names[1]: table.col_ids[table.cols], **dict(zip(titles, predicted))}
    answer_table(columns, output, as_json)


def predict_from_shards(
    folder: Path,
    pairs: Path,
    names: Callable[[Any], tuple[str, str]],
    output: Path | None,
    unseen: str,
    delimiter: str | None,
    header: bool | None,
    as_json: bool,
) -> None:
    """Predictions for a table of pairs, which is read, answered and written block by block."""
    import numpy as np

    from lorank.distributed import open_shards
    from lorank.tables import reading as tables

    model = open_shards(folder)
    titles = names(model)
    with ProgressBar(f"Predicting {pairs.name}", pairs.stat().st_size) as bar, answering(output, as_json) as append:
        for rows, cols, _ in tables.blocks(pairs, *titles, None, delimiter, header, bar.advance):
            given = [np.array(distinct)[which] for distinct, which in (rows, cols)]
            own = [spelled_for_shards(part, side, model) for part, side in zip(given, ("row", "col"))]
            append({titles[0]: given[0], titles[1]: given[1], "prediction": model.predict(*own, unseen=unseen)})
