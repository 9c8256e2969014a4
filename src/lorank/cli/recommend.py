"""`lorank recommend`: the best columns for rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.options import JsonOption, ModelArgument, OutputOption, SpreadsheetOption, TitlesOption
from lorank.cli.terminal import answering, beside, say
from lorank.progress import ProgressBar

if TYPE_CHECKING:
    from lorank.models import Model

# A word that ends like this names a table, even where there is none: a deny list must not be lost by a slip.
TABLES = (".csv", ".tsv", ".txt", ".gz", ".zip", ".parquet", ".pq", ".xlsx", ".jsonl")
FILTER = "Id of a column, or a table of them (one column: for all rows; two: row and column, for the rows in it)"
AllowOption = Annotated[
    list[str] | None, typer.Option("--allow", help=f"{FILTER}: nothing else is listed. May be given several times.")
]
DenyOption = Annotated[
    list[str] | None, typer.Option("--deny", help=f"{FILTER} that is not listed. May be given several times.")
]
MinCountOption = Annotated[int, typer.Option(min=0, help="Leave out columns with fewer observed entries.")]
DiversityOption = Annotated[
    float, typer.Option(min=0.0, max=0.99, help="From 0, the best columns, towards 1, columns unlike each other.")
]


def recommend(
    model: ModelArgument,
    row: Annotated[list[str] | None, typer.Option("--row", help="Id of a row; may be given several times.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Recommend for all rows.")] = False,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of columns for each row.")] = 10,
    seen: Annotated[bool, typer.Option("--seen", help="Do not leave out observed columns.")] = False,
    allow: AllowOption = None,
    deny: DenyOption = None,
    min_count: MinCountOption = 0,
    diversity: DiversityOption = 0.0,
    titles: TitlesOption = None,
    output: OutputOption = None,
    spreadsheet: SpreadsheetOption = True,
    as_json: JsonOption = False,
) -> None:
    """List the columns with the highest predictions for rows, without those that were observed.

    Example: lorank recommend model.lorank --row user-0042 -n 5 --deny watched.csv --titles films.csv
    """
    if bool(row) == every:
        raise typer.BadParameter("give --row, or --all for all rows.")
    import numpy as np

    import lorank
    from lorank.tables.names import as_model_spells

    fitted = titled(lorank.load(model), titles)
    rows = None if every else as_model_spells(np.array(row), fitted.row_ids)
    filters = {"min_count": min_count, "diversity": diversity, **filters_of(fitted, allow, deny)}
    lines = 0
    with (
        ProgressBar("Recommending", fitted.shape[0] if rows is None else rows.size) as bar,
        answering(output, as_json, spreadsheet) as append,
    ):
        for ranking in fitted.rankings(rows, n, seen=seen, advance=bar.advance, **filters):
            append(list_columns(fitted, ranking))
            lines += ranking.rows.size
    remark = fitted.remark_on_lists()
    if remark and fitted.setting.grades is None:
        say(remark)
    if not lines:
        say("Every column was seen in these rows, or left out; nothing is left to recommend.")


def titled(model: Model, table: Path | None) -> Model:
    """The model with the titles of a table of columns, if one is given."""
    if table is None:
        return model
    from lorank.tables.side_tables import with_titles_of

    return with_titles_of(model, table)


def list_columns(model: Model, ranking: Any) -> dict[str, Any]:
    """A ranking as columns of a table: ids under the names of the model's own table, titles, scores."""
    from lorank.models.recommending import untaken

    names = (model.columns or ("row", "column"))[:2]
    named = untaken(ranking.titles, (*names, "score"))
    return beside({**dict(zip(names, ranking)), **named}, {"score": ranking.scores})


def titles_beside(model: Model, ids: Any, axis: int, taken: tuple[str, ...]) -> dict[str, Any]:
    """Titles of rows or columns as columns of a table, under names that are not taken."""
    from lorank.models.recommending import untaken

    known = (model.row_titles, model.col_titles)[axis]
    return untaken(model.titles(model.find(ids, axis), axis) if known and ids.size else {}, taken)


def filters_of(model: Model, allow: list[str] | None, deny: list[str] | None) -> dict[str, Any]:
    """The columns of --allow and --deny: for all rows, or by row where a table has two columns."""
    return {"allow": _columns_of(model, allow), "deny": _columns_of(model, deny)}


def _columns_of(model: Model, given: list[str] | None) -> Any:
    if not given:
        return None
    import numpy as np

    from lorank.errors import InputError
    from lorank.files import url_of
    from lorank.tables.names import as_model_spells
    from lorank.tables.side_tables import read_columns

    ids = model.col_ids
    for_all: list[str] = []
    by_row: dict[str, list[str]] = {}
    for word in given:
        if url_of(word) is None and not Path(word).is_file():
            if Path(word).suffix.lower() in TABLES and (ids is None or ids.find([word])[0] < 0):
                raise InputError(f"There is no file {word}, and no column of that name.")
            for_all.append(word)
            continue
        columns = list(read_columns(Path(word)).values())
        if len(columns) == 1:
            for_all += columns[0].tolist()
        elif len(columns) == 2:
            for row, col in zip(columns[0].tolist(), columns[1].tolist()):
                by_row.setdefault(row, []).append(col)
        else:
            raise InputError(f"{word} should have one column (ids of columns) or two (row and column).")
    if for_all and by_row:
        raise InputError("Columns for all rows and columns by row cannot go together; give one kind.")
    if for_all:
        return as_model_spells(np.array(for_all), ids)
    rows = as_model_spells(np.array(list(by_row)), model.row_ids).tolist()
    return {row: as_model_spells(np.array(cols), ids) for row, cols in zip(rows, by_row.values())}
