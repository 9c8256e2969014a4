"""What climate.py measured, in docs/benchmarks/climate.json, and the tables of docs/climate.md that are made from it.

One record for each data set and method: the measures of every split, their mean and deviation. A run goes on where
another ended; `--again` measures anew what it is asked for. lorank's records say which code made them
(`lorank.experiments.records.code_version`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lorank.experiments.records import code_version
from lorank.files import write_bytes

DOCS = Path(__file__).parents[1] / "docs"
SAVED, PAGE = DOCS / "benchmarks" / "climate.json", DOCS / "climate.md"


class Records:
    """The file of records; `add` writes it anew."""

    def __init__(self, path: Path, again: bool = False) -> None:
        self.path, self.again = path, again
        self.rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []

    def row(self, data: str, method: str) -> dict[str, Any] | None:
        return next((row for row in self.rows if (row["data"], row["method"]) == (data, method)), None)

    def has(self, data: str, method: str, split: int) -> bool:
        """Whether it need not be measured."""
        row = None if self.again else self.row(data, method)
        return row is not None and str(split) in row["splits"]

    def add(self, data: str, method: str, split: int, measured: Mapping[str, float | None]) -> None:
        row = self.row(data, method)
        if row is None:
            row = {"data": data, "method": method, "splits": {}}
            self.rows.append(row)
        if "lorank" in method or "Completion" in method:
            row["code"] = code_version()
        kept = {name: None if value is None else float(f"{value:.6g}") for name, value in measured.items()}
        row["splits"][str(split)] = kept
        known = {name: [s[name] for s in row["splits"].values()] for name, value in kept.items() if value is not None}
        row["mean"] = {name: float(f"{np.mean(values):.6g}") for name, values in known.items()}
        row["deviation"] = {name: float(f"{np.std(values):.6g}") for name, values in known.items()}
        write_bytes(self.path, ("[\n" + ",\n".join(map(json.dumps, self.rows)) + "\n]\n").encode())


def table(rows: list[dict[str, Any]], columns: Mapping[str, str]) -> str:
    """Lines of Markdown: measures of records (name: how its mean is shown), the least error of each column bold.

    A column whose name ends in % is shown as a percentage, "±" behind a format asks for the deviation too.
    """
    if not rows:
        return "Not measured yet."
    lines = ["| method | splits | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    for row in rows:
        cells = [row["method"], str(len(row["splits"]))]
        for name, how in columns.items():
            mean = row["mean"].get(name)
            if mean is None:
                cells.append("")
                continue
            text = f"{mean:{how.rstrip('±')}}"
            if how.endswith("±"):
                best = mean <= min(r["mean"][name] for r in rows if _known(r) == _known(row))
                text = f"**{text}**" if best else text
                text += f" ± {row['deviation'][name]:{how.rstrip('±')}}" if len(row["splits"]) > 1 else ""
            cells.append(text)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _known(row: dict[str, Any]) -> bool:
    """Whether the method knows the elevation: those that do are compared with each other."""
    return "drift" in row["method"] or "elevation" in row["method"]


def write_page(records: Records, shown: Mapping[str, tuple[Mapping[str, str], Iterable[str]]]) -> None:
    """Put the tables between the marks `<!-- table NAME -->` and `<!-- end -->` of the page.

    shown are columns and methods of a data set, in their order; without them all measures are shown.
    """
    text = PAGE.read_text(encoding="utf-8")

    def filled(mark: re.Match[str]) -> str:
        rows = [row for row in records.rows if row["data"] == mark[1]]
        columns: Mapping[str, str] = {name: ".3g" for row in rows for name in row["mean"]}
        if mark[1] in shown:
            columns, methods = shown[mark[1]]
            rows = [row for method in methods if (row := records.row(mark[1], method)) is not None]
        return f"<!-- table {mark[1]} -->\n\n{table(rows, columns)}\n\n<!-- end -->"

    write_bytes(PAGE, re.sub(r"<!-- table (.*?) -->.*?<!-- end -->", filled, text, flags=re.S).encode())
