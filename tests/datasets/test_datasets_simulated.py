"""Simulated ratings: their shape, their scale, their structure."""

import numpy as np
import pytest

from lorank import MatrixCompletion
from lorank.datasets import simulated
from lorank.errors import InputError


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(simulated.SHAPES, "small", simulated.Shape(5_000, 800, 150_000, 10, 400))
    return simulated.simulated_ratings("small")


def test_half_stars_of_every_pair_once(small):
    assert small.shape == (5_000, 800)
    assert 120_000 < small.nnz <= 150_000
    assert small.dtype == np.float32
    assert set(np.unique(small.values)) == set(np.arange(1, 11) / 2)
    for i in range(0, 5_000, 97):
        line = small.by_row.indices[small.by_row.pointers[i] : small.by_row.pointers[i + 1]]
        assert (np.diff(line) > 0).all()


def test_skewed_like_ratings(small):
    seen = np.sort(np.diff(small.by_col.pointers))[::-1]
    assert seen[:80].sum() > 0.3 * small.nnz
    given = np.diff(small.by_row.pointers)
    assert given.max() > 8 * np.median(given)


def test_the_same_seed_gives_the_same_ratings(small):
    again, other = simulated.simulated_ratings("small"), simulated.simulated_ratings("small", seed=11)
    np.testing.assert_array_equal(again.values, small.values)
    assert other.nnz != small.nnz or (other.values != small.values).any()


def test_there_is_something_to_learn(small):
    train, test = small.split(0.2)
    model = MatrixCompletion(rank=5, lam=15.0, theta=0.5, biases=True, random_state=0).fit(train)
    assert -model.score(test) < 0.97 * test.values.std()


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="ml10m, yahoo"):
        simulated.simulated_ratings("netflix")
