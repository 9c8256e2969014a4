"""Everything that is written from the records: tables, figures, the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lorank.experiments import figures, report_tables
from lorank.experiments.findings import findings, limits
from lorank.experiments.machine import describe
from lorank.experiments.page import Section, render
from lorank.experiments.protocol import notes, readings
from lorank.experiments.records import Row, code_version, matching
from lorank.experiments.settings import Suite
from lorank.experiments.statistics import Line, summarise
from lorank.experiments.verdict import verdict
from lorank.files import replacing

README = """# The paper's experiments, run again

Made by `{command}`.

{verdict}

- [report.html](report.html): everything on one page; open it in a browser.
- [tables.md](tables.md), [tables.tex](tables.tex), [tables.csv](tables.csv): each number beside the paper's.
- `figures/`: every figure as SVG and PNG.
- [records.jsonl](records.jsonl): one line for each data set, method and seed: versions, parameters chosen, error,
  seconds, memory.

The same command goes on where the records end and repeats nothing; with all of them there it only writes the files
anew. `--fresh` begins again.

Records are of {dates}, made on {machines} with {versions}, {code}. The files were last written on this machine:

{machine}
"""


def write_report(
    suites: Sequence[Suite], rows: Mapping[str, Row], out: Path, command: str = "lorank reproduce all"
) -> list[Path]:
    """Tables (Markdown, LaTeX, CSV), figures (SVG, PNG), report.html and a README; the files that were written."""
    pictures = out / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    done = [row for row in rows.values() if row["suite"] in {suite.name for suite in suites}]
    summaries = [(suite, summarise(suite, done)) for suite in suites]
    sections = [_section(suite, summary, done) for suite, summary in summaries]
    sections = [section for section in sections if section.tables or section.charts]
    charts = [chart for section in sections for chart in section.charts]
    for chart in charts:
        figures.save(chart, pictures, figures.labels_of(charts))
    everything = [table for section in sections for table in section.tables]
    said = _about_settings(done, suites) + verdict(summaries, done)
    how = notes({suite.name: summary for suite, summary in summaries})
    machine = describe()
    files = {
        "tables.md": _markdown(sections, said, machine, how),
        "tables.tex": report_tables.latex(everything),
        "tables.csv": report_tables.as_csv(everything),
        "report.html": render(sections, said, machine, how),
        "README.md": README.format(
            command=command, verdict=_items(said), **_origin(done), code=_code(done), machine=_list(machine)
        ),
    }
    for name, text in files.items():
        _write(out / name, text)
    return [out / name for name in files]


def _section(suite: Suite, summary: dict[str, list[Line]], rows: list[Row]) -> Section:
    if suite.name == "shrinkage":
        return Section(suite.name, suite.title, (), (figures.shrinkage(),), (), ())
    known = {dataset.name for dataset in suite.datasets}
    rows = [row for row in rows if row["dataset"] in known]
    charts = figures.convergence(suite, rows) + figures.ablation(suite, summary)
    tables = report_tables.build(suite, summary)
    said = {
        f"{suite.name}-{dataset.name}": findings(suite, dataset, summary[dataset.name])
        for dataset in suite.datasets
        if dataset.name in summary
    }
    tables = [replace(table, notes=[*said[table.name], *table.notes]) for table in tables]
    return Section(suite.name, suite.title, tables, charts, limits(suite, summary), readings(suite, summary))


def _markdown(
    sections: Sequence[Section], verdict: Sequence[str], machine: Mapping[str, str], notes: Sequence[str]
) -> str:
    parts = ["# The paper's experiments, run again", _items(verdict)]
    for section in sections:
        parts.append(f"## {section.title}")
        parts += [_items(section.readings)] if section.readings else []
        parts += [f"![{chart.title}](figures/{chart.name}.svg)" for chart in section.charts]
        if section.findings:
            parts.append(_items(section.findings))
        if section.tables:
            parts.append(report_tables.markdown(section.tables))
    parts += ["## How and on what it was run", _list(machine), _items(notes)]
    return "\n\n".join(parts) + "\n"


def _items(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _list(machine: Mapping[str, str]) -> str:
    return "\n".join(f"- {key}: {value}" for key, value in machine.items())


def _origin(rows: Sequence[Row]) -> dict[str, str]:
    """When, on what and with which versions the records were made."""
    days = sorted({row["started"][:10] for row in rows if "started" in row}) or ["no day"]
    versions = {f"{name} {number}" for row in rows for name, number in row.get("versions", {}).items()}
    return {
        "dates": days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}",
        "machines": "; ".join(sorted({row["machine"] for row in rows if "machine" in row})) or "no machine",
        "versions": ", ".join(sorted(versions)) or "no versions",
    }


def _code(rows: Sequence[Row]) -> str:
    """How many records are of the code as it is now."""
    version = code_version()
    fresh = sum(row.get("code") == version for row in rows)
    return f"{fresh} of {len(rows)} by the code of this version ({version})"


def _about_settings(rows: Sequence[Row], suites: Sequence[Suite]) -> list[str]:
    """What a reader must know of records that were made under other settings: the notes do not hold for them."""
    current = matching({row["key"]: row for row in rows}, suites)
    other = len(rows) - len(current)
    if not other:
        return []
    return [
        f"{other} of the {len(rows)} records were made under earlier settings: other searches, ranks and methods than "
        "those described below. The command runs them again."
    ]


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a run may be killed here too."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
