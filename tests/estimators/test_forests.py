"""Trees that add to low rank what it leaves over."""

import numpy as np
import pandas as pd
import pytest

from lorank import LowRankImputer
from lorank.estimators.conditional import column_moments, conditional, without_itself
from lorank.estimators.forests import fit_forests, grow
from lorank.kernels import Workers


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
    imputer = LowRankImputer(method="bpmf", rank=4, scale="standard", max_iter=80).fit(holes)
    gaps = np.isnan(holes)
    drawn, filled = np.mean(imputer.draws(20), axis=0), imputer.transform(holes)
    plain = LowRankImputer(method="bpmf", rank=4, scale="standard", trees=False, max_iter=80).fit_transform(holes)
    assert error(drawn, holes, filled) < 0.5 * error(plain, holes, filled) + 0.1
    spread = imputer.spread()
    assert 0.84 < np.mean(((spread.lower <= whole) & (whole <= spread.upper))[gaps]) < 0.97


def test_moments_of_the_columns_are_those_of_the_draws(steps):
    holes, _ = steps
    imputer = LowRankImputer(method="bpmf", rank=3, scale="standard", trees=False, max_iter=60).fit(holes)
    posterior = imputer.model_.model_.posterior
    mean, covariance = 0.0, 0.0
    for s in range(posterior.draws):
        factors, rows, cols = posterior.draw(s)
        X = factors.dense().astype(float)
        mean, covariance = (
            mean + X.mean(axis=0),
            covariance + np.cov(X.T, bias=True) + np.diag(cols / np.mean(1 / rows)),
        )
    mu, S = column_moments(posterior)
    np.testing.assert_allclose(mu, mean / posterior.draws, atol=1e-5)
    np.testing.assert_allclose(S, covariance / posterior.draws, rtol=1e-4, atol=1e-5)


def test_expected_given_other_cells_by_brute_force():
    """Each cell taken out, and predicted from the others of its row by the normal distribution."""
    rng = np.random.default_rng(0)
    owners, mu = np.array([0, 1, 1, 2, 3]), rng.standard_normal(5)
    A = rng.standard_normal((5, 5))
    S, cells = A @ A.T + np.eye(5), rng.random((30, 4)) < 0.3
    codes = np.where(cells[:, owners], np.nan, rng.standard_normal((30, 5)))
    (mean, std), (left_out, moved) = conditional(mu, S, codes), without_itself(mu, S, codes, owners)
    for i in range(30):
        for owner in range(4):
            own = np.flatnonzero(owners == owner)
            o = np.setdiff1d(np.flatnonzero(~np.isnan(codes[i])), own)
            back = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, own)])
            expected = mu[own] + (codes[i, o] - mu[o]) @ back
            variance = np.diag(S[np.ix_(own, own)] - S[np.ix_(own, o)] @ back)
            if cells[i, owner]:
                np.testing.assert_allclose(mean[i, own], expected)
                np.testing.assert_allclose(std[i, own] ** 2, variance)
                assert not left_out[i, own].any()
                assert not moved[owner, i].any()
            else:
                np.testing.assert_allclose(left_out[i, own], expected)
                assert not mean[i, own].any()
                assert not std[i, own].any()
                gone = np.isnan(codes[i])
                back = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, gone)])
                np.testing.assert_allclose((mean + moved[owner])[i, gone], mu[gone] + (codes[i, o] - mu[o]) @ back)
                assert not moved[owner, i, ~gone].any()


def test_trees_predict_rows_that_they_were_not_grown_on():
    """A step that no line follows, two outputs at once; the same bits on any number of threads."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((4, 300))
    truth = np.column_stack([(inputs[0] > 0) * (inputs[1] > 0), np.abs(inputs[2])])
    trees, said = grow(inputs, truth + 0.1 * rng.standard_normal(truth.shape), 7, Workers(1))
    assert (np.mean((said - truth) ** 2, axis=0) < 0.45 * truth.var(axis=0)).all()
    feature, _, below, value = trees
    # Every node is the mean of its children, weighted by rows: between them in each output.
    for node in np.flatnonzero(feature[0] >= 0):
        children = value[0, below[0, node] : below[0, node] + 2]
        assert (children.min(axis=0) <= value[0, node] + 1e-12).all()
        assert (children.max(axis=0) >= value[0, node] - 1e-12).all()
    workers = Workers(2)
    workers_trees, _ = grow(np.tile(inputs, 50), np.tile(truth, (50, 1)), 7, workers)
    alone, _ = grow(np.tile(inputs, 50), np.tile(truth, (50, 1)), 7, Workers(1))
    workers.close()
    for one, other in zip(workers_trees, alone):
        np.testing.assert_array_equal(one, other)


def test_a_class_does_not_tell_itself():
    """Of three classes that nothing depends on, trees must not learn one code of a cell from another."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((200, 3)), columns=list("abc"))
    table["k"] = pd.Categorical(rng.choice(list("xyz"), 200))
    table.loc[rng.random(200) < 0.3, "k"] = None
    imputer = LowRankImputer(method="bpmf", rank=3, scale="standard", max_iter=60).fit(table)
    slopes = [forests[3].classes[1].slopes[:, 1] for forests in imputer.forests_.rounds]
    assert np.max(slopes) < 0.7
    assert np.nanmax(imputer.spread().probability) < 0.6


def test_a_cell_does_not_tell_itself_by_what_was_filled_in():
    """Twin columns of which one is missing where they say something: trees must not take the filled twin for proof."""
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((400, 4))
    codes[:, 1] = codes[:, 0] + 0.1 * rng.standard_normal(400)
    # Where the first is there its twin is not, but for a few: what is filled in for the twin is the first itself.
    codes[20:, 1] = np.nan
    S = np.eye(4)
    S[0, 1] = S[1, 0] = 0.99
    forests = fit_forests(np.zeros(4), S, codes, np.arange(4), 0, 1)
    assert forests is None or all(0 not in owners for owners in forests.rounds)
