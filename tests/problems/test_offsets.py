"""Offsets by empirical Bayes against the ridge regression that they solve, and against known variances."""

import numpy as np
import pytest

from lorank.observations import Observations
from lorank.problems.offsets import empirical_bayes_offsets


def drawn(m=300, n=200, share=0.2, va=0.5, vb=1.5, s2=1.0, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = 3 + np.sqrt(va) * rng.standard_normal((m, 1)) + np.sqrt(vb) * rng.standard_normal(n)
    X = X + np.sqrt(s2) * rng.standard_normal((m, n))
    return Observations.from_dense(scale * np.where(rng.random((m, n)) < share, X, np.nan))


def test_offsets_solve_the_ridge_regression_of_their_variances():
    seen = drawn(m=30, n=20, share=0.5)
    found = empirical_bayes_offsets(seen, rounds=5000, tolerance=1e-12)
    rows, cols = found.ridges
    m, n = seen.shape
    design = np.zeros((seen.nnz, 1 + m + n))
    design[:, 0] = 1
    design[np.arange(seen.nnz), 1 + seen.rows] = 1
    design[np.arange(seen.nnz), 1 + m + seen.cols] = 1
    penalty = np.diag(np.r_[0.0, np.full(m, rows), np.full(n, cols)])
    solution = np.linalg.solve(design.T @ design + penalty, design.T @ seen.values)
    np.testing.assert_allclose(found.predict(seen.rows, seen.cols), design @ solution, atol=1e-5)


def test_variances_are_recovered():
    found = empirical_bayes_offsets(drawn())
    assert (found.va, found.vb, found.s2) == pytest.approx((0.5, 1.5, 1.0), rel=0.2)


def test_ridges_have_no_unit():
    one, other = (empirical_bayes_offsets(drawn(scale=scale)) for scale in (1.0, 1000.0))
    assert one.ridges == pytest.approx(other.ridges, rel=1e-6)
    np.testing.assert_allclose(1000 * one.a, other.a, rtol=1e-6)


def test_constant_and_tiny_data():
    flat = empirical_bayes_offsets(Observations.from_dense(np.full((4, 3), 2.5)))
    assert (flat.mu, flat.s2) == (2.5, 0.0)
    assert not flat.a.any()
    assert flat.ridges == (1.0, 1.0)
    row = empirical_bayes_offsets(Observations.from_dense(np.array([[1.0, np.nan, 4.0]])))
    assert np.isfinite([row.mu, *row.a, *row.b, *row.ridges]).all()


def test_lines_without_entries_have_no_offset():
    X = np.where(np.eye(6) > 0, np.arange(6.0), np.nan)
    X[5] = np.nan
    found = empirical_bayes_offsets(Observations.from_dense(X))
    assert found.a[5] == 0
    assert found.b[5] == 0
