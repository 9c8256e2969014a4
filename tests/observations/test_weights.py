"""Weights of entries: how they are taken in, and how they stay with the entries."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from lorank.errors import InputError
from lorank.observations import Observations, observe

X = np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, 6.0], [7.0, np.nan, np.nan]])
C = np.array([[2.0, 9.0, 0.5], [9.0, 1.0, 3.0], [4.0, 9.0, 9.0]])
EXPECTED = {(0, 0): 2.0, (0, 2): 0.5, (1, 1): 1.0, (1, 2): 3.0, (2, 0): 4.0}
ROWS, COLS = np.array([2, 0, 1, 1, 0]), np.array([0, 2, 2, 1, 0])


def weights_of(observations):
    return {(int(i), int(j)): float(c) for i, j, c in zip(observations.rows, observations.cols, observations.weights)}


@pytest.mark.parametrize("order", [slice(None), np.lexsort((COLS, ROWS))])
def test_every_constructor_keeps_a_weight_with_its_entry(order):
    rows, cols = ROWS[order], COLS[order]
    values, weights = X[rows, cols], C[rows, cols]
    table = pd.DataFrame({"r": rows, "c": cols, "v": values, "w": weights})
    matrix = sp.coo_array((values, (rows, cols)), shape=(3, 3))
    other_order = sp.csc_array(sp.coo_array((weights, (rows, cols)), shape=(3, 3)))
    made = [
        Observations.from_coo(rows, cols, values, weights=weights),
        Observations.from_ids(rows, cols, values, weights),
        Observations.from_table(table, "r", "c", "v", weight="w"),
        Observations.from_sparse(matrix, weights),
        Observations.from_sparse(matrix, other_order),
        Observations.from_dense(X, weights=C),
        Observations.from_frame(pd.DataFrame(X), pd.DataFrame(C)),
        observe((rows, cols, values), weights),
        observe(X, C),
        observe(observe(X), C[~np.isnan(X)]),
    ]
    for observations in made:
        assert weights_of(observations) == EXPECTED
        np.testing.assert_array_equal(observations.values, X[observations.rows, observations.cols])


def test_weights_stay_with_their_entries():
    seen = observe(X, C)
    assert weights_of(seen.transposed()) == {(j, i): c for (i, j), c in EXPECTED.items()}
    assert seen.astype("float32").weights.dtype == np.float32
    assert weights_of(seen.astype("float32")) == EXPECTED
    train, held_out = seen.split(0.4, seed=3)
    assert weights_of(train) | weights_of(held_out) == EXPECTED
    named = Observations.from_dense(X, ["a", "b", "c"], ["x", "y", "z"], C)
    turned = Observations.from_dense(X[::-1, ::-1], ["c", "b", "a"], ["z", "y", "x"])
    assert weights_of(named.aligned_to(turned)) == {(2 - i, 2 - j): c for (i, j), c in EXPECTED.items()}
    np.testing.assert_allclose(seen.by_row.totals(), [2.5, 4.0, 4.0])
    np.testing.assert_allclose(seen.by_col.totals(), [6.0, 1.0, 3.5])
    assert seen.mean == pytest.approx((2 * 1 + 0.5 * 3 + 5 + 3 * 6 + 4 * 7) / 10.5)
    assert "weighted" in repr(seen)


def test_weight_zero_is_not_observed_and_ones_are_none():
    zero = C.copy()
    zero[1, 1] = zero[0, 0] = 0
    fewer = X.copy()
    fewer[1, 1] = fewer[0, 0] = np.nan
    for seen in (
        observe(X, zero),
        observe(X).with_weights(zero[~np.isnan(X)]),
        observe((ROWS, COLS, X[ROWS, COLS]), zero[ROWS, COLS]),
    ):
        np.testing.assert_array_equal(seen.cols, observe(fewer).cols)
        np.testing.assert_array_equal(seen.by_row.pointers, observe(fewer).by_row.pointers)
    assert observe(X, np.ones_like(X)).weights is None
    assert observe(X, C).with_weights(None).weights is None


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (-C, "Weights must be finite numbers >= 0; there is -2"),
        (np.where(C == 3, np.nan, C), "there is nan"),
        (C[:2], "have the same shape"),
        (np.full((3, 3), "heavy"), "Weights must be numbers"),
    ],
)
def test_weights_that_cannot_be_meant(weights, sentence):
    with pytest.raises(InputError, match=sentence):
        observe(X, weights)


def test_weights_that_do_not_go_with_the_data():
    with pytest.raises(InputError, match="5 values and 4 weights"):
        observe((ROWS, COLS, X[ROWS, COLS]), np.ones(4))
    with pytest.raises(InputError, match="store the same entries"):
        Observations.from_sparse(sp.eye_array(3).tocsr(), sp.csr_array(np.ones((3, 3))))
