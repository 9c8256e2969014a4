"""`lorank evaluate`: how good a model is on a test table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.inputs import bytes_of, habits_of, pair_columns, value_column
from lorank.cli.options import (
    ClipOption,
    ColOption,
    CommentOption,
    DecimalOption,
    DelimiterOption,
    Duplicates,
    DuplicatesOption,
    EncodingOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    NaOption,
    RowOption,
    SheetOption,
    ValueOption,
)
from lorank.cli.terminal import answer, say
from lorank.progress import ProgressBar

if TYPE_CHECKING:
    from lorank.models import Model
    from lorank.observations import Observations


def evaluate(
    model: ModelArgument,
    test: Annotated[Path, typer.Argument(help="Long table of entries that the model was not fitted on.")],
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Length of the recommended lists.")] = 10,
    relevant: Annotated[
        float | None, typer.Option(help="Smallest value that counts as relevant; the training mean if not given.")
    ] = None,
    metrics: Annotated[
        str,
        typer.Option(
            help="Measures of the lists with commas between: ndcg, recall, precision, map, mrr, coverage, novelty, "
            "calibration; or all."
        ),
    ] = "ndcg,recall",
    clip: ClipOption = False,
    duplicates: DuplicatesOption = Duplicates.error,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    na: NaOption = None,
    comment: CommentOption = "",
    sheet: SheetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the errors of a model on a test table: RMSE, MAE, and its lists beside the most popular columns.

    All columns that were not observed in a row compete for the k places of its list. Of a model that ranks, such as one
    of clicks, lists are all that is measured.

    Example: lorank evaluate model.lorank test.csv
    """
    import numpy as np

    import lorank
    from lorank.errors import InputError
    from lorank.models.ranking_metrics import find_metrics, ranking_scores, relevant_from
    from lorank.models.recommending import was_seen
    from lorank.tables import reading as tables
    from lorank.tables.translation import translated

    wanted = find_metrics(metrics)
    fitted = lorank.load(model)
    habits = habits_of(encoding, decimal, na, comment)
    with translated(test, habits, delimiter, sheet) as plain:
        row, col = pair_columns(plain, fitted, row, col, delimiter, header)
        delimiter = tables.find_delimiter(plain, delimiter, (row, col, value))
        value = value or value_column(tables.column_names(plain, delimiter, header), fitted, row, col, test)
        with ProgressBar(f"Reading {test.name}", bytes_of(plain)) as bar:
            table = tables.read_long(plain, row, col, value, delimiter=delimiter, header=header, advance=bar.advance)
    known, unknown = _known(table.counted() if value is None else table.observations(duplicates), fitted)
    if unknown:
        say(f"{unknown} of {known.nnz + unknown} entries have ids that the model does not know, and are left out.")
    if not known.nnz:
        raise InputError(f"The model knows none of the ids in {test}.")
    again = int(was_seen(fitted, known.rows, known.cols).sum())
    if again:
        say(f"{again} of these entries were in the training data: the errors are flattering, and lists leave them out.")
    predicted = fitted.predictor.predict(known.rows, known.cols).astype(np.float64)
    if clip and fitted.range is None:
        raise InputError("The range of the data is not known to this model; leave out --clip.")
    residuals = (np.clip(predicted, *(fitted.range or ())) if clip else predicted) - known.values
    facts: dict[str, Any] = {"entries": known.nnz, "unknown": unknown}
    if fitted.setting.grades is None:  # one that ranks predicts preferences, not values
        facts |= {"rmse": float(np.sqrt(np.mean(residuals**2))), "mae": float(np.abs(residuals).mean())}
    if fitted.observations is not None:
        least = relevant_from(fitted) if relevant is None else relevant
        facts |= {"relevant_from": least} if np.isfinite(least) else {}
        with ProgressBar("Ranking", int(np.count_nonzero(np.diff(known.by_row.pointers)))) as bar:
            facts |= ranking_scores(fitted, known, k, least, bar.advance, wanted)
        popular = ranking_scores(fitted, known, k, least, metrics=wanted, popular=True)
        facts |= {f"most_popular_{name}": value for name, value in popular.items()}
    else:
        say("The model was saved without its data, so that its lists cannot be judged.")
    answer(facts, as_json)


def _known(test: Observations, model: Model) -> tuple[Observations, int]:
    """The entries of a test table whose ids a model knows, in its rows and columns, and how many it does not."""
    import numpy as np

    from lorank.observations import Observations
    from lorank.observations.identifiers import Identifiers
    from lorank.tables.names import as_model_spells

    found = []
    for ids, own, size in zip((test.row_ids, test.col_ids), (model.row_ids, model.col_ids), model.shape):
        assert ids is not None  # long tables have ids
        own = Identifiers(np.arange(size)) if own is None else own
        found.append(own.find(as_model_spells(ids.values, own)))
    rows, cols = found[0][test.rows], found[1][test.cols]
    known = (rows >= 0) & (cols >= 0)
    entries = (rows[known], cols[known], test.values[known].astype(model.factors.dtype))
    return Observations.from_coo(*entries, model.shape, model.row_ids, model.col_ids), int((~known).sum())
