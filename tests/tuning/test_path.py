"""lam, rank, theta and biases chosen by the model itself."""

import numpy as np
import pytest

from lorank import InputError, MatrixCompletion
from lorank.datasets import synthetic
from lorank.observations import observe
from lorank.problems import Problem
from lorank.regularizers import FactoredNuclear
from lorank.solvers import Alternating, Stopping, solve
from lorank.tuning.path import lam_max
from lorank.tuning.trials import Trial, Trials, TrialStatus

AUTO = {"method": "nnfn", "features": None, **dict.fromkeys(("lam", "rank", "theta", "biases"), "auto")}


@pytest.fixture(scope="module")
def problem():
    return synthetic(m=200, rank=5, seed=1)


@pytest.fixture(scope="module")
def tuned(problem):
    return MatrixCompletion(**AUTO, random_state=0).fit(problem.train)


def test_finds_the_true_rank_and_the_error_of_the_best_fixed_setting(problem, tuned):
    fixed = [MatrixCompletion(rank=5, lam=lam, random_state=0).fit(problem.train) for lam in (0.01, 0.1, 1.0)]
    best = min(problem.nmse(*model.factors_) for model in fixed)
    assert tuned.setting_.rank == 5
    assert tuned.setting_.biases is False
    assert problem.nmse(*tuned.factors_) < 1.02 * best
    # Over-specified, the rank is worse: there was something to find.
    wide = MatrixCompletion(rank=16, lam=tuned.setting_.lam, random_state=0).fit(problem.train)
    assert problem.nmse(*wide.factors_) > 1.3 * best


def test_is_refitted_on_everything(problem, tuned):
    assert tuned.observations_.nnz == problem.train.nnz
    again = MatrixCompletion(**tuned.setting_.facts(), random_state=0).fit(problem.train)
    assert problem.nmse(*tuned.factors_) == pytest.approx(problem.nmse(*again.factors_), rel=0.01)


def test_a_given_validation_set_is_used_and_not_trained_on(problem):
    model = MatrixCompletion(**AUTO, random_state=0).fit(problem.train, validation=problem.validation)
    assert model.observations_.nnz == problem.train.nnz
    error = model.tuning_.chosen.error
    assert -model.score(problem.validation) == pytest.approx(error, rel=0.01)
    part = MatrixCompletion(lam="auto", rank=5, random_state=0).fit(problem.train, validation=0.2)
    assert part.observations_.nnz == problem.train.nnz - round(0.2 * problem.train.nnz)


def test_same_seed_same_path(problem, tuned):
    again = MatrixCompletion(**AUTO, random_state=0, n_jobs=1).fit(problem.train)
    assert again.setting_ == tuned.setting_
    np.testing.assert_array_equal(again.factors_[0], tuned.factors_[0])
    assert [t.error for t in again.tuning_] == [t.error for t in tuned.tuning_]


def test_only_what_is_auto_is_searched(problem):
    model = MatrixCompletion(lam="auto", rank=6, theta=0.3, biases=True, random_state=0).fit(problem.train)
    tried = model.tuning_.columns()
    assert model.setting_.rank == 6
    assert set(tried["theta"]) == {0.3}
    assert set(tried["biases"]) == {True}
    model = MatrixCompletion("nnfn", lam="auto", rank=6, random_state=0).fit(problem.train)
    assert set(model.tuning_.columns()["rank"]) <= {4, 6}
    assert len(set(model.tuning_.columns()["theta"])) > 1


def test_with_a_lam_nothing_is_searched_and_the_rest_is_the_methods_own(problem):
    model = MatrixCompletion(lam=0.1, random_state=0).fit(problem.train)
    assert not hasattr(model, "tuning_")
    named = {"method": "nnfn", "rank": 10, "theta": None, "biases": False, "loss": "squared", "features": None}
    same = MatrixCompletion(**named, lam=0.1, random_state=0).fit(problem.train)
    np.testing.assert_array_equal(model.factors_[0], same.factors_[0])
    assert model.setting_ == same.setting_
    assert (model.setting_.rank, model.setting_.theta, model.setting_.biases) == (10, None, False)


def test_biases_are_found_where_there_are_some(problem):
    rng = np.random.default_rng(0)
    rows, cols = rng.standard_normal(200), rng.standard_normal(200)
    train = problem.train
    shifted = train.with_values(train.values + 40 + rows[train.rows] + cols[train.cols])
    model = MatrixCompletion(**AUTO, random_state=0).fit(shifted)
    assert model.setting_.biases is True
    truth = problem.validation
    predicted = model.predict(truth.rows, truth.cols) - 40 - rows[truth.rows] - cols[truth.cols]
    assert np.sqrt(np.mean((predicted - truth.values) ** 2)) < 0.2


def test_the_best_trial_is_chosen(tuned):
    table = tuned.tuning_
    assert sum(trial.chosen for trial in table) == 1
    assert table.chosen.error < 1.001 * min(trial.error for trial in table)
    assert table.chosen.lam == pytest.approx(tuned.setting_.lam)


def test_every_method_can_be_tuned(problem):
    for method in ("factored-nuclear", "nuclear", "nnfn-prox", "mf"):
        options = {"rank": 5 if method in ("nuclear", "nnfn-prox") else "auto", "features": None}
        model = MatrixCompletion(method, lam="auto", **options, random_state=0, tol=1e-3)
        model.fit(problem.train, validation=problem.validation)  # one part judges: a quarter of the time
        assert problem.nmse(*model.factors_) < 0.1, method


def test_small_and_odd_data():
    rng = np.random.default_rng(0)
    for shape in ((2, 30), (3, 3), (1, 8)):
        model = MatrixCompletion(**AUTO, random_state=0).fit(rng.standard_normal(shape))
        assert np.isfinite(model.complete()).all()
    assert np.isfinite(MatrixCompletion(**AUTO, random_state=0).fit(np.full((5, 5), 2.0)).complete()).all()
    with pytest.raises(InputError, match="cannot be split"):
        MatrixCompletion("nnfn", lam="auto", rank=1).fit(np.array([[1.0, np.nan]]))


def test_wrong_words_are_refused(table):
    holes, _ = table
    for name in ("lam", "rank", "theta", "biases"):
        with pytest.raises(InputError, match=f"{name} must be"):
            MatrixCompletion(**{name: "automatic"}).fit(holes)


def test_max_seconds_limits_the_search(problem):
    with pytest.warns(match="limit"):
        model = MatrixCompletion(**AUTO, random_state=0, max_seconds=1e-6, tol=0).fit(problem.train)
    assert len(model.tuning_) == 1
    assert np.isfinite(model.complete()).all()


def test_interrupting_the_search_keeps_the_best(problem, monkeypatch):
    from lorank.solvers import alternating

    sweep, count = alternating.Alternating._sweep, []

    def interrupted(*args, **kwargs):
        count.append(1)
        if len(count) == 30:
            raise KeyboardInterrupt
        return sweep(*args, **kwargs)

    monkeypatch.setattr(alternating.Alternating, "_sweep", interrupted)
    model = MatrixCompletion(**AUTO, random_state=0).fit(problem.train)
    assert len(count) == 30
    assert np.isfinite(model.complete()).all()


def test_nothing_is_left_above_lam_max():
    """Just above it the nuclear norm's solution is zero, just below it is not."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 20)) < 0.5, np.nan, rng.standard_normal((30, 20)))
    observations = observe(X)
    top = lam_max(observations, centred=False)
    assert top == pytest.approx(np.linalg.norm(np.nan_to_num(X), 2), rel=0.01)
    for factor, zero in ((1.02, True), (0.9, False)):
        problem = Problem(observations, FactoredNuclear(lam=factor * top), 5)
        result = solve(Alternating(), problem, stopping=Stopping(1e-12, 5000), seed=0)
        assert bool(np.abs(result.factors.dense()).max() < 1e-3) is zero
    assert lam_max(observations, centred=True) == pytest.approx(
        np.linalg.norm(np.nan_to_num(X - np.nanmean(X)), 2), rel=0.01
    )


def test_the_table_of_trials(tuned):
    table = tuned.tuning_
    kinds = table.candidates
    assert kinds["candidate"] == ["offsets alone", "NNFN"]
    assert sum(kinds["trials"]) == len(table)
    assert kinds["error"][1] == table.chosen.error
    # The kinds, an empty line, and all trials, with their titles.
    assert repr(table).count("\n") == len(kinds) + 2 + len(table) + 1
    assert repr(table).count("<- chosen") == 2
    frame = table.to_frame()
    names = [
        "candidate",
        "lam",
        "rank",
        "theta",
        "biases",
        "noise",
        "error",
        "sweeps",
        "seconds",
        "status",
        "reason",
        "chosen",
        "comparable",
    ]
    assert list(frame.columns) == names
    assert len(frame) == len(table)
    assert table[0].rank == table[0].parameters["rank"]
    with pytest.raises(AttributeError, match="has no width"):
        table[0].width  # noqa: B018
    assert len(table[:2]) == 2
    assert table.seconds == pytest.approx(frame.seconds.sum())
    assert list(Trials.from_rows(table.rows())) == list(table)


def test_a_trial_says_how_it_ended(problem, tuned):
    assert {trial.status for trial in tuned.tuning_} == {TrialStatus.FINISHED}
    # Where one part judges, those that have lost are given up.
    table = MatrixCompletion(**AUTO, random_state=0).fit(problem.train, validation=problem.validation).tuning_
    assert {trial.status for trial in table} == {TrialStatus.FINISHED, TrialStatus.GIVEN_UP}
    assert all(trial.error > table.chosen.error for trial in table if trial.status is TrialStatus.GIVEN_UP)


def test_a_parameter_that_a_trial_does_not_have_is_empty_in_the_table():
    table = Trials([Trial({"lam": 1.0}, 0.5), Trial({"lam": 1.0, "p": 0.5}, 0.25)])
    assert table.choosing(table[1]).chosen.p == 0.5
    assert table.columns()["p"].tolist() == [None, 0.5]


def test_the_plot(tuned):
    import matplotlib as mpl

    mpl.use("Agg")
    ax = tuned.tuning_.plot()
    assert ax.get_xscale() == "log"
    drawn = np.concatenate([line.get_ydata() for line in ax.lines])
    assert drawn.size == len(tuned.tuning_) + 1
