"""`lorank reproduce`: run an experiment of the paper, or go on with it, and write its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean

from lorank.errors import InputError
from lorank.experiments.published import PUBLISHED
from lorank.experiments.records import Row, matching, read
from lorank.experiments.report import write_report
from lorank.experiments.runner import run
from lorank.experiments.settings import Cell
from lorank.experiments.suites import suites
from lorank.progress import ProgressBar, clock_time

RECORDS = "records.jsonl"


def reproduce(
    experiment: str = "all",
    *,
    quick: bool = False,
    data: Path | None = None,
    out: Path = Path("results"),
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
    resume: bool = True,
) -> list[Path]:
    """Run what is not recorded yet, and write tables, figures and the page.

    Parameters
    ----------
    experiment : synthetic, ablation, recommendation, climate, shrinkage or all.
    quick : smaller sizes and searches, two seeds.
    data : folder with data files; see `lorank.datasets.location`.
    out : folder of the results; its `records.jsonl` has a line for each finished cell.
    seeds : repetitions; 5 by default, 2 if quick.
    methods : names of lines, or of methods of the catalogue; all by default.
    resume : go on with the records that are there; otherwise they are put aside as `records.jsonl.old`.

    Returns
    -------
    The files that were written.
    """
    chosen = suites(experiment, quick)
    seeds = (2 if quick else 5) if seeds is None else seeds
    if seeds < 1:
        raise InputError(f"At least one seed is needed; got {seeds}.")
    if methods:
        known = {name for suite in chosen for entry in suite.entries.values() for name in (entry.name, entry.method)}
        unknown = [name for name in methods if name not in known]
        if unknown:
            raise InputError(
                f"There is no method {unknown[0]!r} in this experiment; there are {', '.join(sorted(known))}."
            )
    records = out / RECORDS
    if not resume and records.exists():
        records.replace(records.with_name(RECORDS + ".old"))
    # The paper's own tables first, all with the first seed before the next: a run that is ended early has every one.
    cells = [cell for suite in chosen for cell in suite.cells(seeds, methods or None)]
    cells.sort(key=lambda cell: (cell.dataset.name not in PUBLISHED, cell.seed))
    if cells:
        work = expected_seconds(cells, read(records).values())
        with ProgressBar("Starting") as bar:

            def begin(done: int, of: int, cell: Cell) -> None:
                bar.to(bar.done, text=f"Cell {done + 1} of {of}: {cell.dataset.name} {cell.entry.name}")

            def end(done: int, of: int, row: Row) -> None:
                bar.advance(work[row["key"]])
                left = "" if bar.left is None else f"  about {clock_time(bar.left)} left"
                bar.line(_line(done, of, row) + left)

            run(cells, records, data, end, begin, lambda waiting: bar.to(0.0, sum(work[c.key] for c in waiting)))
    everything = suites("all", quick)
    command = (
        f"lorank reproduce {experiment}{' --quick' if quick else ''} --seeds {seeds} --data FOLDER --out {out.name}"
    )
    return write_report(everything, matching(read(records), everything), out, command)


def expected_seconds(cells: Sequence[Cell], rows: Iterable[Row]) -> dict[str, float]:
    """What each cell may take, by its key: as long as the last of its kind that is recorded, even under other settings.

    Where none is, as long as the others on the same data, or as all: only the pace of the run so far makes time of it.
    """
    known: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        seconds = 0.0 if row["status"] == "skipped" else row.get("wall")
        if seconds is not None:
            for kind in ((row["dataset"], row["method"]), (row["dataset"],), ()):
                known.setdefault(kind, []).append(seconds)

    def of(cell: Cell) -> float:
        kinds = ((cell.dataset.name, cell.entry.name), (cell.dataset.name,), ())
        return next((mean(known[kind]) for kind in kinds if kind in known), 1.0)

    return {cell.key: of(cell) for cell in cells}


def _line(done: int, of: int, row: Row) -> str:
    """What is printed of a finished cell where there is no terminal."""
    result = f"{row['error']:.5f}" if row.get("error") is not None else row["reason"]
    seconds = f"  {row['seconds']:.3g} s" if row.get("seconds") is not None else ""
    return f"[{done}/{of}] {row['key']}  {row['status']}  {result}{seconds}"
