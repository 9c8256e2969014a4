"""`lorank demo`: see what it does, without any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    size: Annotated[int, typer.Option(help="Rows and columns of the matrix.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the data and of the starts.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the picture goes.")] = Path("demo.png"),
) -> None:
    """Complete a matrix that it makes itself; print a table and draw a picture."""
    from rich.console import Console
    from rich.table import Table

    from lorank.experiments.demo import Run, draw_demo, least_squares_nmse, run_demo

    console = Console()
    table = Table(title=f"Completing a {size} x {size} matrix of rank 5 from noisy entries")
    table.add_column("method", no_wrap=True)
    for column in ("rank", "lam", "NMSE", "found", "seconds", "steps"):
        table.add_column(column, justify="right")

    def add(run: Run) -> None:
        numbers = (f"{run.lam:g}", f"{run.nmse:.4f}", str(run.found_rank), f"{run.seconds:.3f}", str(run.iterations))
        table.add_row(run.name, str(run.rank), *numbers)

    with console.status("fitting, each with the weight that a validation set chooses"):
        problem, runs = run_demo(size, seed, add)
    console.print(table)
    floor = least_squares_nmse(problem.train.nnz, size, 5, 0.1)
    console.print(f"Least squares that knew the rank would reach {floor:.4f}.")
    draw_demo(problem, runs, out)
    console.print(f"Picture: {out}")
