"""LowRankImputer in scikit-learn's company."""

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from lorank import InputError, LowRankImputer, complete


@parametrize_with_checks([LowRankImputer()])
def test_scikit_learns_whole_check(estimator, check):
    check(estimator)


def test_fills_well_and_changes_nothing_else(table):
    holes, whole = table
    scales = np.logspace(-2, 3, 20)
    filled = LowRankImputer(rank=4, lam=0.1).fit_transform(holes * scales + 7)
    seen = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[seen], (holes * scales + 7)[seen])
    error = np.abs((filled - 7) / scales - whole)[~seen]
    naive = np.abs((SimpleImputer().fit_transform(holes * scales + 7) - 7) / scales - whole)[~seen]
    assert np.sqrt((error**2).mean()) < 0.1 * np.sqrt((naive**2).mean())


def test_new_rows_are_folded_in(table):
    holes, whole = table
    imputer = LowRankImputer(rank=4, lam=0.1).fit(holes[:40])
    filled = imputer.transform(holes[40:])
    assert np.abs(filled - whole[40:]).max() < 0.5
    # A row comes out the same whatever the others are.
    np.testing.assert_allclose(imputer.transform(holes[45:46])[0], filled[5], rtol=1e-12)


def test_training_rows_fold_in_as_they_were_fitted(table):
    holes, _ = table
    imputer = LowRankImputer(rank=3, lam=0.5, tol=1e-12, max_iter=3000).fit(holes)
    fitted = imputer.model_.result_.factors.dense() * imputer.scale_ + imputer.center_
    filled = imputer.transform(holes)
    np.testing.assert_allclose(filled[np.isnan(holes)], fitted[np.isnan(holes)], atol=1e-3)


def test_frames_come_out_as_frames(table):
    frame = pd.DataFrame(table[0], columns=[f"gene{j}" for j in range(20)], index=range(100, 160))
    filled = LowRankImputer(rank=3, lam=0.1).set_output(transform="pandas").fit_transform(frame)
    assert isinstance(filled, pd.DataFrame)
    assert list(filled.columns) == list(frame.columns)
    assert filled.index.equals(frame.index)
    assert not filled.isna().any().any()


def test_in_a_pipeline(table):
    holes, whole = table
    score = cross_val_score(make_pipeline(LowRankImputer(rank=3, lam=0.1), Ridge()), holes, whole.sum(axis=1), cv=4)
    assert score.min() > 0.9


@pytest.mark.parametrize("params", [{}, {"scale": "standard"}, {"scale": "none"}, {"method": "nnfn"}])
def test_a_column_with_one_value_is_filled_with_it(params):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    X[:, 2] = np.where(rng.random(40) < 0.5, np.nan, 0.1)
    assert (LowRankImputer(**params).fit_transform(X)[:, 2] == 0.1).all()
    np.testing.assert_array_equal(complete(np.array([[1.0, np.nan], [2.0, 3.0]])), [[1, 3], [2, 3]])


def test_empty_and_constant_columns(table):
    holes = table[0].copy()
    holes[:, 3] = np.nan
    holes[:, 4] = np.where(np.isnan(holes[:, 4]), np.nan, 5.0)
    filled = LowRankImputer(rank=3, lam=0.1).fit_transform(holes)
    assert filled.shape == holes.shape
    assert not filled[:, 3].any()
    np.testing.assert_allclose(filled[:, 4], 5.0)


def test_bad_input(table):
    with pytest.raises(InputError, match="Every cell of the table is missing"):
        LowRankImputer().fit(np.full((4, 3), np.nan))
    with pytest.raises(InputError, match="Two columns have the name 'a'"):
        LowRankImputer().fit(pd.DataFrame([[1.0, 2.0], [np.nan, 3.0]], columns=["a", "a"]))


def test_the_sampler_fills_tables_too(table):
    holes, full = table
    filled = LowRankImputer(rank=3, method="bpmf", max_iter=100).fit(holes[:40]).transform(holes[40:])
    missing = np.isnan(holes[40:])
    plain = np.broadcast_to(np.nanmean(holes, axis=0), full.shape)[40:]
    off = [np.sqrt(np.mean((answer - full[40:])[missing] ** 2)) for answer in (filled, plain)]
    assert off[0] < 0.5 * off[1]
