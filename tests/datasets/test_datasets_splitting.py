import numpy as np
import pytest

from lorank.datasets import split, split_locations
from lorank.errors import InputError
from lorank.observations import Observations


@pytest.fixture
def ratings():
    rows, cols = np.divmod(np.random.default_rng(0).permutation(1000)[:401], 25)
    return Observations.from_coo(rows, cols, np.arange(401.0), shape=(40, 25), row_ids=np.arange(100, 140))


def test_parts_are_disjoint_and_together_everything(ratings):
    parts = split(ratings)
    assert [part.nnz for part in parts] == [200, 101, 100]
    assert all(part.shape == ratings.shape for part in parts)
    assert all(part.row_ids is ratings.row_ids for part in parts)
    assert sorted(np.concatenate([part.values for part in parts])) == list(range(401))
    truth = {(r, c): v for r, c, v in zip(ratings.rows, ratings.cols, ratings.values)}
    for part in parts:
        assert all(truth[r, c] == v for r, c, v in zip(part.rows, part.cols, part.values))


def test_the_seed_decides(ratings):
    np.testing.assert_array_equal(split(ratings, seed=3)[0].values, split(ratings, seed=3)[0].values)
    assert not np.array_equal(split(ratings, seed=3)[0].values, split(ratings, seed=4)[0].values)


def test_every_entry_is_as_likely_as_any(ratings):
    hits = np.zeros(401)
    for seed in range(400):
        hits[split(ratings, (0.25, 0.75), seed)[0].values.astype(int)] += 1
    # Binomial(400, 1/4): deviation 8.7, so 401 of them stay within five deviations.
    assert abs(hits - 100).max() < 5 * 8.7


@pytest.mark.parametrize("fractions", [(0.5, 0.6), (0.5,), (1.2, -0.2), ()])
def test_fractions_must_sum_to_one(ratings, fractions):
    with pytest.raises(InputError, match="sum to 1"):
        split(ratings, fractions)


def test_an_empty_part_is_refused():
    with pytest.raises(InputError, match="empty"):
        split_locations(3)


def test_locations_are_the_papers_parts():
    train, validation, test = split_locations(125, seed=1)
    assert (train.size, validation.size, test.size) == (12, 13, 100)
    assert sorted(np.concatenate([train, validation, test])) == list(range(125))
    assert (np.diff(train) > 0).all()
    assert not np.array_equal(train, split_locations(125, seed=2)[0])
