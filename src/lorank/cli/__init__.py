"""The command line. Heavy imports happen inside the commands, so that help comes at once."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from lorank.cli.app import app
from lorank.errors import InputError, MemoryLimitError

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the `lorank` command.

    Exit codes: 0 all went well; 1 the data, a file or the machine did not allow it, or it was interrupted; 2 the
    command line was wrong. Errors are one sentence on standard error; `--debug`, anywhere, shows where they came from.
    """
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    warnings.showwarning = _warn
    try:
        app()
    except (InputError, MemoryLimitError, ImportError, OSError) as error:
        if debug:
            raise
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        print(f"Error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


def _warn(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning as one line; those that are not for users are left out."""
    if not issubclass(category, (DeprecationWarning, FutureWarning)):
        print(f"Warning: {message}", file=sys.stderr)
