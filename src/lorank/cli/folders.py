"""`lorank fit` on a folder of Parquet files, which no process ever holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lorank.cli.following import Following
from lorank.cli.terminal import Bar, answer, noting_interrupts, say

if TYPE_CHECKING:
    from lorank.estimators import MatrixCompletion


def fit_folder(
    table: Path,
    output: Path,
    columns: tuple[str | None, str | None, str | None],
    wanted: MatrixCompletion,
    validation: float | None,
    place: dict[str, Any],
    checkpoint: Path,
    *,
    keep_checkpoint: bool,
    keep_data: bool,
    as_json: bool,
) -> None:
    """Fit all Parquet files of a folder, on Ray or out of core, and save the model as its name says."""
    from lorank import distributed, registry
    from lorank.errors import InputError
    from lorank.tables import arrays as matrices
    from lorank.tables import reading as tables

    files = _parquet_files(table)
    present = tuple(matrices.parquet_file(Path(files[0])).schema_arrow.names)
    names = tables.choose_columns(present, *columns, Path(files[0]), say)
    if names is None:
        raise InputError(f"Say which columns of {files[0]} are --row, --col and --value: {', '.join(present)}.")
    settled = _settled(wanted.get_params(), validation)
    states = (checkpoint, Path(f"{checkpoint}.path"))
    with Bar(f"Sorting {len(files)} files") as bar, noting_interrupts() as interrupted:
        follow = Following(bar, wanted, checkpoint if any(path.exists() for path in states) else None)
        model = distributed.fit(
            table,
            **dict(zip(("row", "col", "value"), names)),
            **settled,
            **place,
            checkpoint=checkpoint,
            output=output if keep_data else None,
            callbacks=[follow.iteration],
        )
    if interrupted:
        say(f"Interrupted; the state is in {checkpoint}. Give the same command again to go on from there.")
        raise typer.Exit(1)
    if not keep_data:
        model.save(output, shards=output.suffix != distributed.ONE_FILE)
    if not keep_checkpoint:
        for path in states:
            path.unlink(missing_ok=True)
    m, n = model.shape
    result = model.result
    facts = {
        "model": str(output),
        "bytes": size_of(output),
        "rows": m,
        "columns": n,
        "entries": model.entries,
        "method": str(registry.find(model.method)),
        **model.setting.facts(),
        "status": result.status.name.lower(),
        "iterations": result.n_iter,
        "seconds": result.seconds,
    }
    errors = [error for error in result.history.validation if error == error]
    answer({**facts, "validation_rmse": min(errors)} if errors else facts, as_json)


def _parquet_files(table: Path) -> list[str]:
    from lorank.errors import InputError

    try:
        from lorank.distributed.tables import parquet_files
    except ImportError:
        raise InputError("Folders of Parquet files need pyarrow: pip install 'lorank[tables]'.") from None
    return parquet_files(table)


def _settled(params: dict[str, Any], validation: Any) -> dict[str, Any]:
    """Parameters without "auto", but for lam: that is found on a path, the only thing that is tuned on a folder."""
    rank, biases = params["rank"], params["biases"]
    lam, guesses = params["lam"], []
    if rank == "auto":
        rank = 10
        guesses.append("rank 10")
    if biases == "auto":
        biases = True
        guesses.append("biases")
    if (lam == "auto" or isinstance(lam, list)) and validation is None:
        validation = 0.1
        guesses.append("a tenth of the entries held out to choose lam")
    if guesses:
        say(f"Of a folder only lam is tuned: taking {' and '.join(guesses)}.")
    return {
        "method": params["method"],
        "rank": rank,
        "lam": lam,
        "theta": None if params["theta"] == "auto" else params["theta"],
        "biases": biases,
        "validation": validation or 0.0,
        "seed": params["random_state"],
        "max_seconds": params["max_seconds"],
        "tol": params["tol"],
        "dtype": params["dtype"],
    }


def size_of(path: Path) -> int:
    """Bytes of a file, or of a folder's files."""
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
