"""Offsets alone as a candidate of the search, parts of small data, and choices that do not depend on the unit."""

import numpy as np
import pytest

import lorank
from lorank import MatrixCompletion
from lorank.observations import Observations
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.tuning.held_out import ENOUGH, MOST_PARTS, parts_of

AUTO = {"method": "nnfn", "features": None, **dict.fromkeys(("lam", "rank", "theta", "biases"), "auto")}


def ratings(m=400, n=300, entries=4000, factors=0.0, seed=0):
    """Offsets and noise, with a part of rank 1 of this size; the first entries to learn from, the others to test."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(m * n)[: 2 * entries]
    rows, cols = cells // n, cells % n
    values = 3 + rng.standard_normal(m)[rows] + rng.standard_normal(n)[cols] + rng.standard_normal(cells.size)
    values += factors * rng.standard_normal(m)[rows] * rng.standard_normal(n)[cols]
    return [
        Observations.from_coo(rows[half], cols[half], values[half], (m, n))
        for half in (slice(0, entries), slice(entries, None))
    ]


def rmse(model, test):
    return float(np.sqrt(np.mean((model.predict(test.rows, test.cols) - test.values) ** 2)))


@pytest.fixture(scope="module")
def offsets_alone():
    train, test = ratings()
    return MatrixCompletion(random_state=0).fit(train), train, test


def test_offsets_alone_are_chosen_where_there_is_nothing_else(offsets_alone):
    model, train, test = offsets_alone
    assert (model.setting_.rank, model.setting_.biases, model.rank_) == (0, True, 0)
    expected = empirical_bayes_offsets(train).predict(test.rows, test.cols)
    np.testing.assert_allclose(model.predict(test.rows, test.cols), expected, atol=5e-3)
    assert model.tuning_.chosen.rank == 0
    assert not np.any(model.singular_values_)


@pytest.mark.parametrize("seed", [0, 4, 12])
def test_factors_that_help_by_less_than_noise_are_not_chosen(seed):
    """There are none: of enough trials one is better on the 600 held-out entries, and worse by up to 1.7% on others."""
    train, _ = ratings(m=100, n=60, entries=1500, seed=seed)
    assert MatrixCompletion(**AUTO, random_state=0).fit(train).setting_.rank == 0


def test_factors_are_chosen_where_they_help():
    train, test = ratings(entries=20_000, factors=1.0)
    model = MatrixCompletion(**AUTO, random_state=0).fit(train)
    assert model.setting_.rank >= 1
    offsets = empirical_bayes_offsets(train).predict(test.rows, test.cols)
    assert rmse(model, test) < 0.9 * np.sqrt(np.mean((offsets - test.values) ** 2))


def test_a_model_of_offsets_alone_does_all_that_models_do(offsets_alone, tmp_path):
    model, train, _ = offsets_alone
    expected = model.predict([0, 1, 2], [3, 4, 5])
    for shards in (False, True):
        path = tmp_path / f"model-{shards}"
        model.save(path, shards=shards)
        loaded = lorank.load(path)
        assert loaded.setting == model.setting_
        np.testing.assert_allclose(loaded.predict([0, 1, 2], [3, 4, 5]), expected)
        assert loaded.recommend([0], n=5).cols.tolist() == model.recommend([0], n=5).cols.tolist()
    # Everybody is recommended the columns with the largest offsets among those that they have not seen.
    best = model.recommend([0], n=1)
    unseen = np.setdiff1d(np.arange(300), train.cols[train.rows == 0])
    assert best.cols[0] == unseen[np.argmax(model.col_bias_[unseen])]
    dense = np.full((2, 300), np.nan)
    known = train.subset(train.rows == 7)
    dense[0, known.cols] = known.values
    dense[1, 3] = 4.0
    folded = model.fold_in(dense)
    assert folded.row_bias_[0] == pytest.approx(model.row_bias_[7], abs=5e-3)
    assert np.isfinite(folded.complete()).all()
    lower, upper = model.predict([0], [1], interval=0.9)[1:]
    assert lower < upper
    assert "rank=0" in repr(model.model_)
    assert model.model_.describe()["method"] == "offsets alone"
    more = MatrixCompletion.from_model(lorank.load(tmp_path / "model-False")).partial_fit(train)
    assert more.setting_.rank == 0
    np.testing.assert_allclose(more.predict([0, 1, 2], [3, 4, 5]), expected, atol=1e-3)


@pytest.mark.parametrize(("factors", "seed"), [(0.0, 0), (1.0, 0), (1.0, 1), (1.0, 6), (1.0, 7)])
def test_choices_do_not_depend_on_the_unit_of_the_data(factors, seed):
    """Nor on gaps between singular values that are nothing but rounding."""
    train, test = ratings(factors=factors, entries=6000)
    models = {
        scale: MatrixCompletion(**AUTO, random_state=seed).fit(train.with_values(scale * train.values))
        for scale in (1.0, 100.0)
    }
    one = models.pop(1.0)
    for scale, model in models.items():
        same = ("rank", "theta", "biases")
        assert [getattr(model.setting_, name) for name in same] == [getattr(one.setting_, name) for name in same]
        assert model.setting_.lam == pytest.approx(scale * one.setting_.lam, rel=1e-3)
        found = rmse(model, test.with_values(scale * test.values))
        assert found == pytest.approx(scale * rmse(one, test), rel=1e-4)


def test_choices_do_not_depend_on_where_zero_is_once_there_are_offsets():
    train, test = ratings(factors=1.0, entries=6000)
    settings = AUTO | {"biases": True, "random_state": 0}
    one = MatrixCompletion(**settings).fit(train)
    other = MatrixCompletion(**settings).fit(train.with_values(train.values + 50))
    assert (other.setting_.rank, other.setting_.theta) == (one.setting_.rank, one.setting_.theta)
    assert rmse(other, test.with_values(test.values + 50)) == pytest.approx(rmse(one, test), rel=1e-3)


def test_small_data_is_held_out_several_times():
    train, _ = ratings()
    parts = parts_of(train, seed=3)
    assert len(parts) == MOST_PARTS
    cells = [set((part.rows.astype(np.int64) * 300 + part.cols).tolist()) for _, part in parts]
    assert sum(map(len, cells)) == len(set.union(*cells)) == MOST_PARTS * 400
    for rest, part in parts:
        assert rest.nnz + part.nnz == train.nnz
    rng = np.random.default_rng(0)
    large = Observations.from_dense(rng.standard_normal((400, ENOUGH // 40)))
    assert len(parts_of(large, seed=0)) == 1
    np.testing.assert_array_equal(parts_of(large, seed=5)[0][1].values, large.split(0.1, 5)[1].values)
    assert len(parts_of(Observations.from_dense(np.arange(3.0)[None]), seed=0)) == 3


def test_the_error_hardly_depends_on_the_seed_of_the_search():
    """Sparse data with strong factors, where a weight that is too high or a fit that is not at its end shows."""
    rng = np.random.default_rng(0)
    m, entries, rank = 600, 9000, 2
    cells = rng.permutation(m * m)[: 3 * entries // 2]
    rows, cols = cells // m, cells % m
    W, H = rng.standard_normal((2, m, rank))
    values = rng.normal(0, 0.5, m)[rows] + rng.normal(0, 0.5, m)[cols] + rng.normal(0, 0.5, cells.size)
    values += np.sum(W[rows] * H[cols], axis=1) / np.sqrt(rank)
    train, test = (
        Observations.from_coo(rows[half], cols[half], values[half], (m, m))
        for half in (slice(0, entries), slice(entries, None))
    )
    errors = np.array([rmse(MatrixCompletion(**AUTO, random_state=seed).fit(train), test) for seed in range(3)])
    assert np.ptp(errors) < 0.005 * errors.mean()


def test_ridges_follow_the_noise_that_factors_leave():
    """Offsets alone take factors for noise; with ridges by that the factors would have to learn offsets, at rank 5."""
    rng = np.random.default_rng(0)
    m, n, rank = 120, 80, 3
    X = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    X += 2 * rng.standard_normal((m, 1)) + 2 * rng.standard_normal(n)
    seen = rng.random((m, n)) < 0.15
    model = MatrixCompletion(**AUTO, random_state=0).fit(np.where(seen, X + rng.normal(0, 0.1, (m, n)), np.nan))
    assert (model.setting_.rank, model.setting_.biases) == (3, True)
    assert model.setting_.noise < 0.1
    assert model.setting_.bias_ridges == tuple(model.setting_.noise * ridge for ridge in model.setting_.ridges)
    assert np.sqrt(np.mean((model.complete() - X)[~seen] ** 2)) < 0.25  # 0.43 with the ridges of offsets alone
