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


def test_the_methods_that_are_named_are_compared():
    table = lorank.compare(clicks(), ["ease", "factored-nuclear", "nuclear"], goal="ranking")
    rows = {row["method"]: row for row in table.rows}
    assert set(rows) == {"ease", "factored-nuclear", "nuclear"}
    assert rows["factored-nuclear"]["ndcg@10"] > 0
    assert rows["nuclear"]["ndcg@10"] is None  # it cannot rank, and says why
    assert rows["nuclear"]["reason"]
    with pytest.raises(InputError, match="Unknown method 'svd'"):
        lorank.compare(clicks(), ["svd"], goal="ranking")
    with pytest.raises(InputError, match="'ease' makes lists"):
        lorank.compare(clicks(), ["ease"])


def test_with_times_the_last_entries_are_to_be_found():
    """Each row changes its mind: what came last is told by nothing before it but popularity among the last ones."""
    seen = clicks()
    rng = np.random.default_rng(0)
    when = seen.with_values(rng.permutation(seen.nnz).astype(float))
    found = [lorank.compare(seen, ["most popular"], goal="ranking", times=times).rows[0] for times in (None, when)]
    assert found[0]["ndcg@10"] != found[1]["ndcg@10"]
    # By hand: the last fifth of each row is tested.
    from lorank.observations.splits import hold_out_of_rows

    rest, tested = hold_out_of_rows(seen, 0.2, 0, when)
    counts = np.diff(rest.by_col.pointers)
    total = []
    for i in range(seen.shape[0]):
        own, wanted = rest.cols[rest.rows == i], tested.cols[tested.rows == i]
        if wanted.size:
            left = np.setdiff1d(np.arange(24), own)
            best = left[np.argsort(-counts[left], kind="stable")][:10]
            discounts = 1 / np.log2(np.arange(2, 12))
            total.append(np.isin(best, wanted) @ discounts[: best.size] / discounts[: min(wanted.size, 10)].sum())
    assert found[1]["ndcg@10"] == pytest.approx(np.mean(total), rel=0.05)  # ties are broken otherwise
    with pytest.raises(InputError, match="times are for lists"):
        lorank.compare(seen, ["nnfn"], times=when)
