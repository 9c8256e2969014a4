"""Trees that add to low rank what it leaves over."""

import numpy as np
import pytest

from lorank import LowRankImputer
from lorank.estimators.coding import Coding
from lorank.estimators.forests import without_itself


def holed(whole, share=0.2, seed=1):
    return np.where(np.random.default_rng(seed).random(whole.shape) < share, np.nan, whole)


def error(filled, holes, whole):
    gaps = np.isnan(holes)
    return np.sqrt(np.mean((filled - whole)[gaps] ** 2))


@pytest.fixture(scope="module")
def steps():
    """Columns of which two depend on the others by steps and by a product."""
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 300))
    noise = 0.1 * rng.standard_normal((300, 5))
    whole = np.column_stack([a, a + 0.5 * b, b, np.abs(a) + (c > 0), c]) + noise
    return holed(whole), whole


def test_trees_are_better_where_columns_depend_by_steps(steps):
    holes, whole = steps
    with_trees, without = (LowRankImputer(trees=trees).fit(holes) for trees in (True, False))
    at = np.isnan(holes[:, 3])
    off = [np.sqrt(np.mean((model.transform(holes) - whole)[at, 3] ** 2)) for model in (with_trees, without)]
    assert off[0] < 0.8 * off[1]
    assert without.forests_ is None
    # New rows: the same whatever the others are.
    filled = with_trees.transform(holes)
    np.testing.assert_allclose(with_trees.transform(holes[7:8]), filled[7:8])


def test_trees_do_little_harm_where_low_rank_is_right():
    rng = np.random.default_rng(3)
    whole = rng.standard_normal((250, 2)) @ rng.standard_normal((2, 8)) + 0.2 * rng.standard_normal((250, 8))
    holes = holed(whole)
    off = [error(LowRankImputer(trees=trees).fit_transform(holes), holes, whole) for trees in (True, False)]
    assert off[0] < 1.05 * off[1]


def test_draws_and_intervals_follow_the_trees(steps):
    holes, whole = steps
    imputer = LowRankImputer(method="bpmf", rank=4, scale="standard").fit(holes)
    gaps = np.isnan(holes)
    drawn, filled = np.mean(imputer.draws(20), axis=0), imputer.transform(holes)
    plain = LowRankImputer(method="bpmf", rank=4, scale="standard", trees=False).fit_transform(holes)
    assert error(drawn, holes, filled) < 0.5 * error(plain, holes, filled) + 0.1
    spread = imputer.spread()
    assert 0.84 < np.mean(((spread.lower <= whole) & (whole <= spread.upper))[gaps]) < 0.97


def test_expected_without_itself_by_brute_force(steps):
    """Each observed code taken out, and predicted from the others of its row by the normal distribution."""
    holes, _ = steps
    imputer = LowRankImputer(method="bpmf", rank=3, scale="standard", trees=False).fit(holes)
    codes = Coding(imputer._columns, holes, "standard").encode(holes)[:20]
    posterior = imputer.model_.model_.posterior
    mu, S = 0.0, 0.0
    for s in range(posterior.draws):
        factors, rows, cols = posterior.draw(s)
        X = factors.dense().astype(float)
        mu, S = mu + X.mean(axis=0), S + np.cov(X.T, bias=True) + np.diag(rows.mean() * cols)
    mu, S = mu / posterior.draws, S / posterior.draws
    found = without_itself(posterior, codes)
    for i, j in zip(*np.nonzero(~np.isnan(codes))):
        o = np.setdiff1d(np.flatnonzero(~np.isnan(codes[i])), j)
        expected = mu[j] + S[j, o] @ np.linalg.solve(S[np.ix_(o, o)], codes[i, o] - mu[o])
        assert found[i, j] == pytest.approx(expected, abs=1e-8)
