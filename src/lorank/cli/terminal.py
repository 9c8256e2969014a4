"""What the commands share: sentences, tables, progress, interrupts."""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON, for machines.")]
ModelArgument = Annotated[Path, typer.Argument(help="A model that `lorank fit` saved.")]
RowOption = Annotated[str | None, typer.Option("--row", help="Column that holds the row ids.")]
ColOption = Annotated[str | None, typer.Option("--col", help="Column that holds the column ids.")]
ValueOption = Annotated[str | None, typer.Option("--value", help="Column that holds the values.")]
DelimiterOption = Annotated[str | None, typer.Option(help="What stands between cells, such as ';' or '::'.")]
HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns (else 1, 2, ...).")
]
ClipOption = Annotated[
    bool, typer.Option("--clip", help="No prediction below the least or above the largest value of the data.")
]
SeedOption = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of everything random.")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Threads; all cores if not given.")]

# A bar comes up for what takes longer than this.
PATIENCE = 1.0


def say(text: str) -> None:
    """A sentence beside the answer: on standard error, so that the answer can be piped."""
    print(text, file=sys.stderr)


def answer(facts: Mapping[str, Any], as_json: bool) -> None:
    """Facts on standard output, one a line or as JSON."""
    if as_json:
        print(json.dumps({name: plain(value) for name, value in facts.items()}))
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):{width}}  {_readable(value)}")


def plain(value: Any) -> Any:
    """A value as JSON knows it; a number that is not finite becomes null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _readable(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    return " ".join(_readable(part) for part in value) if isinstance(value, (list, tuple)) else str(value)


def answer_table(columns: Mapping[str, Any], as_json: bool) -> None:
    """A table on standard output: lined up on a terminal, csv elsewhere, a list of objects as JSON."""
    lists = {name: plain(column) for name, column in columns.items()}
    rows = list(zip(*lists.values()))
    if as_json:
        print(json.dumps([dict(zip(lists, row)) for row in rows]))
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*lists, box=None, header_style="bold")
        for row in rows:
            table.add_row(*(_readable(value) for value in row))
        Console().print(table)
    else:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(lists)
        writer.writerows(rows)


class Bar:
    """Progress on a terminal's standard error, with the time left; silent elsewhere, and in the first second."""

    def __init__(self, text: str, total: float | None = None) -> None:
        self._text, self._total, self._done = text, total, 0.0
        self._begun = self._moved = time.monotonic()
        self._shown: Any = None
        self._task: Any = None
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Bar:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, *reason: Any) -> None:
        self._timer.cancel()
        if self._shown is not None:
            self._shown.stop()

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self.to(self._done + amount)

    def to(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """So much is done in all."""
        self._done, self._total = done, self._total if total is None else total
        self._text = self._text if text is None else text
        self._moved = time.monotonic()
        if self._shown is not None:
            self._shown.update(self._task, completed=self._done, total=self._total, description=self._text)

    def begin(self, text: str) -> None:
        """Another part begins, with a pace of its own."""
        self.to(0.0, 1.0, text)
        self._begun = self._moved

    @property
    def left(self) -> float | None:
        """Seconds that are left at the pace so far; None while that is not known."""
        if not (self._total and self._done):
            return None
        whole = (self._moved - self._begun) * self._total / self._done
        return max(0.0, whole - (time.monotonic() - self._begun))

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
        from rich.text import Text

        bar = self

        class TimeLeft(ProgressColumn):
            def render(self, task: Task) -> Text:
                seconds = bar.left
                return Text("" if seconds is None else f"about {clock_time(seconds)} left", "cyan")

        shown = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TimeLeft(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = shown.add_task(self._text, total=self._total)
        shown.update(self._task, completed=self._done)
        shown.start()
        self._shown = shown


def clock_time(seconds: float) -> str:
    """Seconds as 0:07 or 1:02:03."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@contextmanager
def noting_interrupts() -> Iterator[list[bool]]:
    """Whether Ctrl-C was pressed: the list is not empty then. The interrupt itself goes its way."""
    pressed: list[bool] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        pressed.append(True)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
