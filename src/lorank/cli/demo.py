"""`lorank demo`: see what it does, without any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.options import SeedOption, picture_format
from lorank.cli.terminal import say


def demo(
    size: Annotated[int, typer.Option(min=100, help="Number of rows and of columns of the matrix.")] = 1000,
    seed: SeedOption = 0,
    output: Annotated[Path, typer.Option("--output", "--out", "-o", help="Picture to write: png, pdf or svg.")] = Path(
        "demo.png"
    ),
) -> None:
    """Complete a synthetic matrix by three methods; print a table and draw a picture.

    Example: lorank demo
    """
    from lorank.experiments.demo import draw_demo, least_squares_nmse, run_demo, table_of
    from lorank.files import replacing
    from lorank.progress import ProgressBar

    suffix = picture_format(output)
    with ProgressBar("Fitting each method with the weight that a validation set chooses") as bar:
        problem, runs = run_demo(size, seed, bar.to)
    print(table_of(runs, size))
    floor = least_squares_nmse(problem.train.nnz, size, 5, 0.1)
    print(f"Least squares at the true rank, if it were known, would reach an NMSE of {floor:.4f}.")
    drawn = draw_demo(problem, runs)
    with replacing(output) as beside:
        drawn.savefig(beside, dpi=130, format=suffix)
    say(f"Picture: {output}")
