"""`lorank similar`: columns like a column, or rows like a row."""

from __future__ import annotations

from typing import Annotated

import typer

from lorank.cli.options import JsonOption, ModelArgument, OutputOption, SpreadsheetOption, TitlesOption
from lorank.cli.recommend import titled, titles_beside
from lorank.cli.terminal import answering, beside


def similar(
    model: ModelArgument,
    col: Annotated[list[str] | None, typer.Option("--col", help="Id of a column; may be given several times.")] = None,
    row: Annotated[list[str] | None, typer.Option("--row", help="Id of a row; may be given several times.")] = None,
    but_not: Annotated[
        list[str] | None, typer.Option("--but-not", help="Id of one that is not wanted, nor what is like it.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Length of the list.")] = 10,
    titles: TitlesOption = None,
    output: OutputOption = None,
    spreadsheet: SpreadsheetOption = True,
    as_json: JsonOption = False,
) -> None:
    """List the columns most similar to a column or several, or the rows most similar to rows.

    Example: lorank similar model.lorank --col film-001 --col film-007 --but-not film-031 -n 5
    """
    if bool(row) == bool(col):
        raise typer.BadParameter("give either --col or --row.")
    import numpy as np

    import lorank
    from lorank.tables.names import as_model_spells

    fitted = titled(lorank.load(model), titles)
    axis = 0 if row else 1
    ids = (fitted.row_ids, fitted.col_ids)[axis]
    asked, unwanted = (as_model_spells(np.array(given), ids) if given else None for given in (row or col, but_not))
    found, cosine = fitted.similar(n=n, but_not=unwanted, **{("row", "col")[axis]: asked})
    name = (fitted.columns or ("row", "column"))[axis]
    with answering(output, as_json, spreadsheet) as append:
        append(beside({name: found, **titles_beside(fitted, found, axis, (name, "cosine"))}, {"cosine": cosine}))
