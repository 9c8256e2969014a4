"""Rubin's rules: against the formulas by hand, and the coverage of a mean with missing values."""

import numpy as np
import pytest

from lorank import InputError, LowRankImputer, pool


def test_by_hand():
    pooled = pool([1.0, 2.0, 3.0], [0.5, 0.7, 0.6])
    assert pooled.estimate == pytest.approx(2)
    assert pooled.within == pytest.approx(0.6)
    assert pooled.between == pytest.approx(1)
    total = 0.6 + 4 / 3
    assert pooled.std == pytest.approx(np.sqrt(total))
    assert pooled.degrees == pytest.approx(2 * (1 + 0.6 / (4 / 3)) ** 2)
    assert pooled.missing == pytest.approx(4 / 3 / total)
    low, high = pooled.interval(0.95)
    assert (low + high) / 2 == pytest.approx(2)
    # Fewer degrees of freedom of the data, fewer of the pooled estimate.
    assert pool([1.0, 2.0, 3.0], [0.5, 0.7, 0.6], degrees=20).degrees < pooled.degrees


def test_nothing_missing_is_the_plain_answer():
    pooled = pool([[1.0, 2.0]] * 5, [[0.5, 0.1]] * 5)
    np.testing.assert_allclose(pooled.std, np.sqrt([0.5, 0.1]))
    low, _ = pooled.interval(0.95)
    np.testing.assert_allclose(low, [1 - 1.96 * np.sqrt(0.5), 2 - 1.96 * np.sqrt(0.1)], rtol=1e-3)


def test_bad_input():
    with pytest.raises(InputError, match="at least two draws"):
        pool([1.0], [1.0])
    with pytest.raises(InputError, match="same shape"):
        pool([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="not be negative"):
        pool([1.0, 2.0], [1.0, -1.0])


def test_the_mean_of_a_column_is_covered():
    """Where y is missing more often for large x, the mean of what is there is wrong, and the pooled one is not."""
    inside, naive = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(200)
        y = x + 0.5 * rng.standard_normal(200)
        table = np.column_stack([x, y, x + y + rng.standard_normal(200)])
        table[(x > 0) & (rng.random(200) < 0.7), 1] = np.nan
        imputer = LowRankImputer(method="bpmf", rank=2, scale="standard", trees=False, max_iter=80)
        draws = imputer.fit(table).draws(10)
        columns = [draw[:, 1] for draw in draws]
        pooled = pool([c.mean() for c in columns], [c.var() / 200 for c in columns], degrees=199)
        low, high = pooled.interval(0.95)
        inside.append(low <= 0 <= high)
        seen = table[~np.isnan(table[:, 1]), 1]
        naive.append(abs(seen.mean()) < 1.96 * seen.std() / np.sqrt(seen.size))
    assert np.mean(inside) >= 0.8
    assert np.mean(naive) <= 0.3
