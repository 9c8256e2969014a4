"""A small table of results: rows of named values, that prints itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows with the same names.

    >>> table = Table([{"name": "a", "error": 0.25}, {"name": "b", "error": None}])
    >>> print(table)
    name  error
    a     0.25
    b
    >>> table["error"]
    [0.25, None]
    """

    rows: Sequence[Mapping[str, Any]]

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

    def to_frame(self) -> Any:
        """As a pandas DataFrame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def __str__(self) -> str:
        cells = [self.columns] + [[_text(value) for value in row.values()] for row in self.rows]
        widths = [max(len(line[at]) for line in cells) for at in range(len(self.columns))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]
        return "\n".join(lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(part)}" for name, part in value.items())
    return str(value)
