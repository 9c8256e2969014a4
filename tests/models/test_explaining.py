"""Reasons: the parts of a row's entries sum to its prediction."""

from dataclasses import replace

import numpy as np
import pytest

import lorank
from lorank.errors import InputError
from lorank.models.explaining import reasons


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = 3 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    X[rng.random(X.shape) < 0.5] = np.nan
    return lorank.Observations.from_dense(X)


@pytest.mark.parametrize("biases", [False, True])
def test_all_parts_sum_to_the_prediction(data, biases):
    wanted = lorank.MatrixCompletion("nnfn", rank=2, lam=1.0, biases=biases, tol=1e-12, random_state=0)
    model = wanted.fit(data).model_
    factors, cols = model.factors, np.arange(30)
    own = [sum(part for _, part in found) for found in reasons(model, 4, cols, most=10**6)]
    # Only those that speak for a column are listed: those that speak against it are found with the signs turned.
    turned = data.with_values(-data.values)
    mirrored = (
        lorank.MatrixCompletion("nnfn", rank=2, lam=1.0, biases=biases, tol=1e-12, random_state=0).fit(turned).model_
    )
    against = [sum(part for _, part in found) for found in reasons(mirrored, 4, cols, most=10**6)]
    expected = factors.W[4] @ factors.H.T
    np.testing.assert_allclose(np.subtract(own, against), expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_reasons_are_entries_of_the_row_in_order(data):
    model = lorank.MatrixCompletion("bpmf", rank=2, biases=True, max_iter=60, random_state=0).fit(data).model_
    seen = set(data.cols[data.rows == 7].tolist())
    for found in reasons(model, 7, np.array([1, 2, 3])):
        assert {col for col, _ in found} <= seen
        assert [part for _, part in found] == sorted((part for _, part in found), reverse=True)
    with pytest.raises(InputError, match="saved without its data"):
        reasons(replace(model, observations=None), 7, np.array([1]))
