"""`lorank inspect` and `plot`: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.folders import size_of
from lorank.cli.terminal import JsonOption, ModelArgument, answer, say


def inspect(model: ModelArgument, as_json: JsonOption = False) -> None:
    """What a model is, what it was fitted with and how that went."""
    import lorank

    facts = lorank.load(model).describe()
    answer({"model": str(model), "bytes": size_of(model), **facts}, as_json)


def plot(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="png, pdf or svg.")] = Path("model.png"),
) -> None:
    """Draw convergence, spectrum, tuning and residuals."""
    import lorank
    from lorank.files import replacing
    from lorank.plots import draw_model

    fitted = lorank.MatrixCompletion.from_model(lorank.load(model))
    suffix = output.suffix.lower().lstrip(".")
    if suffix not in ("png", "pdf", "svg"):
        raise typer.BadParameter(f"{output} should end in .png, .pdf or .svg.", param_hint="--output")
    drawn = draw_model(fitted)
    with replacing(output) as beside:
        drawn.savefig(beside, dpi=130, format=suffix)
    say(f"Picture: {output}")
