"""Held-out parts of rows, of the last entries, and by time."""

import numpy as np
import pytest

from lorank.errors import InputError
from lorank.observations import Observations
from lorank.observations.splits import hold_out_of_rows, leave_last_out, split_by_time


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((40, 30)) < 0.4, rng.random((40, 30)), np.nan)
    X[0], X[1] = np.nan, np.nan
    X[1, 3] = 0.5  # a row without entries, and one with a single one
    times = np.where(np.isnan(X), np.nan, rng.permutation(X.size).reshape(X.shape))
    return X, Observations.from_dense(X), times, Observations.from_dense(times)


def cells(part):
    return set(zip(part.rows.tolist(), part.cols.tolist()))


def test_a_part_of_every_row():
    _, seen, *_ = data()
    rest, held = hold_out_of_rows(seen, 0.25, seed=1)
    assert cells(rest) | cells(held) == cells(seen)
    assert not cells(rest) & cells(held)
    counts, taken = np.diff(seen.by_row.pointers), np.diff(held.by_row.pointers)
    assert (np.abs(taken - 0.25 * counts) < 1).all()
    assert taken[1] == 0
    assert (
        cells(hold_out_of_rows(seen, 0.25, seed=1)[1]) == cells(held) != cells(hold_out_of_rows(seen, 0.25, seed=2)[1])
    )


def test_the_last_ones_of_each_row():
    X, seen, times, when = data()
    rest, held = leave_last_out(seen, when, 2)
    for i in range(len(X)):
        order = [int(j) for j in np.argsort(times[i]) if not np.isnan(times[i, j])]
        last = order[max(len(order) - 2, 1) :]
        assert {j for row, j in cells(held) if row == i} == set(last)
    assert cells(rest) | cells(held) == cells(seen)


def test_all_after_a_date():
    _, seen, times, when = data()
    rest, held = split_by_time(seen, when, 0.2)
    assert times[rest.rows, rest.cols].max() < times[held.rows, held.cols].min()
    assert held.nnz == pytest.approx(0.2 * seen.nnz, abs=1.5)
    one = when.with_values(np.ones(when.nnz))
    with pytest.raises(InputError, match="same time"):
        split_by_time(seen, one)


def test_times_are_of_the_same_entries():
    _, seen, _, when = data()
    with pytest.raises(InputError, match="same entries"):
        leave_last_out(seen, when.subset(when.values > 50))
    with pytest.raises(InputError, match="between 0 and 1"):
        hold_out_of_rows(seen, 1.5)
