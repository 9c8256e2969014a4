"""The commands, gathered."""

from __future__ import annotations

from typing import Annotated

import typer

from lorank.cli import answers, completing, demo, fitting, judging, looking

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from lorank import __version__

        print(f"lorank {__version__}")
        raise typer.Exit


@app.callback()
def lorank(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Learn low-rank matrices from the entries that were seen."""


for command in (
    fitting.fit,
    answers.predict,
    answers.recommend,
    answers.similar,
    completing.complete,
    judging.evaluate,
    judging.compare,
    looking.inspect,
    looking.plot,
    demo.demo,
):
    app.command()(command)
