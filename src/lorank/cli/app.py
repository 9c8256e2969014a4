"""The commands, gathered, and what becomes of their errors."""

from __future__ import annotations

import inspect as inspection
import logging
import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from lorank import progress
from lorank.cli import (
    compare,
    complete,
    demo,
    evaluate,
    export,
    fit,
    fold_in,
    inspect,
    plot,
    predict,
    recommend,
    report,
    reproduce,
    sample,
    serve,
    similar,
    split,
    terminal,
    update,
    version,
)
from lorank.cli.inputs import refuse_what_is_read
from lorank.cli.terminal import ending_cleanly, say
from lorank.errors import InputError
from lorank.files import reading_once

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_debugging = False


def _show_version(wanted: bool) -> None:
    if wanted:
        from lorank import __version__

        print(f"lorank {__version__}")
        raise typer.Exit


DebugOption = Annotated[
    bool, typer.Option("--debug", rich_help_panel="Messages", help="Print the traceback of an error.")
]
QuietOption = Annotated[
    bool,
    typer.Option("--quiet", "-q", rich_help_panel="Messages", help="Print the answer and errors, and nothing else."),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", rich_help_panel="Messages", help="Print what the library logs as well.")
]


@app.callback()
def lorank(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Fit low-rank matrices to observed entries."""
    warnings.showwarning = _warn
    global _debugging
    _debugging = terminal.quiet = progress.quiet = False
    _speak(debug, quiet, verbose)


def _speak(debug: bool, quiet: bool, verbose: bool) -> None:
    """Say more or less, as asked before the command or after it."""
    global _debugging
    _debugging |= debug
    terminal.quiet = progress.quiet = terminal.quiet or quiet
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)


MESSAGES = {"debug": DebugOption, "quiet": QuietOption, "verbose": VerboseOption}


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are one sentence and the exit code 1, and which takes --quiet and the like too."""
    own = inspection.signature(command, eval_str=True)
    more = [
        inspection.Parameter(name, inspection.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in MESSAGES.items()
    ]

    @wraps(command)
    def run(**options: Any) -> None:
        _speak(**{name: options.pop(name) for name in MESSAGES})
        try:
            with ending_cleanly(), reading_once():
                # Only a model that is updated may take its own place.
                own = {"output"} | ({"model"} if command.__name__ == "update" else set())
                refuse_what_is_read([options.get("output")], [options[name] for name in options.keys() - own])
                command(**options)
        except KeyboardInterrupt:
            say("Interrupted.")
        except BrokenPipeError:  # whoever read our output has gone, as `head` does: nothing is wrong
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        except UnicodeEncodeError as error:
            if _debugging:
                raise
            odd, code = error.object[error.start : error.end], error.encoding
            say(f"Error: The output is in {code}, which has no {odd!a}; set PYTHONIOENCODING=utf-8.", always=True)
        except (InputError, MemoryError, ImportError, OSError) as error:
            if _debugging:
                raise
            say(f"Error: {' '.join(str(error).split())}", always=True)
        else:
            return
        raise typer.Exit(1)

    vars(run)["__signature__"] = own.replace(parameters=[*own.parameters.values(), *more])  # what typer reads
    return run


def _warn(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning as one line; those that are not for users are left out."""
    if not issubclass(category, (DeprecationWarning, FutureWarning)):
        say(f"Warning: {message}")


for command in (
    fit.fit,
    update.update,
    predict.predict,
    recommend.recommend,
    fold_in.fold_in,
    similar.similar,
    complete.complete,
    evaluate.evaluate,
    compare.compare,
    split.split,
    inspect.inspect,
    plot.plot,
    report.report,
    export.export,
    serve.serve,
    sample.sample,
    reproduce.reproduce,
    demo.demo,
    version.version,
):
    app.command()(_guarded(command))
