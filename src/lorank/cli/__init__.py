"""The command line. Heavy imports happen inside the commands, so that help comes at once.

Exit codes: 0 all went well; 1 the data, a file or the machine did not allow it, or it was interrupted; 2 the command
line was wrong. Errors are one sentence on standard error; `--debug`, anywhere, shows where they came from.
"""

from __future__ import annotations

import os
import signal
import sys

try:
    from lorank.cli.app import app
except ModuleNotFoundError as missing:
    if missing.name not in ("typer", "rich"):
        raise
    app = None  # type: ignore[assignment]

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the `lorank` command."""
    _open_closed_streams()
    if app is None:
        sys.exit("The command line needs typer: pip install 'lorank[cli]'.")
    if "--debug" in sys.argv:  # it may stand anywhere, and typer knows it at the front only
        sys.argv = [sys.argv[0], "--debug", *(word for word in sys.argv[1:] if word != "--debug")]
    try:
        app()
    finally:  # all is said and done: Ctrl-C, pressed once more, changes neither the message nor the exit code
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _open_closed_streams() -> None:
    """Give a process that was started without standard streams empty ones.

    The next files that it opens would have their numbers, and be written to by whatever prints.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
