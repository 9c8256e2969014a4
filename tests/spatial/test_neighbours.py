"""Kriging from the nearest places, against all places and scikit-learn."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from lorank.spatial import neighbours
from lorank.spatial.drift import Places
from lorank.spatial.neighbours import FieldKernel, choose_kernel, krige_nearest


@pytest.mark.parametrize(("kernel", "nu"), [("exponential", 0.5), ("matern32", 1.5), ("matern52", 2.5)])
def test_with_enough_neighbours_it_is_kriging(kernel, nu, monkeypatch):
    monkeypatch.setattr(neighbours, "COUNT", 30)
    rng = np.random.default_rng(0)
    known, targets = rng.uniform(0, 3, (30, 2)), rng.uniform(0, 3, (4, 2))
    values = rng.standard_normal((30, 6))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 5] = np.nan
    mean, variance = krige_nearest(values, known, targets, FieldKernel(kernel, 1.0, 0.2, np.empty(0)))
    for t in range(5):
        seen = ~np.isnan(values[:, t])
        process = GaussianProcessRegressor(Matern(1.0, nu=nu), alpha=0.2, optimizer=None)
        process.fit(known[seen], values[seen, t])
        expected, deviation = process.predict(targets, return_std=True)
        np.testing.assert_allclose(mean[:, t], expected, atol=1e-7)
        np.testing.assert_allclose(variance[:, t], deviation**2, atol=1e-7)
    np.testing.assert_array_equal(mean[:, 5], 0.0)
    np.testing.assert_array_equal(variance[:, 5], 1.0)


def test_its_own_values_are_left_out():
    rng = np.random.default_rng(1)
    known, values = rng.uniform(0, 1, (25, 2)), rng.standard_normal((25, 3))
    field = FieldKernel("exponential", 1.0, 0.1, np.empty(0))
    mean, _ = krige_nearest(values, known, known, field, np.arange(25))
    without, _ = krige_nearest(values[1:], known[1:], known[:1], field)
    np.testing.assert_allclose(mean[:1], without, atol=1e-10)
    values[0] = 1e6
    np.testing.assert_array_equal(krige_nearest(values, known, known, field, np.arange(25))[0][0], mean[0])


def test_the_kernel_of_a_simulated_field_is_found():
    rng = np.random.default_rng(2)
    places = Places(np.column_stack([rng.uniform(0, 2, (150, 2)), np.zeros(150)]), rng.standard_normal((150, 1)))
    true = FieldKernel("exponential", 0.6, 0.3, np.array([0.25]))
    x = true.scaled(places)
    K = np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2)) + 0.3 * np.eye(150)
    z = 1.7 * np.linalg.cholesky(K) @ rng.standard_normal((150, 60))
    found = choose_kernel(z, places, "exponential", 1.0)
    assert 0.5 < found.nugget / true.nugget < 2
    assert 0.5 < found.stretch[0] / true.stretch[0] < 2
    assert 0.6 < found.variance / 1.7**2 / (found.length / true.length) < 1.6
