"""Tables in Markdown, LaTeX and CSV, each number beside the paper's."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from lorank.experiments.published import Printed
from lorank.experiments.settings import Suite
from lorank.experiments.statistics import Line
from lorank.results_table import Cell, Table


@dataclass(frozen=True)
class ResultTable(Table):
    """The results on one data set.

    `name` is its address on the page; `notes` stand below it; `beside` are columns that only this table has.
    """

    name: str = ""
    notes: Sequence[str] = ()
    beside: Sequence[str] = ()


NOTE = "note"
# Errors under this have a digit more: their deviation would not show.
SMALL = 0.01
COLUMNS = (
    "method",
    "{metric}",
    "paper",
    "ours / paper",
    "seconds",
    "paper's",
    "x {reference}",
    "paper's x",
    "rank > 1%",
    "numerical rank",
    "fits",
    "decades to edge",
    "MB to fit",
    "peak MB",
    NOTE,
)


def build(suite: Suite, summary: dict[str, list[Line]]) -> list[ResultTable]:
    """One table for each data set that has records."""
    titles = {dataset.name: f"{dataset.group}. {dataset.label}" for dataset in suite.datasets}
    fill = {"metric": f"test {suite.metric}", "reference": "factored NNFN"}
    columns = tuple(column.format(**fill) for column in COLUMNS)
    made = []
    for name, lines in summary.items():
        others = {d.column: summary[d.name] for d in suite.datasets if d.beside == name and d.name in summary}
        rows = [
            dict(zip(columns, _cells(line))) | {column: _beside(line, other) for column, other in others.items()}
            for line in lines
        ]
        made.append(ResultTable(rows, titles[name], f"{suite.name}-{name}", footnotes(lines), list(others)))
    return made


def footnotes(lines: Sequence[Line]) -> list[str]:
    """Each reason once, with the methods that it belongs to."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        for reason in line.reasons:
            reasons.setdefault(reason, []).append(line.label)
    return [
        f"{'All methods' if len(labels) == len(lines) > 1 else ', '.join(labels)}: {reason}"
        for reason, labels in reasons.items()
    ]


def _beside(line: Line, others: Sequence[Line]) -> Cell:
    """The error of the same method on other data."""
    found = next((other for other in others if other.method == line.method), None)
    return _with_deviation(found.error, found.error_std, ".4f", found.best_error) if found else Cell("")


def _edges(line: Line) -> Cell:
    """How far from the ends of the search, of lam and, where there is one, of the graph's weight."""
    if not line.edges:
        return Cell("")
    names = {"lam": "lam", "graph_weight": "graph"}
    return Cell(", ".join(f"{names[name]} {far:.1f}" for name, far in line.edges.items()), min(line.edges.values()))


def _fits(line: Line) -> Cell:
    """How many fits the search had, of how many it might have had."""
    used = _plain(line.trials, ".3g")
    return (
        used
        if not used.text or line.allowed_trials is None
        else Cell(f"{used.text} of {line.allowed_trials}", used.value)
    )


def _cells(line: Line) -> tuple[Cell, ...]:
    paper = line.published
    digits = ".4f" if line.error is None or line.error >= SMALL else ".5f"
    return (
        Cell(line.label),
        _with_deviation(line.error, line.error_std, digits, line.best_error),
        _printed(paper.error, paper.error_std) if paper else Cell(""),
        _plain(line.error_ratio, ".3f"),
        _with_deviation(line.time, line.time_std, ".3g", line.best_time),
        _printed(paper.seconds, paper.seconds_std) if paper else Cell(""),
        _plain(line.time_ratio, ".3g"),
        _plain(line.published_time_ratio, ".3g"),
        _plain(line.rank, ".1f"),
        _plain(line.numerical_rank, ".1f"),
        _fits(line),
        _edges(line),
        _plain(line.fit_mb, ".1f"),
        _plain(line.peak_mb, ".0f"),
        Cell(" ".join(line.reasons)),
    )


def _with_deviation(mean: float | None, deviation: float | None, form: str, best: bool = False) -> Cell:
    if mean is None:
        return Cell("")
    text = written(mean, form)
    if deviation is not None:
        text += f" ± {written(deviation, '.2g' if form == '.3g' else form)}"
    return Cell(text, mean, best, deviation)


def _printed(mean: Printed, deviation: Printed) -> Cell:
    """The paper's number with the paper's digits."""
    return Cell(f"{mean.text} ± {deviation.text}", mean, deviation=deviation)


def _plain(value: float | None, form: str) -> Cell:
    return Cell("" if value is None else written(value, form), value)


def written(value: float, form: str = ".3g") -> str:
    """A number in a form, without a power of ten where it is large: 1080, not 1.08e+03."""
    text = f"{value:{form}}"
    return f"{float(text):.0f}" if "e+" in text else text


def markdown(tables: Sequence[ResultTable]) -> str:
    """Markdown with a heading for each table, and its notes below it."""
    parts = []
    for table in (table.without(NOTE).without_empty_columns() for table in tables):
        parts += [f"### {table.title}\n\n{table.to_markdown()}\n"]
        parts += ["\n".join(f"- {note}" for note in table.notes) + "\n"] if table.notes else []
    return "\n".join(parts)


def latex(tables: Sequence[Table]) -> str:
    """LaTeX, without the notes."""
    return "\n".join(table.without(NOTE).without_empty_columns().to_latex() + "\n" for table in tables)


def as_csv(tables: Sequence[ResultTable]) -> str:
    """All tables in one, the first column says which; numbers in full, deviations in columns of their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    tables = [table.without(*table.beside) for table in tables]
    deviating = [column for column in tables[0].columns if _deviates(tables, column)] if tables else []
    for index, table in enumerate(tables):
        if index == 0:
            head = [name for column in table.columns for name in (column, f"{column} ±")[: 1 + (column in deviating)]]
            writer.writerow(["table", *head, "best error", "best time"])
        # Errors have the name of their metric, which differs from table to table: they go by their place.
        marked = [column in deviating for column in tables[0].columns]
        for row in table.rows:
            cells = list(row.values())
            shown = []
            for cell, wide in zip(cells, marked):
                shown.append(cell.text if cell.value is None else _digits(cell.value))
                if wide:
                    shown.append("" if cell.deviation is None else _digits(cell.deviation))
            writer.writerow([table.title, *shown, int(cells[1].best), int(cells[4].best)])
    return out.getvalue()


def _deviates(tables: Sequence[Table], column: str) -> bool:
    place = tables[0].columns.index(column)
    return any(list(row.values())[place].deviation is not None for table in tables for row in table.rows)


def _digits(value: float) -> str:
    return value.text if isinstance(value, Printed) else f"{value:.6g}"
