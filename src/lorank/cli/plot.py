"""`lorank plot`: a picture of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.options import ModelArgument, picture_format
from lorank.cli.terminal import say


def plot(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture to write: png, pdf or svg.")] = Path(
        "model.png"
    ),
) -> None:
    """Draw the convergence, singular values, tuning and residuals of a model.

    Example: lorank plot model.lorank -o model.png
    """
    import lorank
    from lorank.files import replacing
    from lorank.plots import draw_model

    suffix = picture_format(output)
    fitted = lorank.MatrixCompletion.from_model(lorank.load(model))
    drawn = draw_model(fitted)
    with replacing(output) as beside:
        drawn.savefig(beside, dpi=130, format=suffix)
    say(f"Picture: {output}")
