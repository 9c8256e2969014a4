"""Runs cells one after the other, each in a process of its own, and records each as soon as it is done."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from lorank import __version__
from lorank.experiments.machine import describe
from lorank.experiments.records import Records, Row, fingerprint
from lorank.experiments.run_cell import run_cell
from lorank.experiments.settings import Cell

# A server process that has loaded everything, compiled code too, forks a fresh process for each cell in milliseconds.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["lorank.experiments.precompile"])

OnEnd = Callable[[int, int, Row], None]
OnBegin = Callable[[int, int, Cell], None]


def run(
    cells: Sequence[Cell],
    path: Path,
    folder: Path | None = None,
    on_end: OnEnd = lambda done, of, row: None,
    on_begin: OnBegin = lambda done, of, cell: None,
) -> None:
    """Run those cells of which the file has no record yet.

    Parameters
    ----------
    cells : what to run.
    path : the file of records.
    folder : where data files are; see `lorank.datasets.location`.
    on_end : called with (cells done, cells in all, the record) after each cell.
    on_begin : called with (cells done, cells in all, the cell) before each.
    """
    stamp = {"versions": _versions(), "machine": describe()["processor"]}
    with Records(path) as records:
        waiting = [cell for cell in cells if not records.is_done(cell)]
        done = len(cells) - len(waiting)
        for cell in waiting:
            on_begin(done, len(cells), cell)
            row = _name(cell) | stamp | _finite(_in_own_process(cell, folder))
            before = records.rows.get(cell.key, {})
            if row["status"] != "skipped" or any(before.get(same) != row[same] for same in ("reason", "fingerprint")):
                records.append(row)
            done += 1
            on_end(done, len(cells), row)


def _name(cell: Cell) -> Row:
    return {
        "key": cell.key,
        "suite": cell.suite,
        "dataset": cell.dataset.name,
        "method": cell.entry.name,
        "seed": cell.seed,
        "fingerprint": fingerprint(cell),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _versions() -> dict[str, str]:
    return {"lorank": __version__} | {name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")}


def _finite(row: Row) -> Row:
    """JSON has no NaN."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def _in_own_process(cell: Cell, folder: Path | None) -> Row:
    """The record of the cell, or why it has none."""
    ours, theirs = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_work, args=(cell, folder, theirs), daemon=True)
    process.start()
    theirs.close()
    limit = cell.budget.cell_seconds
    try:
        if not wait([ours], limit):
            return {"status": "time-limit", "reason": f"Ended after {limit:g} s, the limit of a cell."}
        row: Row = ours.recv()
        return row
    except EOFError:
        process.join()
        return {"status": "memory", "reason": f"The process ended by itself (code {process.exitcode})."}
    finally:
        process.kill()
        process.join()
        ours.close()


def _work(cell: Cell, folder: Path | None, answer: Connection[Any, Any]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer.send(run_cell(cell, folder))
    answer.close()


def _end_with_parent() -> None:
    """A run that was killed must not leave a process behind that goes on computing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
