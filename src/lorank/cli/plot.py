"""`lorank plot`: a picture of a model, or maps of a filled file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.complete import is_netcdf
from lorank.cli.options import VariableOption, picture_format
from lorank.cli.terminal import say


def plot(
    model: Annotated[
        Path, typer.Argument(help="Model saved by `lorank fit`, or a NetCDF file written by `lorank complete`.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write: png, pdf or svg; html for maps of all times on one page."),
    ] = None,
    variable: VariableOption = None,
    time: Annotated[str | None, typer.Option(help="Maps: the beginning of a date, such as 1998-07.")] = None,
) -> None:
    """Draw the convergence, singular values, tuning and residuals of a model, or maps of a filled NetCDF file.

    Example: lorank plot model.lorank -o model.png
    """
    import lorank
    from lorank.files import replacing
    from lorank.plots import draw_model

    if is_netcdf(model):
        _draw_maps(model, output or Path("map.png"), variable, time)
        return
    output = output or Path("model.png")
    suffix = picture_format(output)
    fitted = lorank.MatrixCompletion.from_model(lorank.load(model))
    drawn = draw_model(fitted)
    with replacing(output) as beside:
        drawn.savefig(beside, dpi=130, format=suffix)
    say(f"Picture: {output}")


def _draw_maps(source: Path, output: Path, variable: str | None, time: str | None) -> None:
    from lorank.plots import save_map
    from lorank.spatial.arrays import open_file

    if output.suffix.lower() != ".html":
        picture_format(output, ".html (all times on one page)")
    with open_file(source) as data:
        save_map(data, output, time, variable)
    say(f"{'Page' if output.suffix.lower() == '.html' else 'Picture'}: {output}")
