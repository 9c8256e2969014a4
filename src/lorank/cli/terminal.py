"""What the commands share: sentences, facts, tables, interrupts."""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lorank.errors import printable, shortened
from lorank.progress import CLEAR_LINE, ENDS, tell

# Whether only answers and errors are printed.
quiet = False


def say(text: str, always: bool = False) -> None:
    """A sentence beside the answer: on standard error, so that the answer can be piped; `always` for errors."""
    if quiet and not always:
        return
    text = printable(shortened(text))
    # On a terminal a progress bar may be on this line.
    tell(f"{CLEAR_LINE}{text}" if sys.stderr.isatty() else text)


def answer(facts: Mapping[str, Any], as_json: bool) -> None:
    """Facts on standard output, one a line or as JSON."""
    if as_json:
        print(json.dumps({name: plain(value) for name, value in facts.items()}))
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        print(f"{printable(name.replace('_', ' ')):{width}}  {_readable(value)}")


def tried(model: Any, as_json: bool) -> dict[str, Any]:
    """What a search tried, a line for each kind of model; on a terminal as a table on standard error.

    Where there was one kind only, the model itself, it is said how many were tried.
    """
    from lorank.tuning.trials import Trials

    trials = Trials.from_rows(model.trials)
    kinds = trials.candidates
    if [row["candidate"] for row in kinds] == [""]:
        say(f"Chosen among {len(trials)} trials in {trials.seconds:.1f} s.")
        return {}
    if as_json or not kinds.rows:
        return {"candidates": list(kinds.rows)} if kinds.rows else {}
    for line in str(kinds).splitlines():  # a line at a time: `say` spells out line ends, which ids may hold
        say(line)
    return {}


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
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_readable(part)}" for name, part in value.items())
    return " ".join(_readable(part) for part in value) if isinstance(value, (list, tuple)) else printable(str(value))


@contextmanager
def answering(
    output: Path | None, as_json: bool, for_spreadsheets: bool = False
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that adds lines to a table: in a file, or on standard output.

    There it is a list of JSON objects, a table with aligned columns on a terminal, or else csv.
    """
    lines = 0
    if output is None:
        as_text = _aligned_on_output if sys.stdout.isatty() else _csv_on_output
        with _json_on_output() if as_json else as_text() as append:
            yield append
        return
    from lorank.tables import appending

    with appending(output, for_spreadsheets) as append:

        def count(columns: Mapping[str, Any]) -> None:
            nonlocal lines
            append(columns)
            lines += len(next(iter(columns.values())))

        yield count
    say(f"{lines} lines in {output}.")


@contextmanager
def _aligned_on_output() -> Iterator[Callable[[Mapping[str, Any]], None]]:
    from lorank.results_table import Table

    rows: list[dict[str, Any]] = []

    def append(columns: Mapping[str, Any]) -> None:
        rows.extend(dict(zip(columns, row)) for row in zip(*(plain(column) for column in columns.values())))

    yield append
    if rows:
        print(Table(rows))


@contextmanager
def _csv_on_output() -> Iterator[Callable[[Mapping[str, Any]], None]]:
    import csv

    started = False

    def append(columns: Mapping[str, Any]) -> None:
        nonlocal started
        rows = [*([] if started else [tuple(columns)]), *zip(*(plain(column) for column in columns.values()))]
        started = True
        # Python before 3.13 leaves a text with "\r" bare, which others would read as the end of a line.
        returns = any("\r" in cell for row in rows for cell in row if isinstance(cell, str))
        quoting: Any = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
        csv.writer(sys.stdout, lineterminator="\n", quoting=quoting).writerows(rows)

    yield append


@contextmanager
def _json_on_output() -> Iterator[Callable[[Mapping[str, Any]], None]]:
    comma = "["

    def append(columns: Mapping[str, Any]) -> None:
        nonlocal comma
        for row in zip(*(plain(column) for column in columns.values())):
            sys.stdout.write(comma + json.dumps(dict(zip(columns, row))))
            comma = ", "

    yield append
    sys.stdout.write("[]\n" if comma == "[" else "]\n")


@contextmanager
def noting_interrupts() -> Iterator[list[bool]]:
    """Whether Ctrl-C was pressed, or the process asked to end: the list is not empty then.

    The interrupt itself goes its way. What systems, schedulers and closed terminals end a process by is one too.
    """
    pressed: list[bool] = []

    def note(number: int, frame: Any) -> None:
        pressed.append(True)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, *_not_ignored())}
    try:
        yield pressed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _not_ignored() -> list[signal.Signals]:
    """Signals that end a process; those that `nohup` has it ignore are left alone."""
    return [number for number in ENDS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """SIGTERM and SIGHUP as Ctrl-C: what is open is closed, and temporary files are removed."""

    def end(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, end) for number in _not_ignored()}
    except ValueError:  # only the main thread may
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def beside(ids: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of a table: ids under the names that they have, answers under theirs, or lorank_... if that is taken."""
    return {**ids, **{name if name not in ids else f"lorank_{name}": column for name, column in answers.items()}}
