"""`lorank demo`: see what it does, without any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.options import SeedOption
from lorank.cli.terminal import say


def demo(
    size: Annotated[int, typer.Option(min=20, help="Number of rows and of columns of the matrix.")] = 1000,
    seed: SeedOption = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: png, pdf or svg.")] = Path("demo.png"),
) -> None:
    """Complete a synthetic matrix by three methods; print a table and draw a picture."""
    from lorank.experiments.demo import draw_demo, least_squares_nmse, run_demo, table_of
    from lorank.progress import ProgressBar

    with ProgressBar("Fitting each method with the weight that a validation set chooses") as bar:
        problem, runs = run_demo(size, seed, bar.to)
    print(table_of(runs, size))
    floor = least_squares_nmse(problem.train.nnz, size, 5, 0.1)
    print(f"Least squares at the true rank, if it were known, would reach an NMSE of {floor:.4f}.")
    draw_demo(problem, runs, out)
    say(f"Picture: {out}")
