"""`lorank recommend`: the best columns for rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.inputs import spelled_for_shards
from lorank.cli.options import JsonOption, ModelArgument, OutputOption
from lorank.cli.terminal import answer_table, answering, say
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
    with ProgressBar("Recommending", observations.shape[0]) as bar:
        ranking = rank(fitted, rows, n, seen=seen, advance=bar.advance)
    if not ranking.rows.size:
        say("Every column was seen in these rows; nothing is left to recommend.")
    names = getattr(fitted, "columns_", ("row", "column"))
    answer_table({names[0]: ranking.rows, names[1]: ranking.cols, "score": ranking.scores}, output, as_json)


def recommend_from_shards(
    folder: Path, rows: list[str] | None, n: int, seen: bool, output: Path | None, as_json: bool
) -> None:
    """The best columns for rows, some rows at a time."""
    import numpy as np

    from lorank.distributed import open_shards

    model = open_shards(folder)
    chosen = None if rows is None else spelled_for_shards(np.array(rows), "row", model)
    lines = 0
    with (
        ProgressBar("Recommending", model.shape[0] if rows is None else len(rows)) as bar,
        answering(output, as_json) as append,
    ):
        for ranking in model.recommend(chosen, n, seen=seen):
            append({model.columns_[0]: ranking.rows, model.columns_[1]: ranking.cols, "score": ranking.scores})
            lines += ranking.rows.size
            bar.advance(np.unique(ranking.rows).size)
    if not lines:
        say("Every column was seen in these rows; nothing is left to recommend.")
