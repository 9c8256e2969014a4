"""`lorank update`: a model takes in more entries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.fit import refuse_diverged
from lorank.cli.inputs import names_like, read_table
from lorank.cli.options import (
    ColOption,
    DelimiterOption,
    Duplicates,
    DuplicatesOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    RowOption,
    ValueOption,
)
from lorank.cli.terminal import answer


def update(
    model: ModelArgument,
    entries: Annotated[Path, typer.Argument(help="Table of new entries: a row id, a column id, a value.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Model to write; the same file if not given.")
    ] = None,
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    duplicates: DuplicatesOption = Duplicates.error,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take new entries into a model, also of new rows and columns, and solve again from where it stands.

    An entry that the model has already gets the new value. Weights that were tuned stay as they are.

    Example: lorank update model.lorank today.csv
    """
    import lorank
    from lorank.estimators import MatrixCompletion
    from lorank.files import check_writable

    target = output or model
    check_writable(target)
    fitted = lorank.load(model)
    names = names_like(fitted, row, col, value)
    observations, _ = read_table(entries, *names, delimiter, header, duplicates)
    updated = MatrixCompletion.from_model(fitted).partial_fit(observations).model_
    refuse_diverged(updated)
    updated.save(target)
    m, n = updated.shape
    facts = {
        "model": str(target),
        "rows": m,
        "columns": n,
        "entries": updated.entries,
        "new_rows": m - fitted.shape[0],
        "new_columns": n - fitted.shape[1],
        "iterations": updated.result.n_iter,
        "seconds": updated.result.seconds,
    }
    answer(facts, as_json)
