"""Normalisations: undone exactly, and doing what their names say."""

import numpy as np
import pytest

from lorank.errors import InputError
from lorank.spatial.normalisation import NAMES, Normalisation

MONTHS = np.arange("1990-01", "2000-01", dtype="datetime64[M]")


@pytest.fixture
def series():
    """8 places x 120 months with level, season and trend of their own; a fifth missing, one empty, one constant."""
    rng = np.random.default_rng(0)
    season = np.sin(2 * np.pi * np.arange(120) / 12)
    values = (
        rng.normal(10, 5, (8, 1))
        + rng.uniform(5, 15, (8, 1)) * season
        + rng.normal(0, 3, (8, 1)) * np.linspace(-1, 1, 120)
        + rng.uniform(0.5, 2, (8, 1)) * rng.standard_normal((8, 120))
    )
    values[rng.random(values.shape) < 0.2] = np.nan
    values[3] = np.nan
    values[5] = 7.0
    return values


@pytest.mark.parametrize("name", NAMES)
def test_undoing_gives_the_data_back(series, name):
    fitted = Normalisation.fit(series, name, MONTHS)
    np.testing.assert_allclose(fitted.undo(fitted.apply(series)), series, rtol=1e-12)
    assert np.array_equal(np.isnan(fitted.apply(series)), np.isnan(series))


def test_zscores_have_mean_zero_and_deviation_one(series):
    for name, axis in (("zscore", None), ("zscore-columns", 0), ("zscore-rows", 1)):
        z = Normalisation.fit(series, name).apply(series)
        if axis == 1:
            z = np.delete(z, [3, 5], axis=0)
        np.testing.assert_allclose(np.nanmean(z, axis=axis), 0, atol=1e-9)
        np.testing.assert_allclose(np.nanstd(z, axis=axis), 1, rtol=2e-2)


@pytest.mark.parametrize("trend", [False, True])
def test_anomalies_are_residuals_of_least_squares(series, trend):
    name = "anomalies-trend" if trend else "anomalies"
    fitted = Normalisation.fit(series, name, MONTHS)
    z = fitted.apply(series)
    basis = np.eye(12)[np.arange(120) % 12]
    if trend:
        basis = np.column_stack([basis, np.arange(120)])
    for i in (0, 1, 2, 4, 6, 7):
        known = ~np.isnan(series[i])
        fit = np.linalg.lstsq(basis[known], series[i, known], rcond=None)[0]
        residual = series[i, known] - basis[known] @ fit
        deviation = np.sqrt(np.sum(residual**2) / (known.sum() - basis.shape[1]))
        np.testing.assert_allclose(z[i, known], residual / deviation, atol=1e-8)
    np.testing.assert_allclose(z[5], 0, atol=1e-9)


def test_rows_without_enough_values_take_the_mean_of_the_others(series):
    series[0, 6:] = np.nan
    fitted = Normalisation.fit(series, "anomalies", MONTHS)
    assert list(np.flatnonzero(~fitted.determined)) == [0, 3]
    np.testing.assert_allclose(fitted.coefficients[0], fitted.coefficients[fitted.determined].mean(axis=0))
    np.testing.assert_allclose(fitted.undo(fitted.apply(series)), series)


def test_bad_input_is_named(series):
    with pytest.raises(InputError, match="zscore-rows"):
        Normalisation.fit(series, "rank")
    with pytest.raises(InputError, match="date of each"):
        Normalisation.fit(series, "anomalies")
    with pytest.raises(InputError, match="nothing to normalise"):
        Normalisation.fit(series[3:4], "zscore")
    with pytest.raises(InputError, match="simpler"):
        Normalisation.fit(series[:, :6], "anomalies-trend", MONTHS[:6])
