"""goal="ranking": clicks and ratings become lists."""

import warnings

import numpy as np
import pytest

import lorank
from lorank import MatrixCompletion
from lorank.errors import InputError
from lorank.models.preferences import Grades
from lorank.models.ranking_metrics import most_popular, ranking_scores
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
    assert "for the most popular columns" in model.model_.remark_on_lists()
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


def test_the_last_entries_are_held_out_where_times_are_known(clicks):
    """Who takes what changes with time: with times, trials are judged by what came last."""
    rng = np.random.default_rng(0)
    train = clicks[0]
    times = train.with_values(rng.permutation(train.nnz).astype(float))
    rest, last = hold_out_of_rows(train, 0.2, 0, times)
    when = np.full(train.shape, np.nan)
    when[train.rows, train.cols] = times.values
    for i in np.unique(last.rows):
        assert when[i, rest.cols[rest.rows == i]].max() < when[i, last.cols[last.rows == i]].min()
    given = {"rank": 4, "lam": 1.0, "theta": 0.0, "unobserved_weight": 0.2, "goal": "ranking", "random_state": 0}
    fits = [MatrixCompletion(**given).fit(train, times=when) for when in (None, times)]
    assert fits[0].tuning_.chosen.error != fits[1].tuning_.chosen.error
    with pytest.raises(InputError, match="give goal='ranking' too"):
        MatrixCompletion(rank=3, lam=1.0).fit(train, times=times)
    with pytest.raises(InputError, match="same entries"):
        MatrixCompletion(**given).fit(train, times=train.subset(train.rows > 0))


def test_a_model_of_values_says_how_its_lists_compare(tmp_path):
    """Ratings that say nothing of who sees what: the highest predictions are worse lists than the most popular."""
    rng = np.random.default_rng(1)
    m, n = 200, 80
    seen = rng.random((m, n)) < 0.02 + 0.5 * (np.arange(n) < 8)
    rows, cols = np.nonzero(seen)
    values = np.round(3 + rng.standard_normal(rows.size), 1)
    data = Observations.from_coo(rows, cols, values, (m, n))
    model = MatrixCompletion("nnfn", rank=2, lam=3.0, biases=True, random_state=0).fit(data, validation=0.2).model_
    assert model.lists["ndcg@10"] < model.lists["most popular"]
    assert "goal='ranking' makes better lists" in model.remark_on_lists()
    # The same by hand, of all rows: the model was fitted on the part that remains.
    hidden = data.subset(~np.isin(rows * n + cols, model.observations.rows * n + model.observations.cols))
    for popular, name in ((False, "ndcg@10"), (True, "most popular")):
        found = ranking_scores(model, hidden, metrics=("ndcg",), popular=popular)["ndcg@10"]
        assert model.lists[name] == pytest.approx(found)
    model.save(tmp_path / "m.lorank")
    assert lorank.load(tmp_path / "m.lorank").lists == model.lists


def test_score_follows_unseen_and_lists(clicks, model):
    held_out = clicks[1]
    assert model.score(held_out) == ranking_scores(model, held_out, metrics=("ndcg",))["ndcg@10"]
    table = {"row": ["a", "a", "b", "b", "c"], "col": ["x", "y", "x", "y", "x"], "value": [1.0, 2.0, 2.0, 4.0, 3.0]}
    rows, cols, values = (np.array(part) for part in table.values())
    ids = np.array(["a", "b", "c"]), np.array(["x", "y"])
    data = Observations.from_coo(np.searchsorted(ids[0], rows), np.searchsorted(ids[1], cols), values, (3, 2), *ids)
    fitted = MatrixCompletion("nnfn", rank=1, lam=1.0, biases=True, random_state=0).fit(data)
    new = Observations.from_coo([0, 1], [0, 0], [1.0, 5.0], (2, 1), np.array(["a", "new"]), np.array(["x"]))
    with pytest.raises(InputError, match="'new'"):
        fitted.score(new)
    predicted = fitted.predict(["a", "new"], ["x", "x"], unseen="bias")
    assert fitted.score(new, unseen="bias") == pytest.approx(-np.sqrt(np.mean((predicted - [1.0, 5.0]) ** 2)))


def test_a_sampler_that_is_asked_for_fits_equal_values_as_they_are():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((12, 10)) < 0.3, np.nan, 3.0)
    model = MatrixCompletion(method="bpmf", random_state=0).fit(X)
    np.testing.assert_allclose(model.complete(), 3.0, atol=0.05)


def test_a_fit_has_the_sweeps_of_the_trials_that_chose_it(clicks):
    from lorank.tuning.ranking import SWEEPS

    given = {"rank": 6, "lam": 0.5, "theta": 0.0, "unobserved_weight": 0.2, "frequency_power": 1.0, "random_state": 0}
    assert MatrixCompletion(**given, goal="ranking").fit(clicks[0]).result_.n_iter <= SWEEPS
    with warnings.catch_warnings(action="ignore"):
        further = MatrixCompletion(**given, goal="ranking", tol=0.0, max_iter=SWEEPS + 5).fit(clicks[0])
    assert further.result_.n_iter == SWEEPS + 5


def test_what_seems_better_by_chance_is_not_taken():
    from types import SimpleNamespace

    from lorank.tuning.ranking import clearly_better

    rng = np.random.default_rng(0)
    losses = rng.random(400)
    noisy, clear = losses + rng.normal(-0.005, 0.2, 400), losses + rng.normal(-0.05, 0.2, 400)
    assert not clearly_better(SimpleNamespace(losses=noisy), SimpleNamespace(losses=losses))
    assert clearly_better(SimpleNamespace(losses=clear), SimpleNamespace(losses=losses))
    assert not clearly_better(SimpleNamespace(losses=losses), SimpleNamespace(losses=losses))
