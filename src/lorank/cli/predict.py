"""`lorank predict`: values at (row, column) pairs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from lorank.cli.inputs import bytes_of, habits_of, pair_columns
from lorank.cli.options import (
    ClipOption,
    ColOption,
    CommentOption,
    DecimalOption,
    DelimiterOption,
    EncodingOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    NaOption,
    OutputOption,
    RowOption,
    SheetOption,
    SpreadsheetOption,
)
from lorank.cli.terminal import answering, beside, say
from lorank.progress import ProgressBar


class Unseen(StrEnum):
    """What --unseen may be."""

    bias = "bias"
    error = "error"


def predict(
    model: ModelArgument,
    pairs: Annotated[Path, typer.Argument(help="Table with a row id and a column id on each line.")],
    output: OutputOption = None,
    spreadsheet: SpreadsheetOption = False,
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
    flag: Annotated[
        bool, typer.Option("--flag-unknown", help="Add a column that says which ids the model was not fitted on.")
    ] = False,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    na: NaOption = None,
    comment: CommentOption = "",
    sheet: SheetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the values at (row, column) pairs.

    Example: lorank predict model.lorank pairs.csv --interval 0.9 -o predicted.csv
    """
    if unseen not in ("bias", "error"):
        raise typer.BadParameter(f"give bias or error, not {unseen!r}.", param_hint="--unseen")
    import numpy as np

    import lorank
    from lorank.errors import InputError
    from lorank.tables import parquet
    from lorank.tables import reading as tables
    from lorank.tables.names import as_model_spells, spelled
    from lorank.tables.translation import translated

    words = np.array(["", "row", "column", "row and column"])
    fitted = lorank.load(model)
    lines = unknown = 0
    kinds: list[str] = []
    habits = habits_of(encoding, decimal, na, comment)
    with (
        translated(pairs, habits, delimiter, sheet) as plain,
        ProgressBar(f"Predicting {pairs.name}", bytes_of(plain)) as bar,
        answering(output, as_json, spreadsheet) as append,
    ):
        names = pair_columns(plain, fitted, row, col, delimiter, header)
        delimiter = tables.find_delimiter(plain, delimiter, names)
        for *sides, _ in tables.blocks(plain, *names, None, delimiter, header, bar.advance):
            given = [spelled(distinct) for distinct, _ in sides]
            kinds = kinds or [_kind(part) for part in given]
            # A column of the answer has one type: once text, always text.
            given = [part.astype(str) if kind == "U" != _kind(part) else part for part, kind in zip(given, kinds)]
            if (
                output is not None
                and output.suffix.lower() in parquet.SUFFIXES
                and kinds != [_kind(part) for part in given]
            ):
                raise InputError(f"Some ids in {pairs} are numbers and some are not; write the answer to a .csv file.")
            own = [as_model_spells(part, ids) for part, ids in zip(given, (fitted.row_ids, fitted.col_ids))]
            pairs_of_block = [part[which] for part, (_, which) in zip(own, sides)]
            found = fitted.predict(*pairs_of_block, interval=interval, clip=clip, unseen=unseen.value)
            columns = {name: part[which] for name, part, (_, which) in zip(names, given, sides)}
            new = [
                (fitted.find(part, axis, refuse=False) < 0)[which]
                for axis, (part, (_, which)) in enumerate(zip(own, sides))
            ]
            flags = {"unknown": words[new[0] + 2 * new[1]]} if flag else {}
            append(beside(columns, dict(zip(("prediction", "lower", "upper"), np.atleast_2d(found))) | flags))
            lines += sides[0][1].size
            unknown += int((new[0] | new[1]).sum())
        if not lines:
            raise InputError(f"{pairs} has a header and no lines.")
    if unknown:
        how = "predicted from the offsets" if fitted.setting.grades is None else "not preferred"
        say(f"{unknown} of {lines} pairs have an id that the model was not fitted on: {how}.")


def _kind(ids: Any) -> str:
    """numpy's letter for a type of ids; text may be kept as objects."""
    return "U" if ids.dtype.kind == "O" else str(ids.dtype.kind)
