"""Everything that is written from the records: tables, figures, the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lorank.experiments import figures, report_tables
from lorank.experiments.findings import ALWAYS, findings, floor_check
from lorank.experiments.machine import describe
from lorank.experiments.page import Section, render
from lorank.experiments.records import Row
from lorank.experiments.settings import Suite
from lorank.experiments.statistics import Line, summarise
from lorank.files import replacing

README = """# The paper's experiments, run again

Made by `{command}`.
{progress}

- [report.html](report.html): everything on one page; open it in a browser.
- [tables.md](tables.md), [tables.tex](tables.tex), [tables.csv](tables.csv): each number beside the paper's.
- `figures/`: every figure as SVG and PNG.
- [records.jsonl](records.jsonl): one line for each data set, method and seed: versions, parameters chosen, error,
  seconds, memory.

The same command goes on where the records end and repeats nothing; with all of them there it only writes the files
anew. `--fresh` begins again.

Records are of {dates}, made on {machines} with {versions}. The files were last written on this machine:

{machine}
"""


def write_report(
    suites: Sequence[Suite], rows: Mapping[str, Row], out: Path, command: str = "lorank reproduce all"
) -> list[Path]:
    """Tables (Markdown, LaTeX, CSV), figures (SVG, PNG), report.html and a README; the files that were written."""
    pictures = out / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    sections = [_section(suite, list(rows.values())) for suite in suites]
    sections = [section for section in sections if section.tables or section.charts]
    for section in sections:
        for chart in section.charts:
            figures.save(chart, pictures)
    everything = [table for section in sections for table in section.tables]
    machine = describe()
    done = [row for row in rows.values() if row["suite"] in {suite.name for suite in suites}]
    progress = f"{len(done)} cells recorded, {sum(row['status'] == 'ok' for row in done)} of them without remark."
    files = {
        "tables.md": _markdown(sections, machine, progress),
        "tables.tex": report_tables.latex(everything),
        "tables.csv": report_tables.as_csv(everything),
        "report.html": render(sections, machine, ALWAYS, progress),
        "README.md": README.format(command=command, progress=progress, **_origin(done), machine=_list(machine)),
    }
    for name, text in files.items():
        _write(out / name, text)
    return [out / name for name in files]


def _section(suite: Suite, rows: list[Row]) -> Section:
    if suite.name == "shrinkage":
        return Section(suite.name, suite.title, (), (figures.shrinkage(),), ())
    known = {dataset.name for dataset in suite.datasets}
    rows = [row for row in rows if row["dataset"] in known]
    summary = summarise(suite, rows)
    charts = figures.convergence(suite, rows) + figures.ablation(suite, summary)
    said = _floors(suite, rows, summary) + findings(suite, summary) if summary else []
    return Section(suite.name, suite.title, report_tables.build(suite, summary), charts, said)


def _floors(suite: Suite, rows: list[Row], summary: Mapping[str, list[Line]]) -> list[str]:
    """Of the synthetic data at the true rank, what least squares could do."""
    said = []
    for dataset in suite.datasets:
        floors = [row["floor"] for row in rows if row["dataset"] == dataset.name and row.get("floor")]
        if floors and dataset.name in summary and suite.name == "synthetic" and dataset.ranks == (5,):
            said.append(floor_check(dataset.label, summary[dataset.name], floors[0]))
    return [sentence for sentence in said if sentence]


def _markdown(sections: Sequence[Section], machine: Mapping[str, str], progress: str) -> str:
    parts = ["# The paper's experiments, run again", progress]
    for section in sections:
        parts.append(f"## {section.title}")
        if section.tables:
            parts.append(report_tables.markdown(section.tables))
        parts += [f"![{chart.title}](figures/{chart.name}.svg)" for chart in section.charts]
        if section.findings:
            parts.append("Where it differs from the paper, and why:")
            parts.append("\n".join(f"- {sentence}" for sentence in section.findings))
    parts.append("## How and on what it was run")
    parts.append(_list(machine))
    parts.append("\n".join(f"- {note}" for note in ALWAYS))
    return "\n\n".join(parts) + "\n"


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


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a run may be killed here too."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
