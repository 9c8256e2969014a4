"""goal="ranking": clicks and ratings become lists."""

import warnings

import numpy as np
import pytest

import lorank
from lorank import MatrixCompletion
from lorank.errors import InputError
from lorank.estimators.ranking_goal import most_popular
from lorank.models.preferences import Grades
from lorank.models.ranking_metrics import ranking_scores
from lorank.observations import Observations
from lorank.observations.splits import hold_out_of_rows


def tastes(seed=0, m=150, n=60, groups=4):
    """Rows like one of four groups of columns each, and everybody likes a few popular ones: clicks."""
    rng = np.random.default_rng(seed)
    group = rng.integers(groups, size=m)
    likes = 0.03 + 0.45 * (group[:, None] == np.arange(n) % groups)
    likes[:, :3] = 0.4
    rows, cols = np.nonzero(rng.random((m, n)) < likes)
    return Observations.from_coo(rows, cols, np.ones(rows.size), (m, n))


@pytest.fixture(scope="module")
def clicks():
    return hold_out_of_rows(tastes(), 0.25, seed=5)


@pytest.fixture(scope="module")
def model(clicks):
    return MatrixCompletion(rank="auto", lam="auto", goal="ranking", random_state=0).fit(clicks[0])


def test_lists_beat_the_most_popular(clicks, model):
    train, held_out = clicks
    found = ranking_scores(model, held_out, metrics=("ndcg", "recall"))
    rows = np.arange(train.shape[0])
    lists = most_popular(train, rows, 10)
    popular = np.mean([np.isin(held_out.cols[held_out.rows == i], lists[i]).mean() for i in np.unique(held_out.rows)])
    assert found["recall@10"] > 1.3 * popular
    assert "for the most popular columns" in model.result_.message
    assert model.setting_.unobserved_weight > 0
    assert model.setting_.grades[2] == 0
    # Of two that are as good, the simpler one is chosen.
    assert model.tuning_.chosen.error <= 1.002 * min(trial.error for trial in model.tuning_)


def test_constant_data_goes_there_by_itself_and_says_so(clicks, capsys):
    model = MatrixCompletion(rank=8, lam="auto", random_state=0).fit(clicks[0])
    assert "goal='ranking'" in capsys.readouterr().err
    assert model.setting_.grades is not None
    values = MatrixCompletion(rank=2, lam=1.0, goal="values", random_state=0).fit(clicks[0])
    assert values.setting_.grades is None
    assert capsys.readouterr().err == ""


def test_what_is_given_stays(clicks):
    model = MatrixCompletion(
        rank=5, lam=2.0, theta=0.5, unobserved_weight=0.1, frequency_power=0.3, goal="ranking", random_state=0
    ).fit(clicks[0])
    facts = model.setting_.facts()
    assert (facts["rank"], facts["lam"], facts["theta"]) == (5, 2.0, 0.5)
    assert (facts["unobserved_weight"], facts["frequency_power"]) == (0.1, 0.3)


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(clicks):
    fits = [
        MatrixCompletion(rank=6, lam="auto", goal="ranking", random_state=3, n_jobs=n).fit(clicks[0]) for n in (1, 2)
    ]
    np.testing.assert_array_equal(fits[0].factors_[0], fits[1].factors_[0])


def test_a_training_row_folds_in_as_it_was_and_files_keep_all(clicks, model, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = MatrixCompletion(
            rank=6, lam=2.0, theta=0.0, unobserved_weight=0.2, frequency_power=0.5, goal="ranking", tol=1e-13,
            max_iter=3000, random_state=0,
        ).fit(clicks[0])  # fmt: skip
    first = clicks[0].subset(clicks[0].rows < 4)
    new = Observations.from_coo(first.rows, first.cols, first.values, (4, clicks[0].shape[1]))
    np.testing.assert_allclose(exact.model_.fold_in(new).factors.W, exact.factors_[0][:4], atol=1e-4)
    model.save(tmp_path / "lists.lorank")
    loaded = lorank.load(tmp_path / "lists.lorank")
    assert loaded.setting == model.setting_
    np.testing.assert_array_equal(loaded.recommend([0, 1]).cols, model.recommend([0, 1]).cols)


def test_ratings_become_grades():
    seen = Observations.from_dense(np.array([[1.0, 5.0, np.nan], [3.0, 5.0, 5.0], [4.0, np.nan, 2.0]]))
    np.testing.assert_allclose(Grades.of(seen, 1.0).apply(seen).values, np.array([1, 5, 3, 5, 5, 4, 2]) / 5)
    np.testing.assert_allclose(Grades.of(seen, 2.0).apply(seen).values, (np.array([1, 5, 3, 5, 5, 4, 2]) / 5) ** 2)
    below = seen.with_values(seen.values - 3)
    np.testing.assert_allclose(Grades.of(below, 1.0).apply(below).values, (np.array([1, 5, 3, 5, 5, 4, 2]) - 1) / 4)
    ones = seen.with_values(np.full(seen.nnz, 7.0))
    np.testing.assert_array_equal(Grades.of(ones, 1.0).apply(ones).values, np.ones(seen.nnz))


def test_values_with_what_was_not_observed(clicks):
    """goal="values" takes unobserved_weight too: predictions fall where nothing was observed."""
    plain, counting = (
        MatrixCompletion(rank=3, lam=1.0, unobserved_weight=weight, goal="values", random_state=0).fit(clicks[0])
        for weight in (None, 0.3)
    )
    hidden = np.ones(clicks[0].shape, bool)
    hidden[clicks[0].rows, clicks[0].cols] = False
    means = [fit.model_.predictor.dense()[hidden].mean() for fit in (plain, counting)]
    assert means[1] < 0.3 < means[0]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"goal": "lists"}, "goal must be 'auto', 'values' or 'ranking'"),
        ({"goal": "ranking", "metric": "ndcg"}, "such as 'ndcg@10'"),
        ({"goal": "ranking", "metric": "auc@5"}, "Unknown metric 'auc'"),
        ({"goal": "ranking", "loss": "huber"}, "squared loss"),
        ({"goal": "ranking", "unobserved_weight": -1}, "unobserved_weight must be a number"),
        ({"goal": "ranking", "unobserved_weight": 2.0}, "less than the weight of every observed entry"),
        ({"goal": "ranking", "method": "nuclear"}, "does not take unobserved_weight"),
    ],
)
def test_what_cannot_be_meant(clicks, given, sentence):
    with pytest.raises(InputError, match=sentence):
        MatrixCompletion(rank=3, lam=1.0, **given).fit(clicks[0])
