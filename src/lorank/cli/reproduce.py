"""`lorank reproduce`: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    experiment: Annotated[str, typer.Argument(help="synthetic, ablation, recommendation, climate, shrinkage or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes and two seeds, which takes minutes.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the data files.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("results"),
    seeds: Annotated[int | None, typer.Option(help="Number of repetitions; 5, or 2 with --quick.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Run this method only; may be given several times.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Continue from the records in --out, or start afresh.")
    ] = True,
) -> None:
    """Run the experiments of the paper and write tables, figures and report.html.

    Example: lorank reproduce synthetic --quick --out results
    """
    from lorank.experiments.reproduce import reproduce

    for path in reproduce(experiment, quick=quick, data=data, out=out, seeds=seeds, methods=methods, resume=resume):
        print(path)
