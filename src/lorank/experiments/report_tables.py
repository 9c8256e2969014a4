"""Tables in Markdown, LaTeX and CSV, each number beside the paper's."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from lorank.experiments.settings import Suite
from lorank.experiments.statistics import Line
from lorank.results_table import Cell, Table


@dataclass(frozen=True)
class ResultTable(Table):
    """The results on one data set; `name` is its address on the page."""

    name: str = ""


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
    "rank",
    "trials",
    "MB to fit",
    "peak MB",
    NOTE,
)


def build(suite: Suite, summary: dict[str, list[Line]]) -> list[ResultTable]:
    """One table for each data set that has records."""
    titles = {dataset.name: f"{dataset.group}. {dataset.label}" for dataset in suite.datasets}
    fill = {"metric": f"test {suite.metric}", "reference": "factored NNFN"}
    columns = tuple(column.format(**fill) for column in COLUMNS)
    return [
        ResultTable([dict(zip(columns, _cells(line))) for line in lines], titles[name], f"{suite.name}-{name}")
        for name, lines in summary.items()
    ]


def _cells(line: Line) -> tuple[Cell, ...]:
    paper = line.published
    digits = ".4f" if line.error is None or line.error >= SMALL else ".5f"
    return (
        Cell(line.label),
        _with_deviation(line.error, line.error_std, digits, line.best_error),
        _with_deviation(paper.error, paper.error_std, ".4f") if paper else Cell(""),
        _plain(line.error_ratio, ".3f"),
        _with_deviation(line.time, line.time_std, ".3g", line.best_time),
        _with_deviation(paper.seconds, paper.seconds_std, ".3g") if paper else Cell(""),
        _plain(line.time_ratio, ".3g"),
        _plain(line.published_time_ratio, ".3g"),
        _plain(line.rank, ".1f"),
        _plain(line.trials, ".3g"),
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
    return Cell(text, mean, best)


def _plain(value: float | None, form: str) -> Cell:
    return Cell("" if value is None else written(value, form), value)


def written(value: float, form: str = ".3g") -> str:
    """A number in a form, without a power of ten where it is large: 1080, not 1.08e+03."""
    text = f"{value:{form}}"
    return f"{float(text):.0f}" if "e+" in text else text


def markdown(tables: Sequence[Table]) -> str:
    """Markdown with a heading for each table."""
    shown = (table.without_empty_columns() for table in tables)
    return "\n".join(f"### {table.title}\n\n{table.to_markdown()}\n" for table in shown)


def latex(tables: Sequence[Table]) -> str:
    """LaTeX, without the notes."""
    return "\n".join(table.without(NOTE).without_empty_columns().to_latex() + "\n" for table in tables)


def as_csv(tables: Sequence[Table]) -> str:
    """All tables in one, the first column says which; numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for index, table in enumerate(tables):
        if index == 0:
            writer.writerow(["table", *table.columns, "best error", "best time"])
        for row in table.rows:
            cells = list(row.values())
            shown = [cell.text if cell.value is None else f"{cell.value:.6g}" for cell in cells]
            writer.writerow([table.title, *shown, int(cells[1].best), int(cells[4].best)])
    return out.getvalue()
