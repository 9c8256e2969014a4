"""Tables that commands read, with a progress bar and a sentence about each guess."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lorank.cli.terminal import say
from lorank.errors import InputError
from lorank.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorank.models import Model
    from lorank.observations import Observations
    from lorank.observations.identifiers import Identifiers
    from lorank.tables import Habits


def refuse_what_is_read(written: Iterable[Path | None], read: Iterable[object]) -> None:
    """Refuse to write over a file that the same command reads.

    What it reads are paths, and words or lists of them that name files, as in --deny seen.csv or --covariate h=h.nc.
    """
    words = [word for given in read for word in (given if isinstance(given, list) else [given])]
    names = [name for word in words if isinstance(word, (str, Path)) for name in (word, str(word).rpartition("=")[2])]
    for output in written:
        for name in names:
            if output and os.path.exists(output) and os.path.exists(name) and os.path.samefile(output, name):
                raise InputError(
                    f"{output} is read by this command, and would be replaced; give another name to --output."
                )


def read_table(
    path: Path,
    row: str | None,
    col: str | None,
    value: str | None,
    delimiter: str | None,
    header: bool | None,
    duplicates: str = "error",
    habits: Habits | None = None,
    sheet: str | None = None,
    weight: str | None = None,
    time: str | None = None,
) -> tuple[Observations, tuple[str, ...] | None]:
    """Observations of a file, with a progress bar, and a sentence about each guess."""
    from lorank.tables import reading as tables
    from lorank.tables.translation import PLAIN

    with ProgressBar(f"Reading {path.name}", bytes_of(path)) as bar:
        observations, columns = tables.read(
            path,
            row,
            col,
            value,
            weight=weight,
            time=time,
            delimiter=delimiter,
            header=header,
            habits=habits or PLAIN,
            sheet=sheet,
            duplicates=duplicates,
            say=say,
            advance=bar.advance,
        )
    m, n = observations.shape
    if columns is None and observations.nnz == m * n:
        raise InputError(
            f"No cell of {path} is missing, so there is nothing to learn; "
            "if it is a long table, say which columns are --row, --col and --value."
        )
    return observations, columns


def times_of(
    path: Path,
    columns: tuple[str, ...] | None,
    time: str | None,
    delimiter: str | None,
    header: bool | None,
    habits: Habits,
    sheet: str | None,
) -> Observations | None:
    """The times of a long table's entries, if their column is named."""
    if time is None or columns is None:
        return None
    from lorank.tables.times import read_times

    return read_times(
        path, columns[0], columns[1], time, delimiter=delimiter, header=header, habits=habits, sheet=sheet
    )


def read_validation(
    given: str | None,
    columns: tuple[str, ...] | None,
    delimiter: str | None,
    header: bool | None,
    duplicates: str,
    habits: Habits,
) -> Observations | float | None:
    """None, a share, or the observations of another file laid out as the first."""
    if given is None:
        return None
    try:
        float(given)
    except ValueError:
        names = (*(columns or ()), None, None, None)
        return read_table(Path(given), names[0], names[1], names[2], delimiter, header, duplicates, habits)[0]
    return share_of(given)


def share_of(given: str) -> float:
    """A share between 0 and 1."""
    try:
        share = float(given)
    except ValueError:
        raise typer.BadParameter("of a folder, give a share between 0 and 1.", param_hint="--validation") from None
    if not 0 < share < 1:
        raise typer.BadParameter("give a share between 0 and 1, or a file.", param_hint="--validation")
    return share


def habits_of(encoding: str, decimal: str, na: str | None, comment: str) -> Habits:
    """How a text file is written, from the options."""
    from lorank.tables import Habits

    words = () if na is None else tuple(word.strip() for word in na.split(",") if word.strip())
    return Habits(encoding, decimal, words, comment)


def bytes_of(path: Path) -> int | None:
    """The size of a file, for a progress bar; None of a pipe, whose size is not known."""
    return path.stat().st_size if path.is_file() else None


def sides_of(
    ids: Sequence[Identifiers | None],
    columns: Sequence[str] | None,
    row_features: Path | None,
    col_features: Path | None,
) -> dict[str, Any]:
    """Features of rows and columns as arguments of an estimator, from tables that are named; else nothing.

    Their ids are spelled as those of the rows and of the columns, of which `ids` has at least one.
    """
    from lorank.tables.side_tables import read_features

    sides: dict[str, Any] = {}
    for number, (path, own) in enumerate(zip((row_features, col_features), ids)):
        if path is not None:
            wanted = None if columns is None else columns[number]
            sides[("row_side", "col_side")[number]] = read_features(path, own=own, wanted=wanted)
    return sides


def pair_columns(
    path: Path, model: Model, row: str | None, col: str | None, delimiter: str | None, header: bool | None
) -> tuple[str, str]:
    """The id columns of a table: those named, those of the model's own table, or the first two of two or three."""
    from lorank.tables import reading as tables
    from lorank.tables.names import listed

    delimiter = tables.find_delimiter(path, delimiter, (row, col))
    columns = tables.column_names(path, delimiter, header)
    own = model.columns or (None, None)
    row, col = row or (own[0] if own[0] in columns else None), col or (own[1] if own[1] in columns else None)
    if row is None and col is None and len(columns) in (2, 3):
        row, col = columns[:2]
        say(f"Taking column {row!r} as rows and {col!r} as columns.")
    if row is None or col is None:
        raise InputError(f"Say which columns of {path} are --row and --col; there are {listed(columns)}.")
    return row, col


def names_like(
    model: Model, row: str | None, col: str | None, value: str | None
) -> tuple[str | None, str | None, str | None]:
    """The columns of a table of further entries: those named, or else those of the model's own table."""
    own = (*(model.columns or ()), None, None, None)  # a table of clicks has two
    return row or own[0], col or own[1], value or own[2]


def value_column(columns: tuple[str, ...], model: Model, row: str, col: str, path: Path) -> str | None:
    """The model's own value column, or the one that is left of three; None for clicks, which have no values."""
    from lorank.tables.names import listed

    own = names_like(model, None, None, None)[2]
    rest = [name for name in columns if name not in (row, col)]
    if own in rest:
        return str(own)
    if not rest and model.setting.grades is not None:
        return None
    if len(rest) != 1:
        raise InputError(f"Say which column of {path} is --value; there are {listed(columns)}.")
    return rest[0]
