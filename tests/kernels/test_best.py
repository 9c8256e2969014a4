"""The best of each line, tile by tile, against a stable sort of all."""

import numpy as np
import pytest

from lorank.kernels import keep_best


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_the_best_of_each_line(dtype, n):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, (7, 40)).astype(dtype)  # many ties
    X[3] = -np.inf
    X[4, 2:] = -np.inf
    X[5, 7] = np.nan
    scores, places = np.full((7, n), -np.inf, dtype), np.zeros((7, n), np.int64)
    for first in range(0, 40, 13):
        keep_best(np.ascontiguousarray(X[:, first : first + 13]), first, scores, places, 0, 7)
    for line, own, at in zip(X, scores, places):
        order = np.argsort(-np.where(np.isnan(line), -np.inf, line), kind="stable")[:n]
        order = order[np.isfinite(line[order])]
        assert at[: order.size].tolist() == order.tolist()
        assert own[: order.size].tolist() == line[order].tolist()
        assert np.isneginf(own[order.size :]).all()
