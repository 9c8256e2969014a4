"""Narrower factors are the best approximation of their rank."""

import numpy as np
import pytest

from lorank.linalg import Factors, narrowed, without_biases


@pytest.fixture
def factors():
    rng = np.random.default_rng(0)
    sides = [rng.standard_normal((lines, 4)) for lines in (30, 20)]
    return Factors.of(*sides, rng.standard_normal(30), rng.standard_normal(20), 3.0)


def best(X, k):
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    return U[:, :k] * sigma[:k] @ Vt[:k]


def test_the_strongest_directions_stay(factors):
    narrow = narrowed(factors, 2)
    np.testing.assert_allclose(narrow.W @ narrow.H.T, best(factors.W @ factors.H.T, 2), atol=1e-12)
    np.testing.assert_allclose(narrow.W.T @ narrow.W, narrow.H.T @ narrow.H, atol=1e-12)
    np.testing.assert_array_equal(narrow.row_bias, factors.row_bias)
    assert narrow.offset == factors.offset
    assert not narrowed(Factors.of(factors.W, factors.H), 2).biased


def test_biases_become_directions(factors):
    plain = without_biases(factors)
    assert not plain.biased
    np.testing.assert_allclose(plain.dense(), best(factors.dense(), 4), atol=1e-12)
