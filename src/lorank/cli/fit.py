"""`lorank fit`: a table in, a model out."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.inputs import habits_of, read_table, read_validation, share_of, sides_of, times_of
from lorank.cli.method_options import MethodOption, SetOption, ThetaOption, method_of, number_or_auto, numbers
from lorank.cli.options import (
    AddressOption,
    Backend,
    BackendOption,
    BiasesOption,
    BudgetOption,
    ColFeaturesOption,
    ColOption,
    CommentOption,
    DecimalOption,
    DelimiterOption,
    Duplicates,
    DuplicatesOption,
    EffortOption,
    EncodingOption,
    FeaturesOption,
    GoalOption,
    HeaderOption,
    JsonOption,
    LamOption,
    LossOption,
    MaxSecondsOption,
    NaOption,
    OutOfCoreOption,
    RankOption,
    RowFeaturesOption,
    RowOption,
    SeedOption,
    SheetOption,
    TableOrFolderArgument,
    ThreadsOption,
    TitlesOption,
    ValueOption,
    WeightOption,
    WhenOption,
    WorkersOption,
    WorkFolderOption,
    check_command,
    yes_no_auto,
)
from lorank.cli.recommend import titled
from lorank.cli.terminal import answer, noting_interrupts, say, tried
from lorank.errors import InputError
from lorank.files import refuse, size_of, url_of
from lorank.progress import ProgressBar

if TYPE_CHECKING:
    from lorank.estimators import MatrixCompletion
    from lorank.models import Model


def fit(
    table: TableOrFolderArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Model to write; of a folder of parquet files, a folder of shards unless it ends in .lorank.",
        ),
    ] = Path("model.lorank"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an older model that is a folder of shards; a file always is.")
    ] = False,
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    weight: WeightOption = None,
    time: WhenOption = None,
    goal: GoalOption = "auto",
    method: MethodOption = "auto",
    assignments: SetOption = None,
    rank: RankOption = "auto",
    lam: LamOption = "auto",
    theta: ThetaOption = None,
    biases: BiasesOption = "auto",
    row_features: RowFeaturesOption = None,
    col_features: ColFeaturesOption = None,
    features: FeaturesOption = "auto",
    titles: TitlesOption = None,
    loss: LossOption = "auto",
    effort: EffortOption = "balanced",
    validation: Annotated[
        str | None,
        typer.Option(
            help="For early stopping: a fraction of the entries to hold out, such as 0.1, or a file of entries."
        ),
    ] = None,
    duplicates: DuplicatesOption = Duplicates.error,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    max_seconds: MaxSecondsOption = None,
    tol: Annotated[
        float, typer.Option(min=0.0, help="Stop when the relative change of the objective is smaller.")
    ] = 1e-4,
    float32: Annotated[
        bool, typer.Option("--float32", help="Compute in single precision: half the memory, seven digits.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File in which the state is saved regularly; if it exists, the fit continues from it."),
    ] = None,
    keep_data: Annotated[
        bool, typer.Option(help="Keep the entries in the model, so that `recommend` can leave out what was observed.")
    ] = True,
    backend: BackendOption = "local",
    out_of_core: OutOfCoreOption = False,
    workers: WorkersOption = None,
    address: AddressOption = None,
    work_folder: WorkFolderOption = None,
    memory_budget: BudgetOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the checkpoint; an error if there is none.")
    ] = False,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = ".",
    na: NaOption = None,
    comment: CommentOption = "",
    sheet: SheetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a model to a table and save it.

    A long table has a row id, a column id and a value on each line (--row, --col, --value); a wide table is the matrix
    itself, with missing cells. Nothing else needs to be said: the method and its parameters are chosen by the error on
    a tenth of the entries, which is held out; the model is then fitted to all entries. What was tried is printed, and
    kept in the model. --effort says how much time that may take. With --lam nothing is searched: what is not given is
    then the method's own.

    A folder of parquet files is fitted on Ray (--backend ray) or out of core, and no process holds all of it. NNFN is
    tuned on a sample of its rows first, then on all; or lam alone along a path such as --lam 20,10,5.

    Example: lorank fit ratings.csv --row user --col film --value stars -o model.lorank
    """
    runs = Backend.of(table, backend, out_of_core, workers, address, work_folder, memory_budget)
    chosen = method_of(method, assignments)
    params = {
        "method": chosen if assignments else method,
        "rank": number_or_auto(rank, "--rank", int),
        "lam": numbers(lam, "--lam") if runs.in_parts and "," in lam else number_or_auto(lam, "--lam", float),
        "theta": number_or_auto(theta or "auto", "--theta", float),
        "biases": yes_no_auto(biases),
        "features": None if features == "none" else features,
        "loss": loss,
        "effort": effort,
        "random_state": seed,
        "n_jobs": threads,
        "max_seconds": max_seconds,
        "tol": tol,
        "dtype": "float32" if float32 else "float64",
        "goal": goal,
    }
    # A model in a store leaves its checkpoint here: that is changed in place.
    saved = checkpoint or Path(f"{output if url_of(output) is None else output.name}.checkpoint")
    refuse(saved, "A checkpoint")
    if os.path.realpath(saved) == os.path.realpath(output):
        raise InputError(f"{output} cannot be both the model and its checkpoint; give another name to --checkpoint.")
    if resume and not (saved.exists() or any(Path(f"{saved}.{end}").exists() for end in ("path", "sample"))):
        raise InputError(f"There is no {saved} to go on from; leave out --resume to start.")
    from lorank.estimators import MatrixCompletion
    from lorank.estimators.progress import FitProgress
    from lorank.files import check_writable

    # All that can be wrong with the command comes before the table, which may take minutes.
    model = MatrixCompletion(**params)
    check_writable(output, folder=runs.in_parts)
    check_writable(saved)
    if runs.in_parts:
        runs.check_output(output, overwrite)
        if duplicates != Duplicates.error:
            raise typer.BadParameter("a folder must have one value for each pair.", param_hint="--duplicates")
        beyond = {"--time": time, "--titles": titles, "--goal": goal == "ranking"}
        beyond["--loss"] = loss not in ("auto", "squared")
        for option in (option for option, given in beyond.items() if given):
            raise typer.BadParameter("does not go with a folder yet; read it as one table.", param_hint=option)
        _fit_folder(
            table,
            output,
            (row, col, value, weight),
            (row_features, col_features),
            model,
            None if validation is None else share_of(validation),
            runs.options(threads),
            saved,
            keep_checkpoint=checkpoint is not None,
            keep_data=keep_data,
            as_json=as_json,
        )
        return
    if runs.on_ray:
        model.set_params(backend="ray", n_workers=runs.workers)
    check_command(model)
    habits = habits_of(encoding, decimal, na, comment)
    observations, columns = read_table(
        table, row, col, value, delimiter, header, duplicates, habits, sheet, weight, time
    )
    times = times_of(table, columns, time, delimiter, header, habits, sheet)
    if goal == "auto" and columns is not None and len(columns) == 2:
        model.set_params(goal="ranking")
    model.set_params(**sides_of((observations.row_ids, observations.col_ids), columns, row_features, col_features))
    resumed = saved if saved.exists() else None
    held_out = read_validation(validation, columns, delimiter, header, duplicates, habits)
    with ProgressBar(f"Fitting {observations.nnz} entries") as bar, runs.cluster(), noting_interrupts() as interrupted:
        follow = FitProgress(model, bar, lambda: _say_resumed(resumed))
        try:
            options: dict[str, Any] = {"callbacks": [follow], "checkpoint": saved, "on_trial": follow.trial}
            model.fit(observations, validation=held_out, times=times, **options)
        except KeyboardInterrupt:
            interrupted.append(True)
    if interrupted:
        state = f"; the state is in {saved}. Give the same command again to go on from there"
        say(f"Interrupted{state if saved.exists() else ''}.")
        raise typer.Exit(1)
    fitted = titled(replace(model.model_, columns=columns), titles)
    refuse_diverged(fitted)
    fitted.save(output, data=keep_data)
    if checkpoint is None:
        saved.unlink(missing_ok=True)
    answer({**_facts(fitted, output), **_errors(fitted), **tried(fitted, as_json)}, as_json)


def refuse_diverged(model: Model) -> None:
    """A fit that diverged is no model to be relied on: it is not saved."""
    from lorank.solvers import Status

    if model.result.status is Status.DIVERGED:
        raise InputError("The fit diverged and is not saved; scale the data or raise --lam.")


def _say_resumed(checkpoint: Path | None) -> None:
    if checkpoint is not None:
        say(f"Going on from {checkpoint}.")


def _facts(model: Model, output: Path) -> dict[str, Any]:
    (m, n), result = model.shape, model.result
    return {
        "model": url_of(output) or str(output),
        "bytes": size_of(output),
        "rows": m,
        "columns": n,
        "entries": model.entries,
        "method": model.method_text,
        **model.facts(),
        "status": result.status.name.lower(),
        "iterations": result.n_iter,
        "seconds": result.seconds,
    }


# What an error is called, by where it comes from.
HELD_OUT = {"validation": "validation", "search": "held_out"}


def _errors(model: Model) -> dict[str, float]:
    held_out = model.held_out_error()
    if model.setting.grades is not None and held_out is not None:
        say(f"Lists were the goal (--goal ranking). {model.remark_on_lists()}")
        return {f"held_out_{model.params['metric']}": 1 - held_out[1]}
    return {"training_rmse": model.training_error, **_held_out_error(model)}


def _held_out_error(model: Model) -> dict[str, float]:
    """By the name of what was held out: a validation set, or entries that a search held out and then fitted."""
    held_out = model.held_out_error()
    return {} if held_out is None else {f"{HELD_OUT[held_out[0]]}_rmse": held_out[1]}


def _fit_folder(
    table: Path,
    output: Path,
    columns: tuple[str | None, str | None, str | None, str | None],
    features: tuple[Path | None, Path | None],
    wanted: MatrixCompletion,
    validation: float | None,
    backend: dict[str, Any],
    checkpoint: Path,
    *,
    keep_checkpoint: bool,
    keep_data: bool,
    as_json: bool,
) -> None:
    """Fit all Parquet files of a folder, on Ray or out of core, and save the model as its name says."""
    from lorank import distributed
    from lorank.estimators.progress import FitProgress
    from lorank.solvers.checkpoint import remove_checkpoint
    from lorank.tables import parquet
    from lorank.tables import reading as tables

    files = parquet.parquet_files(table)
    present = parquet.column_names(files[0])
    names = tables.choose_columns(present, *columns[:3], Path(files[0]), say)
    if names is None or names[2] is None:
        raise InputError(f"Say which columns of {files[0]} are --row, --col and --value: {', '.join(present)}.")
    ids = parquet.first_ids(files, *names[:2]) if any(features) else (None, None)
    sides = sides_of(ids, names[:2], *features)
    states = distributed.files_of(checkpoint)
    resumed = checkpoint if any(path.exists() for path in states) else None
    model = None
    with ProgressBar(f"Sorting {len(files)} files") as bar, noting_interrupts() as interrupted:
        follow = FitProgress(wanted, bar, lambda: _say_resumed(resumed))
        try:
            model = distributed.fit(
                table,
                **dict(zip(("row", "col", "value"), names)),
                weight=columns[3],
                **sides,
                **_for_folder(wanted.get_params()),
                **backend,
                validation=validation,
                checkpoint=checkpoint,
                output=output if keep_data else None,
                callbacks=[follow],
                report=say,
                on_trial=follow.trial,
            )
        except KeyboardInterrupt:  # before the first fit of all entries
            if not any(path.exists() for path in states):
                raise
    if interrupted or model is None:
        say(f"Interrupted; the state is in {checkpoint}. Give the same command again to go on from there.")
        raise typer.Exit(1)
    refuse_diverged(model)
    if not keep_data:
        model.save(output, shards=output.suffix != distributed.ONE_FILE)
    if not keep_checkpoint:
        for path in states:
            remove_checkpoint(path)
    answer({**_facts(model, output), **_held_out_error(model), **tried(model, as_json)}, as_json)


def _for_folder(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of MatrixCompletion by the names that `distributed.fit` has for them."""
    same = ("rank", "lam", "theta", "biases", "features", "max_seconds", "tol", "dtype")
    return {"method": params["method"], "seed": params["random_state"], **{name: params[name] for name in same}}
