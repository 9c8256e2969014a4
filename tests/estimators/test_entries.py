"""EntryRegressor in scikit-learn's and Optuna's hands."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.utils import estimator_checks

from lorank import EntryRegressor, InputError, MatrixCompletion


@pytest.fixture(scope="module")
def entries():
    """2,500 of 60 x 50 entries of a matrix of rank 2 with noise 0.1, rows called by text."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 50)) + 0.1 * rng.standard_normal((60, 50))
    cells = rng.permutation(3000)[:2500]
    return np.column_stack([cells // 50, cells % 50]), X.ravel()[cells]


def test_splits_entries(entries):
    scores = cross_val_score(EntryRegressor(rank=2, lam=0.3, random_state=0), *entries, cv=4)
    assert (scores > 0.95).all()


def test_grid_search_finds_the_true_rank(entries):
    search = GridSearchCV(
        EntryRegressor(lam=0.3, random_state=0), {"rank": [1, 2, 8]}, cv=3, scoring="neg_root_mean_squared_error"
    )
    search.fit(*entries)
    assert search.best_params_ == {"rank": 2}
    assert -search.best_score_ < 0.15


def test_is_matrix_completion_on_the_same_entries(entries):
    pairs, y = entries
    model = MatrixCompletion(rank=2, lam=0.3, random_state=0).fit((pairs[:, 0], pairs[:, 1], y))
    np.testing.assert_allclose(
        EntryRegressor(rank=2, lam=0.3, random_state=0).fit(pairs, y).predict(pairs), model.predict(*pairs.T), rtol=1e-9
    )


def test_rows_that_a_split_leaves_empty_are_predicted(entries):
    pairs, y = entries
    # Each fold is a block of rows that the others do not have.
    order = np.argsort(pairs[:, 0], kind="stable")
    predicted = cross_val_predict(EntryRegressor(rank=2, lam=10.0, biases=True), pairs[order], y[order], cv=KFold(3))
    assert np.isfinite(predicted).all()


def test_ids_of_any_kind(entries):
    pairs, y = entries
    frame = pd.DataFrame({"user": [f"u{i}" for i in pairs[:, 0]], "item": pairs[:, 1]})
    positions = EntryRegressor(rank=2, lam=0.3, random_state=0).fit(pairs, y)
    named = EntryRegressor(rank=2, lam=0.3, random_state=0).fit(frame, y)
    assert cross_val_score(EntryRegressor(rank=2, lam=0.3, random_state=0), frame, y, cv=3).min() > 0.95
    assert named.predict(frame).shape == y.shape
    assert named.score(frame, y) == pytest.approx(positions.score(pairs, y), abs=0.01)
    texts = frame.astype(str).to_numpy()
    assert EntryRegressor(rank=2, lam=0.3, random_state=0).fit(texts, y).score(texts, y) > 0.95


def test_tunes_itself(entries):
    model = EntryRegressor("nnfn", random_state=0).fit(*entries)
    assert model.model_.setting_.rank == 2


def test_wrong_shape_is_refused(entries):
    with pytest.raises(InputError, match=r"n x 2; this is 3 x 4"):
        EntryRegressor().fit(np.ones((3, 4)), np.ones(3))


def test_clone_and_pickle(entries):
    model = EntryRegressor(rank=3, lam=2.0, random_state=0)
    assert clone(model).get_params() == model.get_params()
    assert is_regressor(model)
    model.fit(*entries)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(entries[0]), model.predict(entries[0]))


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
    ],
)
def test_common_checks_that_need_no_data_of_theirs(check):
    getattr(estimator_checks, check)("EntryRegressor", EntryRegressor())


def test_optuna(entries):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        model = EntryRegressor(rank=2, lam=trial.suggest_float("lam", 1e-2, 1e2, log=True), random_state=0)
        return cross_val_score(model, *entries, cv=3).mean()

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=6)
    assert study.best_value > 0.95
