"""`lorank split`: a table in two, to fit on one part and judge by the other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lorank.cli.inputs import habits_of, read_table, refuse_what_is_read, times_of
from lorank.cli.options import (
    ColOption,
    DelimiterOption,
    Duplicates,
    DuplicatesOption,
    HeaderOption,
    RowOption,
    SeedOption,
    TableArgument,
    ValueOption,
    WhenOption,
)
from lorank.cli.terminal import answering
from lorank.errors import InputError


def split(
    table: TableArgument,
    train: Annotated[Path, typer.Option(help="Table to write: the entries to fit.")] = Path("train.csv"),
    test: Annotated[Path, typer.Option(help="Table to write: the entries that are held out.")] = Path("test.csv"),
    fraction: Annotated[float, typer.Option(min=0.001, max=0.999, help="Part of each row's entries held out.")] = 0.2,
    last: Annotated[int | None, typer.Option(min=1, help="Hold out so many of each row's last entries.")] = None,
    by_time: Annotated[bool, typer.Option("--by-time", help="Hold out the last fraction of all entries.")] = False,
    row: RowOption = None,
    col: ColOption = None,
    value: ValueOption = None,
    time: WhenOption = None,
    duplicates: DuplicatesOption = Duplicates.error,
    seed: SeedOption = 0,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
) -> None:
    """Split a long table in two: to fit on one part, and to judge lists by the other.

    A part of each row's entries is held out, at random, or with --time the last ones. A row keeps at least one entry.
    Dates are written as seconds since 1970.

    Example: lorank split ratings.csv --time when --last 1 --train train.csv --test test.csv
    """
    if time is None and (by_time or last is not None):
        raise typer.BadParameter("what came last is told by a column of times; name it.", param_hint="--time")
    if by_time and last is not None:
        raise typer.BadParameter("give --last or --by-time, not both.")
    import numpy as np

    from lorank.files import check_writable
    from lorank.observations.splits import hold_out_of_rows, leave_last_out, split_by_time

    if len({path.resolve() for path in (table, train, test)}) < 3:
        raise InputError(f"{table}, {train} and {test} must be three files; name others by --train and --test.")
    refuse_what_is_read([train, test], [table])
    for path in (train, test):
        check_writable(path)
    observations, columns = read_table(table, row, col, value, delimiter, header, duplicates, time=time)
    if columns is None or observations.row_ids is None or observations.col_ids is None:
        raise InputError(f"{table} is no long table; say which of its columns are --row, --col and --value.")
    times = times_of(table, columns, time, delimiter, header, habits_of("utf-8", ".", None, ""), None)
    if times is not None and last is not None:
        parts = leave_last_out(observations, times, last)
    elif times is not None and by_time:
        parts = split_by_time(observations, times, fraction)
    else:
        parts = hold_out_of_rows(observations, fraction, seed, times)
    n = observations.shape[1]
    places = observations.rows.astype(np.int64) * n + observations.cols
    for path, part in zip((train, test), parts):
        lines: dict[str, Any] = {
            columns[0]: observations.row_ids.values[part.rows],
            columns[1]: observations.col_ids.values[part.cols],
            **({columns[2]: part.values} if len(columns) == 3 else {}),
        }
        if time is not None and times is not None:
            at = np.searchsorted(places, part.rows.astype(np.int64) * n + part.cols)
            lines[time] = times.aligned_to(observations).values[at]
        if len(columns) == 2 and time is None:  # a pair that was there several times is so again
            lines = {name: np.repeat(cells, part.values.astype(np.int64)) for name, cells in lines.items()}
        with answering(path, as_json=False) as append:
            append(lines)
