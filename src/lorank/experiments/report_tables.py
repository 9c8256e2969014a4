"""Tables in Markdown, LaTeX and CSV, each number beside the paper's."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lorank.experiments.settings import Suite
from lorank.experiments.statistics import Line


@dataclass(frozen=True)
class Number:
    """A cell of a table: what is shown, what it is sorted by, and whether it is among the best."""

    text: str
    value: float | None = None
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A title, the names of its columns, and its lines."""

    name: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[Number, ...], ...]

    def without_empty_columns(self) -> Table:
        """For readers: the paper has no numbers for some data, and often there is nothing to note."""
        kept = [i for i in range(len(self.columns)) if i == 0 or any(line[i].text for line in self.lines)]
        columns = tuple(self.columns[i] for i in kept)
        return replace(self, columns=columns, lines=tuple(tuple(line[i] for i in kept) for line in self.lines))


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


def build(suite: Suite, summary: dict[str, list[Line]]) -> list[Table]:
    """One table for each data set that has records."""
    titles = {dataset.name: f"{dataset.group}. {dataset.label}" for dataset in suite.datasets}
    fill = {"metric": f"test {suite.metric}", "reference": "factored NNFN"}
    columns = tuple(column.format(**fill) for column in COLUMNS)
    return [
        Table(f"{suite.name}-{name}", titles[name], columns, tuple(_numbers(line) for line in lines))
        for name, lines in summary.items()
    ]


def _numbers(line: Line) -> tuple[Number, ...]:
    paper = line.published
    digits = ".4f" if line.error is None or line.error >= SMALL else ".5f"
    return (
        Number(line.label),
        _with_deviation(line.error, line.error_std, digits, line.best_error),
        _with_deviation(paper.error, paper.error_std, ".4f") if paper else Number(""),
        _plain(line.error_ratio, ".3f"),
        _with_deviation(line.time, line.time_std, ".3g", line.best_time),
        _with_deviation(paper.seconds, paper.seconds_std, ".3g") if paper else Number(""),
        _plain(line.time_ratio, ".3g"),
        _plain(line.published_time_ratio, ".3g"),
        _plain(line.rank, ".1f"),
        _plain(line.trials, ".3g"),
        _plain(line.fit_mb, ".1f"),
        _plain(line.peak_mb, ".0f"),
        Number(" ".join(line.reasons)),
    )


def _with_deviation(mean: float | None, deviation: float | None, form: str, best: bool = False) -> Number:
    if mean is None:
        return Number("")
    text = written(mean, form)
    if deviation is not None:
        text += f" ± {written(deviation, '.2g' if form == '.3g' else form)}"
    return Number(text, mean, best)


def _plain(value: float | None, form: str) -> Number:
    return Number("" if value is None else written(value, form), value)


def written(value: float, form: str = ".3g") -> str:
    """A number in a form, without a power of ten where it is large: 1080, not 1.08e+03."""
    text = f"{value:{form}}"
    return f"{float(text):.0f}" if "e+" in text else text


def markdown(tables: Sequence[Table]) -> str:
    """GitHub's tables; the best are bold."""
    parts = []
    for table in (table.without_empty_columns() for table in tables):
        lines = [f"### {table.title}", "", "| " + " | ".join(table.columns) + " |"]
        lines.append("|---" + "".join("|---" if column == NOTE else "|---:" for column in table.columns[1:]) + "|")
        for numbers in table.lines:
            cells = (f"**{cell.text}**" if cell.best and cell.text else cell.text.replace("|", "/") for cell in numbers)
            lines.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def latex(tables: Sequence[Table]) -> str:
    """A booktabs table each, without the notes."""
    parts = []
    for table in (table.without_empty_columns() for table in tables):
        width = len(table.columns) - (table.columns[-1] == NOTE)
        lines = [r"\begin{table}[htb]", r"\centering", rf"\caption{{{_escaped(table.title)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}", r"\toprule"]
        lines += [" & ".join(map(_escaped, table.columns[:width])) + r" \\", r"\midrule"]
        for numbers in table.lines:
            cells = (
                rf"\textbf{{{_escaped(cell.text)}}}" if cell.best else _escaped(cell.text) for cell in numbers[:width]
            )
            lines.append(" & ".join(cells) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def as_csv(tables: Sequence[Table]) -> str:
    """All tables in one, the first column says which; numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for index, table in enumerate(tables):
        if index == 0:
            writer.writerow(["table", *table.columns, "best error", "best time"])
        for numbers in table.lines:
            cells = [cell.text if cell.value is None else f"{cell.value:.6g}" for cell in numbers]
            writer.writerow([table.title, *cells, int(numbers[1].best), int(numbers[4].best)])
    return out.getvalue()


_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "±": r"$\pm$"}
)


def _escaped(text: str) -> str:
    return text.translate(_LATEX)
