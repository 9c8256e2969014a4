"""`lorank fold-in`: lists for rows that were not in the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.inputs import names_like, read_table
from lorank.cli.options import (
    ColOption,
    DelimiterOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    OutputOption,
    RowOption,
    TitlesOption,
    ValueOption,
)
from lorank.cli.recommend import AllowOption, DenyOption, filters_of, list_columns, titled
from lorank.cli.terminal import answering


def fold_in(
    model: ModelArgument,
    entries: Annotated[Path, typer.Argument(help="Table of entries of new rows: a row id, a column id, a value.")],
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of columns for each row.")] = 10,
    allow: AllowOption = None,
    deny: DenyOption = None,
    titles: TitlesOption = None,
    output: OutputOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """List columns for rows that were not in the data, from a few entries of theirs; the model stays as it is.

    Example: lorank fold-in model.lorank new-users.csv -n 5
    """
    import lorank

    fitted = titled(lorank.load(model), titles)
    names = names_like(fitted, row, col, value)
    observations, _ = read_table(entries, *names, delimiter, header)
    new = fitted.fold_in(observations)
    with answering(output, as_json) as append:
        for ranking in new.rankings(None, n, **filters_of(new, allow, deny)):
            append(list_columns(new, ranking))
