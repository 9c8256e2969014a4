"""Measures of lists against their definitions, written with loops; and test data matched by id."""

import math

import numpy as np
import pytest

from lorank import MatrixCompletion
from lorank.errors import InputError
from lorank.models.list_metrics import METRICS, calibration, coverage, novelty
from lorank.models.ranking_metrics import ranking_scores
from lorank.observations import Observations

RIGHT = np.array([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1], [1, 1, 1, 1, 1]], bool)
WANTED = np.array([3, 2, 2, 9])


def by_definition(name, right, wanted):
    k = len(right)
    places = [t for t in range(1, k + 1) if right[t - 1]]
    if name == "precision":
        return len(places) / k
    if name == "recall":
        return len(places) / wanted
    if name == "mrr":
        return 1 / places[0] if places else 0.0
    if name == "map":
        return sum(sum(right[:t]) / t for t in places) / min(wanted, k)
    best = sum(1 / math.log2(1 + t) for t in range(1, min(wanted, k) + 1))
    return sum(1 / math.log2(1 + t) for t in places) / best


@pytest.mark.parametrize("name", METRICS)
def test_measures_are_what_they_say(name):
    expected = [by_definition(name, right, wanted) for right, wanted in zip(RIGHT, WANTED)]
    np.testing.assert_allclose(METRICS[name](RIGHT, WANTED), expected)


def test_measures_of_all_lists_together():
    lists = np.array([[0, 1], [0, 2], [0, -1]])
    counts = np.array([80, 15, 5, 0])
    assert coverage(lists, 4) == 3 / 4
    shares = [0.8, 0.15, 0.8, 0.05, 0.8]
    assert novelty(lists, counts, 100) == pytest.approx(np.mean([-math.log2(share) for share in shares]))
    # All of the first column's entries are one group: it has 0.8 of the entries and 0.6 of the places.
    assert calibration(lists, counts) == pytest.approx((abs(0.8 - 0.6) + abs(0.15 - 0.2) + abs(0.05 - 0.2)) / 2)


def fitted(ids):
    rng = np.random.default_rng(0)
    X = rng.integers(1, 6, (12, 8)).astype(float)
    X[rng.random(X.shape) < 0.5] = np.nan
    rows, cols = [f"u{i}" for i in range(12)], [f"f{j}" for j in range(8)]
    given = Observations.from_dense(X, rows, cols) if ids else Observations.from_dense(X)
    test = np.where(np.isnan(X), rng.integers(1, 6, X.shape), np.nan)
    return MatrixCompletion(rank=2, lam=1.0, random_state=0, goal="values").fit(given), X, test, rows, cols


def test_scores_by_brute_force():
    model, X, test, *_ = fitted(ids=False)
    scores = np.where(np.isnan(X), model.model_.predictor.dense(), -np.inf)
    relevant = test >= np.nanmean(X)
    rows = np.flatnonzero(relevant.any(axis=1))
    values = {name: [] for name in METRICS}
    for i in rows:
        best = [j for j in np.argsort(-scores[i])[:3] if np.isfinite(scores[i, j])]
        right = [bool(relevant[i, j]) for j in best] + [False] * (3 - len(best))
        for name in METRICS:
            values[name].append(by_definition(name, right, int(relevant[i].sum())))
    found = ranking_scores(model, Observations.from_dense(test), 3, metrics=METRICS)
    assert found == {f"{name}@3": pytest.approx(np.mean(values[name])) for name in METRICS}


def test_test_data_goes_by_its_ids():
    model, _, test, rows, cols = fitted(ids=True)
    right = ranking_scores(model, Observations.from_dense(test, rows, cols), 3)
    turned = Observations.from_dense(test[::-1, ::-1], rows[::-1], cols[::-1])
    assert ranking_scores(model, turned, 3) == right
    # Rows and columns that the model does not know are left out.
    more = np.pad(test, ((0, 1), (0, 1)), constant_values=5.0)
    assert ranking_scores(model, Observations.from_dense(more, [*rows, "new"], [*cols, "newer"]), 3) == right
    with pytest.raises(InputError, match="give both ids, or the same shape"):
        ranking_scores(model, test[:5], 3)
    with pytest.raises(InputError, match="Unknown metric 'auc'"):
        ranking_scores(model, Observations.from_dense(test, rows, cols), 3, metrics=("auc",))
