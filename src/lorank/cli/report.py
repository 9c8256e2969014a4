"""`lorank report`: the page of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.options import ModelArgument, TitlesOption
from lorank.cli.recommend import titled
from lorank.cli.terminal import say


def report(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path("model.html"),
    titles: TitlesOption = None,
) -> None:
    """Write the page of a model: one HTML file that needs no server and no network.

    Example: lorank report model.lorank -o model.html --titles films.csv
    """
    import lorank
    from lorank.files import check_writable, replacing
    from lorank.serving.page import model_page

    if output.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"{output} should end in .html.", param_hint="--output")
    check_writable(output)
    page = model_page(titled(lorank.load(model), titles))
    with replacing(output) as beside:
        beside.write_text(page, encoding="utf-8", errors="replace")
    say(f"{output} can be opened in a browser.")
