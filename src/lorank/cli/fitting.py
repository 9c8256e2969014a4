"""`lorank fit`: a table in, a model out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.cli.following import Following
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

if TYPE_CHECKING:
    from lorank.estimators import MatrixCompletion
    from lorank.observations import Observations


class Duplicates(StrEnum):
    """What --duplicates may be."""

    error = "error"
    mean = "mean"
    last = "last"


TableArgument = Annotated[
    Path, typer.Argument(help="csv, tsv or other text (also gz, xz, zip), parquet, npz, Matrix Market, NetCDF.")
]
MethodOption = Annotated[str, typer.Option(help="A method's name; `lorank compare` tries several.")]
RankOption = Annotated[str, typer.Option(help="Width of the factors, or auto.")]
LamOption = Annotated[str, typer.Option(help="Weight of the regularizer, or auto.")]
ThetaOption = Annotated[
    str | None, typer.Option(help="From 0 (nuclear norm) to 1 (NNFN), or auto, which is NNFN's default.")
]
BiasesOption = Annotated[str, typer.Option(help="yes, no or auto: offsets of rows and columns.")]
DuplicatesOption = Annotated[Duplicates, typer.Option(help="What becomes of a pair that comes twice.")]
MaxSecondsOption = Annotated[float | None, typer.Option(min=0.0, help="Stop after so long.")]


def fit(
    table: TableArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes.")] = Path("model.lorank"),
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    method: MethodOption = "nnfn",
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
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn a model from a table and save it.

    A long table has a row id, a column id and a value on each line (--row, --col, --value); a wide one is the matrix
    itself, with holes. What is auto is chosen on a held-out tenth of the entries, and then all of them are fitted.
    """
    params = {
        "method": method,
        "rank": number_or_auto(rank, "--rank", int),
        "lam": number_or_auto(lam, "--lam", float),
        "theta": theta_for(method, theta),
        "biases": yes_no_auto(biases),
        "random_state": seed,
        "n_jobs": threads,
        "max_seconds": max_seconds,
        "tol": tol,
        "dtype": "float32" if float32 else "float64",
    }
    if method == "bpmf":
        _without_search(params)
    from lorank.estimators import MatrixCompletion
    from lorank.io import models
    from lorank.io.files import check_place

    # All that can be wrong with the command comes before the table, which may take minutes.
    model = MatrixCompletion(**params)
    check_command(model)
    saved = checkpoint or Path(f"{output}.checkpoint")
    for place in (output, saved):
        check_place(place)
    observations, columns = read_table(table, row, col, value, delimiter, header, duplicates)
    held_out = read_validation(validation, columns, delimiter, header, duplicates)
    with Bar(f"Fitting {observations.nnz} entries") as bar, noting_interrupts() as interrupted:
        follow = Following(bar, model, saved if saved.exists() else None)
        try:
            model.fit(observations, held_out, callbacks=[follow.iteration], checkpoint=saved, on_trial=follow.trial)
        except KeyboardInterrupt:
            interrupted.append(True)
    if interrupted:
        state = (
            f"; the state is in {saved}. Give the same command again to go on from there." if saved.exists() else "."
        )
        say(f"Interrupted{state}")
        raise typer.Exit(1)
    if columns is not None:
        model.columns_ = columns
    models.save(model, output, data=keep_data)
    if checkpoint is None:
        saved.unlink(missing_ok=True)
    answer(_facts(model, output), as_json)


def check_command(model: MatrixCompletion) -> None:
    """Refuse a method that does not exist, or parameters that it cannot have."""
    from lorank import catalogue
    from lorank.errors import InputError
    from lorank.estimators.parameters import check_parameters

    try:
        catalogue.find(model.method)
        check_parameters(model)
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
    from lorank.errors import InputError
    from lorank.io import tables

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
        share = float(given)
    except ValueError:
        names = columns or (None, None, None)
        return read_table(Path(given), names[0], names[1], names[2], delimiter, header, duplicates)[0]
    if not 0 < share < 1:
        raise typer.BadParameter("give a share between 0 and 1, or a file.", param_hint="--validation")
    return share


def _without_search(params: dict[str, Any]) -> None:
    """What the sampler takes where a parameter is auto: it draws its own weights, and does not mind a rank too high."""
    usual = {"rank": 10, "biases": True, "lam": 1.0}
    params |= {name: value for name, value in usual.items() if params[name] == "auto"}
    say("Nothing is searched for bpmf, which draws its own weights; it has rank 10 and biases unless they are given.")


def _facts(model: MatrixCompletion, output: Path) -> dict[str, Any]:
    m, n = model.observations_.shape
    result = model.result_
    facts = {
        "model": str(output),
        "bytes": output.stat().st_size,
        "rows": m,
        "columns": n,
        "entries": model.observations_.nnz,
        "method": model.method,
        **vars(model.setting_),
        "status": result.status.name.lower(),
        "iterations": result.n_iter,
        "seconds": result.seconds,
        "training_rmse": -model.score(model.observations_),
    }
    errors = [error for error in result.history.validation if error == error]
    if errors:
        facts["validation_rmse"] = min(errors)
    elif hasattr(model, "tuning_"):
        facts["held_out_rmse"] = model.tuning_.chosen.error
    return facts


def number_or_auto(text: str, name: str, kind: type[int] | type[float]) -> Any:
    """A number, or "auto"."""
    if text == "auto":
        return text
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise typer.BadParameter(f"give {what} or auto, not {text!r}.", param_hint=name) from None


def theta_for(method: str, text: str | None) -> Any:
    """What --theta says, or else "auto" for NNFN and its own default for any other method."""
    if text is None:
        return "auto" if method.startswith("nnfn") else None
    return number_or_auto(text, "--theta", float)


def yes_no_auto(text: str) -> Any:
    """True, False or "auto"."""
    words = {"yes": True, "true": True, "no": False, "false": False, "auto": "auto"}
    if text.lower() not in words:
        raise typer.BadParameter(f"give yes, no or auto, not {text!r}.", param_hint="--biases")
    return words[text.lower()]
