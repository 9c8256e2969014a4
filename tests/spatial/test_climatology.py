"""Level and season: least squares where there is much, the map where there is nothing, and shrinkage between."""

import numpy as np
import pytest

from lorank.errors import InputError
from lorank.spatial.climatology import Basis, fit_climatology
from lorank.spatial.drift import Places

MONTHS = np.arange("1990-01", "2010-01", dtype="datetime64[M]")


@pytest.fixture
def stations():
    """60 places x 240 months with height: c_i depends on it; independent anomalies."""
    rng = np.random.default_rng(0)
    places = Places(rng.uniform(0, 1, (60, 3)), rng.standard_normal((60, 1)))
    basis = Basis.of(MONTHS, 240, season=True, trend=False)
    true = np.zeros((60, basis.values.shape[1]))
    true[:, 0] = 10 - 3 * places.covariates[:, 0] + 0.2 * rng.standard_normal(60)
    true[:, 1] = -5 + 0.5 * places.covariates[:, 0]
    values = true @ basis.values.T + rng.standard_normal((60, 240))
    return places, basis, true, values


def test_the_basis_spans_month_means():
    basis = Basis.of(MONTHS, 240, season=True, trend=False)
    months = np.eye(12)[np.arange(240) % 12]
    assert basis.values.shape == (240, 12)
    projected = basis.values @ np.linalg.lstsq(basis.values, months, rcond=None)[0]
    np.testing.assert_allclose(projected, months, atol=1e-10)
    np.testing.assert_allclose(basis.values.T @ basis.values, 240 * np.eye(12), atol=1e-8)
    assert Basis.of(MONTHS[:12:3], 4, season=True, trend=False).values.shape == (4, 4)
    assert Basis.of(MONTHS[::12], 20, season=True, trend=False).values.shape == (20, 1)
    with pytest.raises(InputError, match="date of each"):
        Basis.of(np.arange(240), 240, season=True, trend=False)


def test_many_months_are_least_squares_and_none_is_the_map(stations):
    places, basis, true, values = stations
    values[50:] = np.nan
    fitted = fit_climatology(values, (~np.isnan(values)).astype(float), basis, places)
    least_squares = values[:50] @ basis.values / 240
    assert np.abs(fitted.coefficients[:50, :2] - least_squares[:, :2]).max() < 0.25, (
        "an estimate has a deviation of 0.065"
    )
    assert np.abs(fitted.coefficients[50:, 0] - true[50:, 0]).max() < 0.8, "height explains the level"
    assert np.abs(fitted.coefficients[50:, 1] - true[50:, 1]).max() < 0.3
    np.testing.assert_allclose(fitted.at(places[np.arange(50, 60)])[0], fitted.coefficients[50:])
    spread = np.sqrt(np.einsum("iaa->ia", fitted.covariance))
    assert (spread[50:, 0] > 2 * spread[:50, 0].max()).all()


def test_three_months_shift_the_season_of_the_surroundings(stations):
    places, basis, true, values = stations
    values[40:, 3:] = np.nan
    values[40:, :3] += 2.0  # these places are warmer than any height explains
    fitted = fit_climatology(values, (~np.isnan(values)).astype(float), basis, places)
    miss = fitted.coefficients[40:] - true[40:]
    assert 0.05 < miss[:, 0].mean() < 1.5, "three months move the level, but not as far as they say"
    assert np.abs(miss[:, 1]).max() < 0.5, "and leave the season"
    # The same by the formula, from what the others say of one place.
    D = (basis.values[:3, :, None] * basis.values[:3, None, :]).sum(axis=0)
    prior, mean = np.diag(1 / fitted.map_variance[40]), fitted.map_mean[40]
    expected = np.linalg.solve(D + prior, values[40, :3] @ basis.values[:3] + prior @ mean)
    np.testing.assert_allclose(fitted.coefficients[40], expected, atol=1e-9)
