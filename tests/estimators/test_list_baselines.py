"""Baselines of lists against their definitions, and the comparison of lists."""

import numpy as np
import pytest

import lorank
from lorank.errors import InputError
from lorank.estimators import list_baselines
from lorank.observations import Observations


def clicks(seed=0, m=90, n=24):
    rng = np.random.default_rng(seed)
    likes = 0.05 + 0.5 * (rng.integers(3, size=m)[:, None] == np.arange(n) % 3)
    rows, cols = np.nonzero(rng.random((m, n)) < likes)
    return Observations.from_coo(rows, cols, np.ones(rows.size), (m, n))


def test_ease_is_the_constrained_least_squares():
    """Column j of B is the ridge regression of column j on the others."""
    seen = clicks()
    R = seen.to_sparse().toarray()
    scores = list_baselines.ease(seen, 7.0)(np.arange(len(R)))
    for j in (0, 5, 23):
        others = np.delete(np.arange(R.shape[1]), j)
        A = R[:, others]
        b = np.linalg.solve(A.T @ A + 7.0 * np.eye(others.size), A.T @ R[:, j])
        np.testing.assert_allclose(scores[:, j], A @ b, atol=1e-9)


def test_item_item_and_most_popular():
    seen = clicks()
    R = seen.to_sparse().toarray()
    counts = R.sum(axis=0)
    gram = R.T @ R
    expected = np.array(
        [
            [sum(R[i, a] * gram[a, j] / np.sqrt(counts[a] * counts[j]) for a in range(24) if a != j) for j in range(24)]
            for i in range(5)
        ]
    )
    np.testing.assert_allclose(list_baselines.item_item(seen, 0.5)(np.arange(5)), expected)
    np.testing.assert_array_equal(list_baselines.most_popular(seen)(np.array([3])), [counts])


def test_lists_are_compared(monkeypatch):
    table = lorank.compare(clicks(), goal="ranking", metric="recall@5")
    assert {row["method"] for row in table.rows} == {"nnfn", "most popular", "item-item", "ease"}
    found = {row["method"]: row["recall@5"] for row in table.rows}
    assert found["nnfn"] > found["most popular"]
    assert [row["recall@5"] for row in table.rows] == sorted(found.values(), reverse=True)
    monkeypatch.setattr(list_baselines, "MOST_COLUMNS", 10)
    refused = {row["method"]: row["reason"] for row in lorank.compare(clicks(), goal="ranking").rows}
    assert "there are 24" in refused["ease"]
    assert refused["most popular"] == ""
    with pytest.raises(InputError, match="there are 24"):
        list_baselines.ease(clicks(), 1.0)
