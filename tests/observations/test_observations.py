"""Observations come from anything that holds a matrix, and keep exactly what was in it."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lorank.errors import InputError
from lorank.observations import Observations, observe

DENSE = np.array([[1.0, np.nan, 0.0], [np.nan, np.nan, 2.5]])


def test_sorted_triplets_give_what_shuffled_ones_give():
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(40 * 30, size=300))
    rows, cols, values = cells // 30, cells % 30, rng.standard_normal(cells.size)
    order = rng.permutation(cells.size)
    kept = Observations.from_coo(rows, cols, values, (40, 30))
    sorted_anew = Observations.from_coo(rows[order], cols[order], values[order], (40, 30))
    for lines, others in ((kept.by_row, sorted_anew.by_row), (kept.by_col, sorted_anew.by_col)):
        for name in ("pointers", "indices", "values"):
            np.testing.assert_array_equal(getattr(lines, name), getattr(others, name))
            assert getattr(lines, name).dtype == getattr(others, name).dtype
    values[:] = 0  # the caller's arrays are his own
    assert kept.values.any()


def dense_of(observations):
    X = np.full(observations.shape, np.nan)
    X[observations.rows, observations.cols] = observations.values
    return X


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", [sp.coo_array, sp.coo_matrix])
def test_every_sparse_format(form, kind):
    X = kind(([1.0, 3.0, 2.5], ([0, 0, 1], [0, 2, 2])), shape=(2, 3)).asformat(form)
    stored = X.tocoo()
    seen = observe(X)
    assert seen.nnz == stored.nnz
    assert np.array_equal(seen.to_sparse().toarray(), X.toarray())


def test_a_stored_zero_is_observed():
    X = sp.csr_array(([1.0, 0.0], ([0, 1], [0, 1])), shape=(2, 2))
    assert observe(X).nnz == 2
    assert 0.0 in observe(X).values


def test_dense_with_nan_and_both_orders():
    seen = observe(DENSE)
    np.testing.assert_array_equal(dense_of(seen), DENSE)
    assert seen.by_col.pointers.tolist() == [0, 1, 1, 3]
    assert seen.by_col.indices.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(seen.values[seen.by_col_order], seen.by_col.values)


@pytest.mark.parametrize("library", [pd, pl])
def test_wide_frames(library):
    frame = library.DataFrame({"a": [1.0, None], "b": [None, None], "c": [0.0, 2.5]})
    seen = observe(frame)
    np.testing.assert_array_equal(dense_of(seen), DENSE)
    assert seen.col_ids.values.tolist() == ["a", "b", "c"]


def test_pandas_index_is_kept():
    frame = pd.DataFrame(DENSE, index=["x", "y"], columns=[7, 8, 9])
    seen = observe(frame)
    assert seen.row_ids.values.tolist() == ["x", "y"]
    assert seen.col_ids.values.tolist() == [7, 8, 9]


@pytest.mark.parametrize("library", [pd, pl])
def test_long_table(library):
    table = library.DataFrame({"user": ["u2", "u1", "u2"], "item": [10, 10, 30], "stars": [4.0, 5.0, 1.0]})
    seen = Observations.from_table(table, "user", "item", "stars")
    assert seen.shape == (2, 2)
    got = {(seen.name_of_row(i), seen.name_of_col(j)): v for i, j, v in zip(seen.rows, seen.cols, seen.values)}
    assert got == {("u2", 10): 4.0, ("u1", 10): 5.0, ("u2", 30): 1.0}


def test_long_table_suggests_the_column():
    table = pd.DataFrame({"user": ["a"], "item": [1], "rating": [2.0]})
    with pytest.raises(InputError, match=r"no column 'ratings'.*did you mean 'rating'"):
        Observations.from_table(table, "user", "item", "ratings")


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 2],
        ["007", "7", "07"],
        [("a", 1), ("a", 2), ("b", 1)],
        [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), datetime.date(2019, 1, 1)],
        [7, "7", 7.5],
        [2**62, -(2**62), 0],
    ],
)
def test_ids_of_any_hashable_type(ids):
    seen = (
        observe((ids, ids, [1.0, 2.0, 3.0]))
        if not isinstance(ids[0], int)
        else Observations.from_ids(ids, ids, [1.0, 2, 3])
    )
    for name, value in zip(ids, [1.0, 2.0, 3.0]):
        position = int(seen.row_ids.positions([name], "row")[0])
        assert seen.name_of_row(position) == name
        assert type(seen.row_ids.values.tolist()[position]) is type(name)
        assert seen.to_sparse().toarray()[position].max() == value


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_triplets_in_any_order(m, n, seed, dtype):
    rng = np.random.default_rng(seed)
    cells = rng.permutation(m * n)[: rng.integers(1, m * n + 1)]
    values = rng.standard_normal(cells.size).astype(dtype)
    seen = Observations.from_coo(cells // n, cells % n, values, (m, n))
    assert seen.dtype == dtype
    whole = np.full(m * n, np.nan)
    whole[cells] = values
    np.testing.assert_array_equal(dense_of(seen).ravel(), whole)
    # The column-major copy holds the same entries, rows ascending.
    order = np.lexsort((seen.rows, seen.cols))
    np.testing.assert_array_equal(seen.by_col.values, seen.values[order])
    np.testing.assert_array_equal(seen.by_col.indices, seen.rows[order])


def test_split_and_subset():
    seen = observe(np.arange(1.0, 101.0).reshape(10, 10))
    kept, held = seen.split(0.25, seed=1)
    assert (kept.nnz, held.nnz) == (75, 25)
    assert set(kept.values) | set(held.values) == set(seen.values)
    np.testing.assert_array_equal(seen.split(0.25, seed=1)[1].values, held.values)


def test_aligned_by_id():
    train = Observations.from_ids(["a", "b"], ["x", "y"], [1.0, 2.0])
    other = Observations.from_ids(["b"], ["x"], [3.0])
    moved = other.aligned_to(train)
    assert moved.shape == (2, 2)
    assert (moved.name_of_row(moved.rows[0]), moved.name_of_col(moved.cols[0])) == ("b", "x")
    with pytest.raises(InputError, match="'c'"):
        Observations.from_ids(["c"], ["x"], [3.0]).aligned_to(train)


BAD = [
    (np.empty((0, 3)), "empty"),
    (np.full((2, 2), np.nan), "missing"),
    (sp.csr_array((3, 3)), "No entry"),
    (np.array([[1.0, np.inf]]), "infinity"),
    (np.array([[1.0 + 2j]]), "Complex"),
    (np.array([["a", "b"]]), "numbers"),
    (np.array([["a", None]], dtype=object), "numbers"),
    (np.ones(4), "two dimensions"),
    (([0, 0], [1, 1], [1.0, 2.0]), r"\(0, 1\).*more than once"),
    ((["u", "u"], ["i", "i"], [1.0, 2.0]), r"\(u, i\).*more than once"),
    (([0], [1, 2], [1.0]), "one row, column and value each"),
    (([-1], [0], [1.0]), "-1 is outside"),
    (pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), "Column 'b' is not numeric"),
]


@pytest.mark.parametrize(("X", "said"), BAD)
def test_bad_input_gets_one_sentence(X, said):
    with pytest.raises(InputError, match=said) as caught:
        observe(X)
    assert "\n" not in str(caught.value)


def test_shape_that_is_too_small():
    with pytest.raises(InputError, match=r"Row index 5 is outside 0..2"):
        Observations.from_coo([5], [0], [1.0], (3, 3))
