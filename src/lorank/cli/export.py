"""`lorank export`: factors with ids, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.options import ModelArgument
from lorank.cli.terminal import say


def export(
    model: ModelArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .parquet, .npz, or .usearch for an index.")
    ],
    rows: Annotated[bool, typer.Option("--rows", help="Vectors of the rows instead of the columns.")] = False,
) -> None:
    """Write the vectors of all columns with their ids; inner products with those of the rows rank as predictions do.

    Example: lorank export model.lorank -o films.parquet
    """
    import lorank
    from lorank.files import check_writable
    from lorank.models.exporting import export as write

    check_writable(output)
    fitted = lorank.load(model)
    write(fitted, output, axis=0 if rows else 1)
    say(f"{fitted.shape[0 if rows else 1]} vectors in {output}.")
