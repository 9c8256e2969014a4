"""Runs cells, each in a process of its own on a core of its own, and records each as soon as it is done."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from lorank import __version__
from lorank.experiments.machine import describe
from lorank.experiments.records import Records, Row, code_version, fingerprint
from lorank.experiments.run_cell import run_cell
from lorank.experiments.settings import Cell

# A server process that has loaded everything, compiled code too, forks a fresh process for each cell in milliseconds.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["lorank.experiments.precompile"])

# A cell that was skipped before, and is again for the same of these, has its record.
SKIPPED_FOR = ("reason", "fingerprint", "code")

OnEnd = Callable[[int, int, Row], None]
OnBegin = Callable[[int, int, Cell], None]


def run(
    cells: Sequence[Cell],
    path: Path,
    folder: Path | None = None,
    on_end: OnEnd = lambda done, of, row: None,
    on_begin: OnBegin = lambda done, of, cell: None,
    on_start: Callable[[Sequence[Cell]], None] = lambda waiting: None,
) -> None:
    """Run those cells of which the file has no record yet, one on each core that this process may use.

    Parameters
    ----------
    cells : what to run.
    path : the file of records.
    folder : where data files are; see `lorank.datasets.location`.
    on_end : called with (cells done, cells in all, the record) after each cell.
    on_begin : called with (cells done, cells in all, the cell) before each.
    on_start : called with the cells that are to be run, before all.
    """
    stamp = {"versions": _versions(), "machine": describe()["processor"], "code": code_version()}
    with Records(path) as records:
        by_key = {cell.key: cell for cell in cells}
        waiting = [cell for cell in cells if not records.is_done(cell)]
        done = len(cells) - len(waiting)
        on_start(waiting)
        with _Cores() as cores:
            while waiting or cores.busy:
                while waiting and cores.free:
                    cell = waiting.pop(0)
                    on_begin(done, len(cells), cell)
                    base = by_key.get(cell.key_of(cell.entry.like)) if cell.entry.like else None
                    known = records.rows[base.key] if base and records.is_done(base) else {}
                    cores.start(cell, folder, known if known.get("parameters") else None)
                for cell, result in cores.finished():
                    row = _name(cell) | stamp | _finite(result)
                    before = records.rows.get(cell.key, {})
                    # What still cannot be done is written down once.
                    if row["status"] != "skipped" or any(before.get(same) != row[same] for same in SKIPPED_FOR):
                        records.append(row)
                    done += 1
                    on_end(done, len(cells), row)


class _Cores:
    """Cells that run now, each alone on its core: the process of a cell sees no other core, and so has one thread."""

    def __init__(self) -> None:
        # Not every system can pin a process.
        self.free: list[int | None] = [*sorted(os.sched_getaffinity(0))] if hasattr(os, "sched_getaffinity") else [None]
        self.busy: dict[Connection[Any, Any], _Running] = {}

    def __enter__(self) -> _Cores:
        return self

    def __exit__(self, *reason: object) -> None:
        for answer in list(self.busy):
            self._end(answer)

    def start(self, cell: Cell, folder: Path | None, like: Row | None) -> None:
        ours, theirs = _processes.Pipe(duplex=False)
        core = self.free.pop(0)
        process = _processes.Process(target=_work, args=(cell, folder, like, core, theirs), daemon=True)
        process.start()
        theirs.close()
        self.busy[ours] = _Running(cell, process, core, time.monotonic() + cell.budget.cell_seconds)

    def finished(self) -> list[tuple[Cell, Row]]:
        """Waits until a cell is done, or over its time: these cells with their results, or why they have none."""
        soonest = min(running.deadline for running in self.busy.values())
        ready = wait(list(self.busy), max(0.0, soonest - time.monotonic()))
        late = [answer for answer, running in self.busy.items() if running.deadline <= time.monotonic()]
        return [self._collect(answer, answer in ready) for answer in dict.fromkeys([*ready, *late])]

    def _collect(self, answer: Any, ready: bool) -> tuple[Cell, Row]:
        running = self.busy[answer]
        limit = running.cell.budget.cell_seconds
        row: Row = {"status": "time-limit", "reason": f"Ended after {limit:g} s, the limit of a cell."}
        if ready:
            try:
                row = answer.recv()
            except EOFError:
                running.process.join()
                code = running.process.exitcode
                row = {"status": "memory", "reason": f"The process ended by itself (code {code})."}
        self._end(answer)
        return running.cell, row

    def _end(self, answer: Any) -> None:
        running = self.busy.pop(answer)
        running.process.kill()
        running.process.join()
        answer.close()
        self.free.append(running.core)


@dataclass(frozen=True)
class _Running:
    cell: Cell
    process: BaseProcess
    core: int | None
    deadline: float


def _name(cell: Cell) -> Row:
    return {
        "key": cell.key,
        "suite": cell.suite,
        "dataset": cell.dataset.name,
        "method": cell.entry.name,
        "seed": cell.seed,
        "fingerprint": fingerprint(cell),
        "allowed_trials": cell.budget.trials,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _versions() -> dict[str, str]:
    return {"lorank": __version__} | {name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")}


def _finite(row: Row) -> Row:
    """JSON has no NaN."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def _work(cell: Cell, folder: Path | None, like: Row | None, core: int | None, answer: Connection[Any, Any]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if core is not None:
        os.sched_setaffinity(0, {core})
    with threadpool_limits(1):  # BLAS was loaded before, when all cores were there
        answer.send(run_cell(cell, folder, like))
    answer.close()


def _end_with_parent() -> None:
    """A run that was killed must not leave a process behind that goes on computing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
