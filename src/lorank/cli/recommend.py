"""`lorank recommend`: the best columns for rows."""

from __future__ import annotations

from typing import Annotated

import typer

from lorank.cli.options import JsonOption, ModelArgument, OutputOption
from lorank.cli.terminal import answering, say
from lorank.progress import ProgressBar


def recommend(
    model: ModelArgument,
    row: Annotated[list[str] | None, typer.Option("--row", help="Id of a row; may be given several times.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Recommend for all rows.")] = False,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of columns for each row.")] = 10,
    seen: Annotated[bool, typer.Option("--seen", help="Do not leave out observed columns.")] = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the columns with the highest predictions for rows, without those that were observed."""
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
        ProgressBar("Recommending", fitted.shape[0] if rows is None else rows.size) as bar,
        answering(output, as_json) as append,
    ):
        for ranking in fitted.rankings(rows, n, seen=seen, advance=bar.advance):
            append({**dict(zip(titles, ranking)), "score": ranking.scores})
            lines += ranking.rows.size
    if not lines:
        say("Every column was seen in these rows; nothing is left to recommend.")
