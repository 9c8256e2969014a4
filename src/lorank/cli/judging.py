"""`lorank evaluate` and `compare`: how good a model is, and which method suits the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.answers import pair_columns
from lorank.cli.fitting import Duplicates, DuplicatesOption, TableArgument, read_table
from lorank.cli.methods import SetOption, methods_of
from lorank.cli.terminal import (
    Bar,
    ClipOption,
    ColOption,
    DelimiterOption,
    HeaderOption,
    JsonOption,
    ModelArgument,
    RowOption,
    SeedOption,
    ThreadsOption,
    ValueOption,
    answer,
    answer_table,
    say,
)

if TYPE_CHECKING:
    from lorank.models import Model
    from lorank.observations import Observations


def evaluate(
    model: ModelArgument,
    test: Annotated[Path, typer.Argument(help="A long table of entries that the model was not fitted on.")],
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Length of the lists that are judged.")] = 10,
    relevant: Annotated[
        float | None, typer.Option(help="Values from here on are what a list should hold; else the training mean.")
    ] = None,
    clip: ClipOption = False,
    duplicates: DuplicatesOption = Duplicates.error,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge a model by a test table: RMSE, MAE, NDCG@k, recall@k."""
    import numpy as np

    import lorank
    from lorank.errors import InputError
    from lorank.models.ranking_metrics import ranking_scores
    from lorank.models.recommending import was_seen
    from lorank.tables import reading as tables

    fitted = lorank.load(model)
    row, col = pair_columns(test, fitted, row, col, delimiter, header)
    value = value or _value_column(tables.column_names(test, delimiter, header), fitted, row, col, test)
    with Bar(f"Reading {test.name}", test.stat().st_size) as bar:
        table = tables.read_long(test, row, col, value, delimiter=delimiter, header=header, advance=bar.advance)
    known, unknown = _known(table.observations(duplicates), fitted)
    if unknown:
        say(f"{unknown} of {known.nnz + unknown} entries have ids that the model does not know, and are left out.")
    if not known.nnz:
        raise InputError(f"The model knows none of the ids in {test}.")
    again = int(was_seen(fitted, known.rows, known.cols).sum())
    if again:
        say(f"{again} of these entries were in the training data: the errors are flattering, and lists leave them out.")
    predicted = fitted.factors.predict(known.rows, known.cols).astype(np.float64)
    if clip and fitted.range is None:
        raise InputError("The range of the data is not known to this model; leave out --clip.")
    residuals = (np.clip(predicted, *(fitted.range or ())) if clip else predicted) - known.values
    facts: dict[str, Any] = {
        "entries": known.nnz,
        "unknown": unknown,
        "rmse": float(np.sqrt(np.mean(residuals**2))),
        "mae": float(np.abs(residuals).mean()),
    }
    if fitted.observations is not None:
        facts["relevant_from"] = fitted.mean if relevant is None else relevant
        with Bar("Ranking", int(np.count_nonzero(np.diff(known.by_row.pointers)))) as bar:
            facts |= ranking_scores(fitted, known, k, relevant, bar.advance)
    else:
        say("The model was saved without its data, so that its lists cannot be judged.")
    answer(facts, as_json)


def _value_column(columns: tuple[str, ...], model: Model, row: str, col: str, path: Path) -> str:
    """The model's own value column, or the one that is left of three."""
    from lorank.errors import InputError

    own = (model.columns or (None, None, None))[2]
    rest = [name for name in columns if name not in (row, col)]
    if own in rest:
        return str(own)
    if len(rest) != 1:
        raise InputError(f"Say which column of {path} is --value; there are {', '.join(columns)}.")
    return rest[0]


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


def compare(
    table: TableArgument,
    methods: Annotated[
        str, typer.Option(help="Names with commas between, or all.")
    ] = "nnfn,factored-nuclear,nuclear,mf",
    assignments: SetOption = None,
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    ranks: Annotated[str, typer.Option(help="Ranks to try, with commas between.")] = "5,10",
    trials: Annotated[int, typer.Option(min=1, help="Fits for each method, at most.")] = 32,
    max_seconds: Annotated[float, typer.Option(help="For each method's search.")] = 60.0,
    test: Annotated[float, typer.Option(min=0.01, max=0.7, help="Share of the entries to judge by.")] = 0.2,
    biases: Annotated[bool, typer.Option(help="Offsets of rows and columns.")] = False,
    duplicates: DuplicatesOption = Duplicates.error,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit several methods and judge them by the same held-out entries.

    Each is tuned by the same search in the same time.
    """
    try:
        widths = [int(rank) for rank in ranks.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"give whole numbers with commas between, not {ranks!r}.", param_hint="--ranks"
        ) from None
    import lorank

    chosen = methods_of(methods, assignments)
    observations, _ = read_table(table, row, col, value, delimiter, header, duplicates)
    with Bar("Comparing") as bar:
        comparison = lorank.compare(
            observations,
            chosen,
            ranks=widths,
            trials=trials,
            budget=max_seconds,
            test=test,
            seed=seed,
            biases=biases,
            n_jobs=threads,
            on_trial=lambda done, expected: bar.to(done / expected, 1.0, f"Comparing, fit {done} of {expected}"),
        )
    answer_table({column: comparison[column] for column in comparison.columns}, as_json)
