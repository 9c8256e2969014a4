"""`lorank compare`: which method suits a table."""

from __future__ import annotations

from typing import Annotated

import typer

from lorank.cli.inputs import habits_of, read_table, sides_of, times_of
from lorank.cli.method_options import SetOption, methods_of
from lorank.cli.options import (
    ColFeaturesOption,
    ColOption,
    CommentOption,
    DecimalOption,
    DelimiterOption,
    Duplicates,
    DuplicatesOption,
    EncodingOption,
    GoalOption,
    HeaderOption,
    JsonOption,
    NaOption,
    RowFeaturesOption,
    RowOption,
    SeedOption,
    SheetOption,
    TableArgument,
    ThreadsOption,
    ValueOption,
    WhenOption,
)
from lorank.cli.terminal import answering, say
from lorank.progress import ProgressBar

METHODS = "auto,offsets,nnfn,factored-nuclear,nuclear,mf,bpmf"
LISTS = "nnfn,most popular,item-item,ease"


def compare(
    table: TableArgument,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names separated by commas, or all; auto is what lorank fit chooses by itself; for lists also "
            "most popular, item-item and ease.",
            show_default=f"{METHODS}; for lists {LISTS}",
        ),
    ] = None,
    goal: GoalOption = "auto",
    metric: Annotated[str, typer.Option(help="For --goal ranking: the measure of lists.")] = "ndcg@10",
    assignments: SetOption = None,
    time: WhenOption = None,
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    ranks: Annotated[str, typer.Option(help="Ranks to try, separated by commas.")] = "5,10",
    trials: Annotated[int, typer.Option(min=1, help="Largest number of fits for each method.")] = 32,
    max_seconds: Annotated[float, typer.Option(help="Time for the search of each method.")] = 60.0,
    test: Annotated[float, typer.Option(min=0.01, max=0.7, help="Fraction of the entries to test on.")] = 0.2,
    biases: Annotated[bool, typer.Option(help="Fit an offset of each row and column.")] = False,
    row_features: RowFeaturesOption = None,
    col_features: ColFeaturesOption = None,
    duplicates: DuplicatesOption = Duplicates.error,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    na: NaOption = None,
    comment: CommentOption = "",
    sheet: SheetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit several methods and compare their errors on the same held-out entries.

    The parameters of each are tuned by the same search, in the same time. With --goal ranking lists are compared: those
    of a model that ranks, of the most popular columns, of columns like those that a row has, and of EASE. With --time
    what came last in each row is to be found.

    Example: lorank compare ratings.csv --row user --col film --value stars
    """
    if goal not in ("auto", "values", "ranking"):
        raise typer.BadParameter(f"give auto, values or ranking, not {goal!r}.", param_hint="--goal")
    try:
        widths = [int(rank) for rank in ranks.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"give whole numbers with commas between, not {ranks!r}.", param_hint="--ranks"
        ) from None
    import lorank
    from lorank.models.preferences import is_constant

    chosen = None if methods is None else methods_of(methods, assignments)
    habits = habits_of(encoding, decimal, na, comment)
    observations, columns = read_table(table, row, col, value, delimiter, header, duplicates, habits, sheet, time=time)
    times = times_of(table, columns, time, delimiter, header, habits, sheet)
    sides = sides_of((observations.row_ids, observations.col_ids), columns, row_features, col_features)
    if goal == "auto" and ((columns is not None and len(columns) == 2) or is_constant(observations)):
        say("There are no values, or all are the same, so that lists are compared: --goal ranking.")
        goal = "ranking"
    if chosen is None:
        chosen = methods_of(LISTS if goal == "ranking" else METHODS, assignments)
    with ProgressBar("Comparing") as bar:
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
            **sides,
            goal="values" if goal == "auto" else goal,
            metric=metric,
            times=times,
            on_trial=lambda done, expected: bar.to(done / expected, 1.0, f"Comparing, fit {done} of {expected}"),
        )
    with answering(None, as_json) as append:
        append({column: comparison[column] for column in comparison.columns})
