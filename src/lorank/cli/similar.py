"""`lorank similar`: columns like a column, or rows like a row."""

from __future__ import annotations

from typing import Annotated

import typer

from lorank.cli.options import JsonOption, ModelArgument, OutputOption, SpreadsheetOption
from lorank.cli.terminal import answering, beside


def similar(
    model: ModelArgument,
    col: Annotated[str | None, typer.Option("--col", help="Id of a column.")] = None,
    row: Annotated[str | None, typer.Option("--row", help="Id of a row.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Length of the list.")] = 10,
    output: OutputOption = None,
    spreadsheet: SpreadsheetOption = True,
    as_json: JsonOption = False,
) -> None:
    """List the columns most similar to a column, or the rows most similar to a row.

    Example: lorank similar model.lorank --col film-001 -n 5
    """
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
    with answering(output, as_json, spreadsheet) as append:
        append(beside({titles[0 if row is not None else 1]: names}, {"cosine": cosine}))
