"""The report: one page that needs no server and no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files

from lorank.experiments.figures import Chart
from lorank.experiments.report_tables import NOTE, ResultTable


@dataclass(frozen=True)
class Section:
    """What the page says about one suite."""

    name: str
    title: str
    tables: Sequence[ResultTable]
    charts: Sequence[Chart]
    findings: Sequence[str]


def render(sections: Sequence[Section], machine: Mapping[str, str], notes: Sequence[str], progress: str) -> str:
    """The whole page as text. Tables are plain HTML; the script sorts them and draws the charts."""
    charts = {chart.name: asdict(chart) for section in sections for chart in section.charts}
    # "</" would end the script that holds the data.
    data = json.dumps(charts, allow_nan=False).replace("</", "<\\/")
    parts = {
        "STYLE": _resource("page.css"),
        "SCRIPT": _resource("page.js"),
        "DATA": data,
        "LINKS": "".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections),
        "PROGRESS": escape(progress),
        "MACHINE": "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in machine.items()),
        "NOTES": "".join(f"<li>{escape(note)}</li>" for note in notes),
        "SECTIONS": "\n".join(map(_section, sections)),
    }
    page = _resource("page.html")
    for name, text in parts.items():
        page = page.replace(f"[[{name}]]", text)
    return page


def _resource(name: str) -> str:
    return files("lorank.experiments").joinpath(name).read_text(encoding="utf-8")


def _section(section: Section) -> str:
    charts = "".join(f'<figure class="chart" data-chart="{escape(chart.name)}"></figure>' for chart in section.charts)
    found = "".join(f"<li>{escape(sentence)}</li>" for sentence in section.findings)
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        + "".join(map(_table, section.tables))
        + (f'<div class="charts">{charts}</div>' if charts else "")
        + (f"<h3>Where it differs from the paper, and why</h3><ul>{found}</ul>" if found else "")
        + "</section>"
    )


def _kind(column: str) -> str:
    return ' class="note"' if column == NOTE else ""


def _table(table: ResultTable) -> str:
    """A table whose columns the script sorts by, from the numbers behind its cells."""
    table = table.without_empty_columns()
    head = "".join(
        f'<th scope="col" aria-sort="none"{_kind(column)}><button type="button">{escape(column)}</button></th>'
        for column in table.columns
    )
    body = []
    for row in table.rows:
        cells = []
        for index, (column, cell) in enumerate(row.items()):
            value = "" if cell.value is None else f' data-value="{cell.value!r}"'
            text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
            cells.append(f'<th scope="row">{text}</th>' if index == 0 else f"<td{value}{_kind(column)}>{text}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll"><table id="{escape(table.name)}"><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )
