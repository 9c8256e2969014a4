"""`lorank fit`: a table in, a model out."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.folders import fit_folder
from lorank.cli.following import Following
from lorank.cli.methods import MethodOption, SetOption, ThetaOption, method_of, number_or_auto, theta_for
from lorank.cli.places import AddressOption, BackendOption, OutOfCoreOption, Place, WorkersOption, WorkFolderOption
from lorank.cli.terminal import (
    Bar,
    ColOption,
    DelimiterOption,
    HeaderOption,
    JsonOption,
    RowOption,
    SeedOption,
    ThreadsOption,
    ValueOption,
    answer,
    noting_interrupts,
    say,
)
from lorank.errors import InputError

if TYPE_CHECKING:
    from lorank.estimators import MatrixCompletion
    from lorank.models import Model
    from lorank.observations import Observations


class Duplicates(StrEnum):
    """What --duplicates may be."""

    error = "error"
    mean = "mean"
    last = "last"


TableArgument = Annotated[
    Path,
    typer.Argument(
        help="csv, tsv or other text (also gz, xz, zip), parquet, npz, Matrix Market, NetCDF; or a folder of parquet."
    ),
]
RankOption = Annotated[str, typer.Option(help="Width of the factors, or auto.")]
LamOption = Annotated[str, typer.Option(help="Weight of the regularizer, or auto.")]
BiasesOption = Annotated[str, typer.Option(help="yes, no or auto: offsets of rows and columns.")]
DuplicatesOption = Annotated[Duplicates, typer.Option(help="What becomes of a pair that comes twice.")]
MaxSecondsOption = Annotated[float | None, typer.Option(min=0.0, help="Stop after so long.")]


def fit(
    table: TableArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Where the model goes; for a folder, one file if this ends in .lorank, or else a folder of shards.",
        ),
    ] = Path("model.lorank"),
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    method: MethodOption = "nnfn",
    assignments: SetOption = None,
    rank: RankOption = "auto",
    lam: LamOption = "auto",
    theta: ThetaOption = None,
    biases: BiasesOption = "auto",
    validation: Annotated[
        str | None, typer.Option(help="Hold out this share of the entries (0.1), or use this file, to stop by.")
    ] = None,
    duplicates: DuplicatesOption = Duplicates.error,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    max_seconds: MaxSecondsOption = None,
    tol: Annotated[
        float, typer.Option(min=0.0, help="Converged when the objective changes by less than this part.")
    ] = 1e-4,
    float32: Annotated[bool, typer.Option("--float32", help="Half the memory, seven digits.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Save here from time to time, and go on from here if it exists.")
    ] = None,
    keep_data: Annotated[
        bool, typer.Option(help="Keep the entries in the model file; `recommend` leaves out what was seen by them.")
    ] = True,
    backend: BackendOption = "local",
    out_of_core: OutOfCoreOption = False,
    workers: WorkersOption = None,
    address: AddressOption = None,
    work_folder: WorkFolderOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint; refuse if there is none.")
    ] = False,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn a model from a table and save it.

    A long table has a row id, a column id and a value on each line (--row, --col, --value); a wide one is the matrix
    itself, with holes. What is auto is chosen on a held-out tenth of the entries, and then all of them are fitted.

    A folder of parquet files is fitted on Ray (--backend ray) or out of core, and no process ever holds it; only lam
    is tuned then, on a path such as --lam 20,10,5, by the held-out entries.
    """
    place = Place.of(table, backend, out_of_core, workers, address, work_folder)
    chosen = method_of(method, assignments)
    params = {
        "method": chosen if assignments else method,
        "rank": number_or_auto(rank, "--rank", int),
        "lam": _numbers(lam) if place.by_parts and "," in lam else number_or_auto(lam, "--lam", float),
        "theta": theta_for(chosen, theta),
        "biases": yes_no_auto(biases),
        "random_state": seed,
        "n_jobs": threads,
        "max_seconds": max_seconds,
        "tol": tol,
        "dtype": "float32" if float32 else "float64",
    }
    saved = checkpoint or Path(f"{output}.checkpoint")
    if resume and not (saved.exists() or Path(f"{saved}.path").exists()):
        raise InputError(f"There is no {saved} to go on from; leave out --resume to start.")
    if chosen.samples:
        _without_search(method, params)
    from lorank.estimators import MatrixCompletion
    from lorank.files import check_place

    # All that can be wrong with the command comes before the table, which may take minutes.
    model = MatrixCompletion(**params)
    for path in (output, saved):
        check_place(path)
    if place.by_parts:
        if duplicates != Duplicates.error:
            raise typer.BadParameter("a folder must have one value for each pair.", param_hint="--duplicates")
        fit_folder(
            table,
            output,
            (row, col, value),
            model,
            None if validation is None else _share(validation),
            place.options(threads),
            saved,
            keep_checkpoint=checkpoint is not None,
            keep_data=keep_data,
            as_json=as_json,
        )
        return
    if place.on_ray:
        model.set_params(backend="ray", n_workers=place.workers)
    check_command(model)
    observations, columns = read_table(table, row, col, value, delimiter, header, duplicates)
    held_out = read_validation(validation, columns, delimiter, header, duplicates)
    with Bar(f"Fitting {observations.nnz} entries") as bar, place.joined(), noting_interrupts() as interrupted:
        follow = Following(bar, model, saved if saved.exists() else None)
        try:
            model.fit(
                observations,
                validation=held_out,
                callbacks=[follow.iteration],
                checkpoint=saved,
                on_trial=follow.trial,
            )
        except KeyboardInterrupt:
            interrupted.append(True)
    if interrupted:
        state = (
            f"; the state is in {saved}. Give the same command again to go on from there." if saved.exists() else "."
        )
        say(f"Interrupted{state}")
        raise typer.Exit(1)
    fitted = replace(model.model_, columns=columns)
    fitted.save(output, data=keep_data)
    if checkpoint is None:
        saved.unlink(missing_ok=True)
    answer(_facts(fitted, output), as_json)


def check_command(model: MatrixCompletion) -> None:
    """Refuse a method that does not exist, or parameters that it cannot have."""
    from lorank.estimators.parameters import Parameters

    try:
        Parameters(**model.get_params(deep=False))
    except InputError as error:
        raise typer.BadParameter(str(error)) from None


def read_table(
    path: Path,
    row: str | None,
    col: str | None,
    value: str | None,
    delimiter: str | None,
    header: bool | None,
    duplicates: str = "error",
) -> tuple[Observations, tuple[str, ...] | None]:
    """Observations of a file, with a bar, and a sentence about each guess."""
    from lorank.tables import reading as tables

    size = path.stat().st_size if path.is_file() else None
    with Bar(f"Reading {path.name}", size) as bar:
        observations, columns = tables.read(
            path,
            row,
            col,
            value,
            delimiter=delimiter,
            header=header,
            duplicates=duplicates,
            say=say,
            advance=bar.advance,
        )
    m, n = observations.shape
    if columns is None and observations.nnz == m * n:
        raise InputError(
            f"No cell of {path} is missing, so there is nothing to learn; "
            "if it is a long table, say which columns are --row, --col and --value."
        )
    return observations, columns


def read_validation(
    given: str | None, columns: tuple[str, ...] | None, delimiter: str | None, header: bool | None, duplicates: str
) -> Any:
    """None, a share, or the observations of another file laid out as the first."""
    if given is None:
        return None
    try:
        float(given)
    except ValueError:
        names = columns or (None, None, None)
        return read_table(Path(given), names[0], names[1], names[2], delimiter, header, duplicates)[0]
    return _share(given)


def _share(given: str) -> float:
    try:
        share = float(given)
    except ValueError:
        raise typer.BadParameter("of a folder, give a share between 0 and 1.", param_hint="--validation") from None
    if not 0 < share < 1:
        raise typer.BadParameter("give a share between 0 and 1, or a file.", param_hint="--validation")
    return share


def _without_search(method: str, params: dict[str, Any]) -> None:
    """What the sampler takes where a parameter is auto: it draws its own weights, and does not mind a rank too high."""
    usual = {"rank": 10, "biases": True, "lam": 1.0}
    params |= {name: value for name, value in usual.items() if params[name] == "auto"}
    given = "it has rank 10 and biases unless they are given"
    say(f"Nothing is searched for {method}, which draws its own weights; {given}.")


def _facts(model: Model, output: Path) -> dict[str, Any]:
    from lorank import registry

    m, n = model.shape
    result = model.result
    facts = {
        "model": str(output),
        "bytes": output.stat().st_size,
        "rows": m,
        "columns": n,
        "entries": model.entries,
        "method": str(registry.find(model.params["method"])),
        **model.setting.facts(),
        "status": result.status.name.lower(),
        "iterations": result.n_iter,
        "seconds": result.seconds,
        "training_rmse": model.training_error,
    }
    error = model.held_out_error()
    if error is not None:
        facts[{"validation": "validation_rmse", "search": "held_out_rmse"}[error[0]]] = error[1]
    return facts


def _numbers(text: str) -> list[float]:
    return [number_or_auto(part, "--lam", float) for part in text.split(",")]


def yes_no_auto(text: str) -> Any:
    """True, False or "auto"."""
    words = {"yes": True, "true": True, "no": False, "false": False, "auto": "auto"}
    if text.lower() not in words:
        raise typer.BadParameter(f"give yes, no or auto, not {text!r}.", param_hint="--biases")
    return words[text.lower()]
