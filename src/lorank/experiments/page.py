"""The report: one page that needs no server and no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files

from lorank.experiments.figures import Chart, labels_of
from lorank.experiments.report_tables import NOTE, ResultTable


@dataclass(frozen=True)
class Section:
    """What the page says about one suite: tables, charts, what the records say, and how the paper is read."""

    name: str
    title: str
    tables: Sequence[ResultTable]
    charts: Sequence[Chart]
    findings: Sequence[str]
    readings: Sequence[str]


def render(
    sections: Sequence[Section], verdict: Sequence[str], machine: Mapping[str, str], notes: Sequence[str]
) -> str:
    """The whole page as text. Tables are plain HTML; the script sorts them and draws the charts."""
    charts = {chart.name: asdict(chart) for section in sections for chart in section.charts}
    content = {"charts": charts, "labels": labels_of(chart for section in sections for chart in section.charts)}
    # "</" would end the script that holds the data.
    data = json.dumps(content, allow_nan=False).replace("</", "<\\/")
    parts = {
        "STYLE": _resource("page.css"),
        "SCRIPT": _resource("page.js"),
        "LINKS": "".join(map(_links, sections)),
        "VERDICT": _items(verdict),
        "MACHINE": "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in machine.items()),
        "NOTES": _items(notes),
        "SECTIONS": "\n".join(map(_section, sections)),
        "DATA": data,
    }
    page = _resource("page.html")
    for name, text in parts.items():
        page = page.replace(f"[[{name}]]", text)
    return page


def _items(sentences: Sequence[str]) -> str:
    return "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)


def _links(section: Section) -> str:
    """The section and its tables, those of a group on one line."""
    groups: dict[str, list[str]] = {}
    for table in section.tables:
        group, _, label = table.title.partition(". ")
        groups.setdefault(group, []).append(f'<a href="#{escape(table.name)}">{escape(label)}</a>')
    below = "".join(f"<li>{escape(group)}: {'; '.join(links)}</li>" for group, links in groups.items())
    return f'<li><a href="#{section.name}">{escape(section.title)}</a>{f"<ul>{below}</ul>" if below else ""}</li>'


def _resource(name: str) -> str:
    return files("lorank.experiments").joinpath(name).read_text(encoding="utf-8")


def _section(section: Section) -> str:
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        + (f"<ul>{_items(section.readings)}</ul>" if section.readings else "")
        + (f'<div class="charts">{"".join(map(_chart, section.charts))}</div>' if section.charts else "")
        + (f"<ul>{_items(section.findings)}</ul>" if section.findings else "")
        + "".join(map(_table, section.tables))
        + "</section>"
    )


def _chart(chart: Chart) -> str:
    """The script draws it; without scripts it is the picture beside the page."""
    name, title = escape(chart.name), escape(chart.title)
    picture = f'<noscript><img src="figures/{name}.svg" alt="{title}"></noscript>'
    return f'<figure class="chart" data-chart="{name}"><figcaption>{title}</figcaption>{picture}</figure>'


def _table(table: ResultTable) -> str:
    """A table whose columns the script sorts by, from the numbers behind its cells."""
    table = table.without(NOTE).without_empty_columns()
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(column)}</button></th>'
        for column in table.columns
    )
    body = []
    for row in table.rows:
        cells = []
        for index, cell in enumerate(row.values()):
            value = "" if cell.value is None else f' data-value="{cell.value!r}"'
            text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
            cells.append(f'<th scope="row">{text}</th>' if index == 0 else f"<td{value}>{text}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        '<p class="hint">This table scrolls sideways.</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f'<table id="{escape(table.name)}"><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        + (f'<ul class="notes">{_items(table.notes)}</ul>' if table.notes else "")
    )
