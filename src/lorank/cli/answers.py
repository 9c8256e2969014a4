"""`lorank predict`, `recommend` and `similar`: a model and names in, answers out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    from lorank.models import Model

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="csv, tsv or parquet; standard output if not given.")
]


class Unseen(StrEnum):
    """What --unseen may be."""

    bias = "bias"
    error = "error"


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
    import numpy as np

    import lorank
    from lorank.errors import InputError
    from lorank.tables import reading as tables
    from lorank.tables.names import as_model_spells, spelled

    fitted = lorank.load(model)
    names = pair_columns(pairs, fitted, row, col, delimiter, header)
    lines = 0
    kinds: list[str] = []
    with Bar(f"Predicting {pairs.name}", pairs.stat().st_size) as bar, answering(output, as_json) as append:
        for *sides, _ in tables.blocks(pairs, *names, None, delimiter, header, bar.advance):
            given = [spelled(distinct) for distinct, _ in sides]
            kinds = kinds or [part.dtype.kind for part in given]
            # A column of the answer has one type: once text, always text.
            given = [part.astype(str) if kind == "U" else part for part, kind in zip(given, kinds)]
            if output is not None and output.suffix in tables.PARQUET and kinds != [part.dtype.kind for part in given]:
                raise InputError(f"Some ids in {pairs} are numbers and some are not; write the answer to a .csv file.")
            own = [as_model_spells(part, ids) for part, ids in zip(given, (fitted.row_ids, fitted.col_ids))]
            pairs_of_block = [part[which] for part, (_, which) in zip(own, sides)]
            found = fitted.predict(*pairs_of_block, interval=interval, clip=clip, unseen=unseen.value)
            columns = {name: part[which] for name, part, (_, which) in zip(names, given, sides)}
            append({**columns, **dict(zip(("prediction", "lower", "upper"), np.atleast_2d(found)))})
            lines += sides[0][1].size
        if not lines:
            raise InputError(f"{pairs} has a header and no lines.")


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
    import numpy as np

    import lorank
    from lorank.tables.names import as_model_spells

    fitted = lorank.load(model)
    rows = None if every else as_model_spells(np.array(row), fitted.row_ids)
    titles = (fitted.columns or ("row", "column"))[:2]
    lines = 0
    with (
        Bar("Recommending", fitted.shape[0] if rows is None else rows.size) as bar,
        answering(output, as_json) as append,
    ):
        for ranking in fitted.rankings(rows, n, seen=seen, advance=bar.advance):
            append({**dict(zip(titles, ranking)), "score": ranking.scores})
            lines += ranking.rows.size
    if not lines:
        say("Every column was seen in these rows; nothing is left to recommend.")


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

    import lorank
    from lorank.tables.names import as_model_spells

    fitted = lorank.load(model)
    ids = fitted.row_ids if row is not None else fitted.col_ids
    name = as_model_spells(np.array([row if row is not None else col]), ids).tolist()[0]
    names, cosine = fitted.similar(n=n, **({"row": name} if row is not None else {"col": name}))
    titles = fitted.columns or ("row", "column")
    with answering(output, as_json) as append:
        append({titles[0 if row is not None else 1]: names, "cosine": cosine})


def pair_columns(
    path: Path, model: Model, row: str | None, col: str | None, delimiter: str | None, header: bool | None
) -> tuple[str, str]:
    """The id columns of a table: those named, those of the model's own table, or the first two of two or three."""
    from lorank.errors import InputError
    from lorank.tables import reading as tables

    columns = tables.column_names(path, delimiter, header)
    own = model.columns or (None, None)
    row, col = row or (own[0] if own[0] in columns else None), col or (own[1] if own[1] in columns else None)
    if row is None and col is None and len(columns) in (2, 3):
        row, col = columns[:2]
        say(f"Taking column {row!r} as rows and {col!r} as columns.")
    if row is None or col is None:
        raise InputError(f"Say which columns of {path} are --row and --col; there are {', '.join(columns)}.")
    return row, col


@contextmanager
def answering(output: Path | None, as_json: bool) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that adds lines to a table, in a file or on standard output; lined up at the end on a terminal."""
    import numpy as np

    from lorank.tables.appending import appending

    if output is None and not as_json and sys.stdout.isatty():
        parts: list[Mapping[str, Any]] = []
        yield parts.append
        if parts:
            answer_table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, as_json)
        return
    lines = 0
    with appending(output, as_json) as append:

        def count(columns: Mapping[str, Any]) -> None:
            nonlocal lines
            append(columns)
            lines += len(next(iter(columns.values())))

        yield count
    if output is not None:
        say(f"{lines} lines in {output}.")
