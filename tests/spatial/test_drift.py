"""Kriging with drift against brute force, and the restricted likelihood against its definition."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from lorank.linalg.blas import one_blas_thread
from lorank.spatial import drift
from lorank.spatial.drift import DriftKriging, Places, Variogram, drift_columns


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    places = Places(rng.uniform(0, 2, (40, 3)), rng.standard_normal((40, 1)))
    noise = rng.uniform(0.01, 1.0, (40, 2))
    y = 3 + 2 * places.covariates + rng.standard_normal((40, 2))
    return places, y, noise, Variogram(0.7, 1.5, 0.1, np.array([0.3]))


def universal_kriging(places, y, noise, v, other):
    """The bordered system of universal kriging, for one column: mean and variance at other places."""
    x, z = (p.stretched(v.length, v.stretch) for p in (places, other))
    A = v.variance * np.exp(-cdist(x, x)) + np.diag(v.variance * v.nugget + noise)
    F, G = drift_columns(places, places), drift_columns(other, places)
    f = F.shape[1]
    system = np.block([[A, F], [F.T, np.zeros((f, f))]])
    right = np.vstack([v.variance * np.exp(-cdist(x, z)), G.T])
    solved = np.linalg.solve(system, right)
    return solved[: len(y)].T @ y, v.variance * (1 + v.nugget) - np.sum(solved * right, axis=0)


def test_other_places_are_those_of_the_bordered_system(case):
    places, y, noise, variogram = case
    rng = np.random.default_rng(1)
    other = Places(rng.uniform(0, 2, (5, 3)), rng.standard_normal((5, 1)))
    mean, variance = DriftKriging.fit(places, y, noise, variogram).at(other)
    for column in range(2):
        expected = universal_kriging(places, y[:, column], noise[:, column], variogram, other)
        np.testing.assert_allclose(mean[:, column], expected[0], atol=1e-8)
        np.testing.assert_allclose(variance[:, column], expected[1], atol=1e-8)


def test_from_others_leaves_each_place_out_in_turn(case):
    """One solve gives what refitting without each place gives; the drift's columns are those of all places."""
    places, y, noise, variogram = case
    mean, variance = DriftKriging.fit(places, y, noise, variogram).from_others()
    for i in (0, 17):
        keep = np.delete(np.arange(40), i)
        x = places.stretched(variogram.length, variogram.stretch)
        K = variogram.variance * np.exp(-cdist(x, x))
        A = K[np.ix_(keep, keep)] + np.diag(variogram.variance * variogram.nugget + noise[keep, 0])
        F = drift_columns(places, places)
        f = F.shape[1]
        system = np.block([[A, F[keep]], [F[keep].T, np.zeros((f, f))]])
        right = np.concatenate([K[keep, i], F[i]])
        solved = np.linalg.solve(system, right)
        assert mean[i, 0] == pytest.approx(solved[:39] @ y[keep, 0], abs=1e-8)
        spread = variogram.variance * (1 + variogram.nugget) - solved @ right
        assert variance[i, 0] == pytest.approx(spread, abs=1e-8)


def test_the_likelihood_finds_what_made_the_field():
    rng = np.random.default_rng(3)
    places = Places(np.column_stack([rng.uniform(0, 3, (120, 2)), np.zeros(120)]), rng.standard_normal((120, 1)))
    true = Variogram(0.5, 4.0, 0.25, np.array([0.2]))
    x = places.stretched(true.length, true.stretch)
    K = true.variance * (np.exp(-cdist(x, x)) + true.nugget * np.eye(120))
    y = np.linalg.cholesky(K) @ rng.standard_normal((120, 3)) + 5 * places.covariates
    with one_blas_thread():
        found = DriftKriging.fit(places, y, np.full((120, 3), 1e-4)).variogram
    assert 0.5 < found.variance * (1 + found.nugget) / 5.0 < 2
    assert 0.4 < found.length / true.length < 2.5
    assert 0.3 < found.stretch[0] / true.stretch[0] < 3


def test_close_places_tell_the_length_where_not_all_can_take_part(monkeypatch):
    """Places that are all far from each other would say that nothing depends on distance."""
    monkeypatch.setattr(drift, "LIKELIHOOD_PLACES", 120)
    rng = np.random.default_rng(3)
    places = Places(np.column_stack([rng.uniform(0, 4, (500, 2)), np.zeros(500)]), np.zeros((500, 0)))
    K = 4.0 * np.exp(-cdist(places.points, places.points) / 0.15)
    y = np.linalg.cholesky(K + 1e-9 * np.eye(500)) @ rng.standard_normal((500, 3))
    with one_blas_thread():
        found = drift.restricted_likelihood(places, y, np.full((500, 3), 0.01))
    assert 0.5 < found.length / 0.15 < 2
    assert found.nugget < 0.2
