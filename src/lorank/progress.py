"""How far work has got, on one line of standard error that is rewritten as it goes on."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Self

from lorank.errors import printable

# Seconds before the line comes up, for what is quick, and between two drawings of it.
PATIENCE, PACE = 1.0, 0.2
WIDTH = 30
# Takes the cursor to the start of its line, and empties that.
CLEAR_LINE = "\r\x1b[2K"


# By what systems, schedulers and closed terminals end a process.
ENDS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
# Whether no bar is drawn and no line printed, in this process.
quiet = False


def tell(text: str, end: str = "\n") -> None:
    """Put a text on standard error, if that takes it: no fit ends since its log is full or its terminal was closed."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, end=end, file=sys.stderr, flush=True)


def notice(text: str) -> None:
    """A remark that nobody asked for, unless this process is to be quiet."""
    if not quiet:
        tell(f"lorank: {text}")


class ProgressBar:
    """A bar with the time left on a terminal; silent elsewhere, but for what is printed by `line`.

    As a context manager it is drawn several times a second, after a second of patience, and removed at the end.
    Otherwise `draw` draws it.

    Parameters
    ----------
    text : what is being done.
    total : how much there is to do; without it there is no bar.
    """

    def __init__(self, text: str, total: float | None = None) -> None:
        self.text, self.total, self.done = text, total, 0.0
        self.on_terminal = sys.stderr is not None and sys.stderr.isatty() and not quiet
        self._begun = self._moved = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_drawing, daemon=True)

    def __enter__(self) -> Self:
        if self.on_terminal:
            self._thread.start()
        return self

    def __exit__(self, *reason: Any) -> None:
        if self.on_terminal:
            self._ended.set()
            self._thread.join()
            _write("")

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self.to(self.done + amount)

    def to(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """So much is done in all."""
        self.done, self.total = done, self.total if total is None else total
        self.text = self.text if text is None else text
        self._moved = time.monotonic()

    def begin(self, text: str) -> None:
        """Another part begins, with a pace of its own."""
        self.to(0.0, 1.0, text)
        self._begun = self._moved

    def line(self, text: str) -> None:
        """Print a line where there is no terminal to draw on."""
        if not self.on_terminal and not quiet:
            tell(text)

    @property
    def left(self) -> float | None:
        """Seconds that are left at the pace so far; None while that is not known."""
        if not (self.total and self.done):
            return None
        whole = (self._moved - self._begun) * self.total / self.done
        return max(0.0, whole - (time.monotonic() - self._begun))

    def draw(self) -> None:
        """Draw the line as it is now, on a terminal."""
        if self.on_terminal:
            _write(str(self))

    def __str__(self) -> str:
        clock = clock_time(time.monotonic() - self._begun)
        if self.total:
            full = round(WIDTH * min(self.done / self.total, 1.0))
            clock = f"[{'#' * full}{'.' * (WIDTH - full)}] {clock}"
        left = self.left
        return f"{printable(self.text)}  {clock}" + ("" if left is None else f", about {clock_time(left)} left")

    def _keep_drawing(self) -> None:
        wait = PATIENCE
        while not self._ended.wait(wait):
            self.draw()
            wait = PACE


def _write(text: str) -> None:
    """Put a text in the place of the line that the cursor is on."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 80  # some terminals do not know theirs
    except (OSError, ValueError):
        width = 80
    tell(f"{CLEAR_LINE}{text[: width - 1]}", end="")


def clock_time(seconds: float) -> str:
    """Seconds as 0:07 or 1:02:03."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
