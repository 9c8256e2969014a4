"""A table of results: rows of named values, printed as text, Markdown, LaTeX or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Self

from lorank.errors import printable

# Characters of a cell that are shown in plain text.
LONGEST = 200


@dataclass(frozen=True)
class Cell:
    """A value with the text that shows it, whether it is among the best of its column, and its standard deviation."""

    text: str
    value: float | None = None
    best: bool = False
    deviation: float | None = None


@dataclass(frozen=True)
class Table:
    """Rows with the same names. A value may be a `Cell`; of any other value the text is made here.

    >>> table = Table([{"name": "a", "error": 0.25}, {"name": "b", "error": None}])
    >>> print(table)
    name  error
    a      0.25
    b
    >>> table["error"]
    [0.25, None]
    """

    rows: Sequence[Mapping[str, Any]]
    title: str = ""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.rows[0]) if self.rows else []

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, column: str) -> list[Any]:
        """One column, in the order of the rows."""
        return [row[column] for row in self.rows]

    def without(self, *columns: str) -> Self:
        """The same table without some of its columns."""
        rows = [{name: value for name, value in row.items() if name not in columns} for row in self.rows]
        return replace(self, rows=rows)

    def without_empty_columns(self) -> Self:
        """The same table without the columns, but for the first, that show nothing in any row."""
        return self.without(*(name for name in self.columns[1:] if not any(_text(value) for value in self[name])))

    def to_frame(self) -> Any:
        """As a pandas DataFrame (needs pandas)."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("A DataFrame needs pandas: pip install pandas.") from None
        return pd.DataFrame([{name: _plain(value) for name, value in row.items()} for row in self.rows])

    def __str__(self) -> str:
        texts = [self.columns] + [[_text(value) for value in row.values()] for row in self.rows]
        # One id of 10,000 characters would make every line as long.
        cells = [[printable(text if len(text) <= LONGEST else text[:LONGEST] + "…") for text in line] for line in texts]
        widths = [max(len(line[at]) for line in cells) for at in range(len(self.columns))]
        numbers = self._numbers
        lines = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, numbers, strict=True)
            ).rstrip()
            for line in cells
        ]
        return "\n".join([self.title, *lines] if self.title else lines)

    def to_markdown(self) -> str:
        """As Markdown, the best cells bold; without the title."""
        lines = ["| " + " | ".join(map(_markdown, self.columns)) + " |"]
        lines.append("|" + "|".join("---:" if number else "---" for number in self._numbers) + "|")
        for row in self.rows:
            cells = (_markdown(_text(value)) for value in row.values())
            marked = (f"**{cell}**" if _best(value) and cell else cell for cell, value in zip(cells, row.values()))
            lines.append("| " + " | ".join(marked) + " |")
        return "\n".join(lines)

    def to_latex(self) -> str:
        """As a LaTeX table of the package booktabs, with the title as its caption and the best cells bold."""
        lines = [r"\begin{table}[htb]", r"\centering"]
        lines += [rf"\caption{{{_latex(self.title)}}}"] if self.title else []
        lines += [rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in self._numbers)}}}", r"\toprule"]
        lines += [" & ".join(map(_latex, self.columns)) + r" \\", r"\midrule"]
        for row in self.rows:
            cells = ((_latex(_text(value)), _best(value)) for value in row.values())
            lines.append(" & ".join(rf"\textbf{{{cell}}}" if best else cell for cell, best in cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])

    def _repr_html_(self) -> str:
        """As HTML, for notebooks."""
        sides = [' style="text-align: right"' if number else ' style="text-align: left"' for number in self._numbers]
        head = "".join(f"<th{side}>{escape(name)}</th>" for name, side in zip(self.columns, sides))
        body = []
        for row in self.rows:
            cells = ((escape(_text(value)), _best(value)) for value in row.values())
            marked = (f"<b>{cell}</b>" if best else cell for cell, best in cells)
            body.append("<tr>" + "".join(f"<td{side}>{cell}</td>" for cell, side in zip(marked, sides)) + "</tr>")
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"

    @property
    def _numbers(self) -> list[bool]:
        """Which columns hold numbers and nothing else; they are lined up on the right."""
        return [_holds_numbers([_plain(value) for value in self[name]]) for name in self.columns]


def _holds_numbers(values: list[Any]) -> bool:
    known = [value for value in values if value is not None and value != ""]
    return bool(known) and all(hasattr(value, "__float__") and not isinstance(value, bool) for value in known)


def _plain(value: Any) -> Any:
    """The value behind a cell, or its text if there is none."""
    if isinstance(value, Cell):
        return value.text if value.value is None else value.value
    return value


def _best(value: Any) -> bool:
    return isinstance(value, Cell) and value.best


def _text(value: Any) -> str:
    if isinstance(value, Cell):
        return value.text
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(part)}" for name, part in value.items())
    return str(value)


def _markdown(text: str) -> str:
    """Text as Markdown shows it as it is: a name may hold tags, links, or the bars of a table."""
    plain = re.sub(r"([\\`*_\[\]|])", r"\\\1", printable(text))
    return plain.replace("&", "&amp;").replace("<", "&lt;")


_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "±": r"$\pm$"}
)


def _latex(text: str) -> str:
    return text.translate(_LATEX)
