"""Chances of classes from what trees say and from the other columns."""

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit

from lorank import LowRankImputer
from lorank.estimators import chances
from lorank.estimators.chances import Chances


def test_the_regression_is_the_maximum():
    """Against a minimizer that knows the penalised likelihood alone."""
    rng = np.random.default_rng(0)
    inputs, shares = 3 + 2 * rng.standard_normal((3, 120)), rng.random(120)
    y = (rng.random(120) < expit(inputs[0] - 3)).astype(float)
    found = Chances.of(np.column_stack([1 - shares, shares]), inputs, np.column_stack([1 - y, y]))
    x = (inputs.T - inputs.mean(axis=1)) / inputs.std(axis=1)
    clipped = np.clip(shares, chances.LEAST, 1 - chances.LEAST)
    X = np.column_stack([np.ones(120), np.log(clipped / (1 - clipped)), x])
    ridge, prior = np.array([1.0, 10.0, 10.0, 10.0, 10.0]), np.array([0.0, 1.0, 0.0, 0.0, 0.0])

    def loss(b):
        return np.logaddexp(0, X @ b).sum() - y @ (X @ b) + ridge @ (b - prior) ** 2 / 2

    np.testing.assert_allclose(found.slopes[1], minimize(loss, prior, tol=1e-10).x, atol=1e-4)
    # Of two classes the second has what the first has not.
    said = found(np.column_stack([1 - shares, shares]), inputs)
    np.testing.assert_allclose(said[:, 1], expit(X @ found.slopes[1]))
    np.testing.assert_allclose(said.sum(axis=1), 1)


def test_several_classes_and_constant_columns():
    rng = np.random.default_rng(1)
    truth = np.eye(3)[rng.integers(3, size=200)]
    inputs = np.vstack([truth.T + 0.5 * rng.standard_normal((3, 200)), np.ones(200)])
    even = np.full((200, 3), 1 / 3)
    said = Chances.of(even, inputs, truth)(even, inputs)
    np.testing.assert_allclose(said.sum(axis=1), 1)
    assert (said.argmax(axis=1) == truth.argmax(axis=1)).mean() > 0.8


def test_rare_classes_that_lie_apart_are_found():
    """One in ten, two and a half standard deviations away: a line through indicators stays below one half there."""
    rng = np.random.default_rng(0)
    rare = rng.random(600) < 0.1
    whole = pd.DataFrame(rng.standard_normal((600, 3)) + 2.5 * rare[:, None] * [1, 0.5, 0], columns=list("abc"))
    whole["k"] = pd.Categorical(np.where(rare, "rare", "usual"))
    holes = whole.copy()
    holes.loc[rng.random(600) < 0.3, "k"] = None
    gaps = holes["k"].isna()
    found = {trees: LowRankImputer(trees=trees).fit_transform(holes)["k"][gaps & rare] for trees in (False, True)}
    assert (found[True] == "rare").mean() > (found[False] == "rare").mean() + 0.2
    right = LowRankImputer().fit_transform(holes)["k"][gaps] == whole["k"][gaps]
    assert right.mean() > (whole["k"][gaps] == "usual").mean()


def test_classes_that_nothing_depends_on_stay_as_frequent_as_they_are():
    """With a covariance of zero the last digits of what is expected of a cell without it would tell the cell."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((400, 5)), columns=list("abcde"))
    whole = table.assign(k=pd.Categorical(rng.choice(["no", "yes"], 400, p=[0.7, 0.3])))
    holes = whole.mask(rng.random(whole.shape) < 0.2)
    gaps = holes["k"].isna()
    imputer = LowRankImputer().fit(holes)
    right = (imputer.complete()["k"] == whole["k"])[gaps].mean()
    assert right > (whole["k"][gaps] == "no").mean() - 0.05
    assert np.nanmax(imputer.spread().probability) < 0.95
