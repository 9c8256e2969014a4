"""Kriging of each month, and of what low rank leaves over."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from lorank.errors import InputError
from lorank.side_information import KernelPrior
from lorank.side_information.coordinates import sphere
from lorank.spatial import SpatialCompletion
from lorank.spatial.drift import DriftKriging
from lorank.spatial.kriging import Kriging

MONTHS = np.arange("1990-01", "1994-01", dtype="datetime64[M]")


@pytest.fixture
def field():
    """60 places x 48 months: rank 2 over the whole map, and what is smooth over short distances for a month; noise."""
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(30, 45, 60), rng.uniform(-110, -80, 60)
    points = sphere(lat, lon)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    short = np.linalg.cholesky(np.exp(-apart / 0.8) + 1e-9 * np.eye(60)) @ rng.standard_normal((60, 48))
    truth = 2 * np.column_stack([np.sin(lat / 6), np.cos(lon / 9)]) @ rng.standard_normal((2, 48)) + short
    values = truth + 0.1 * rng.standard_normal(truth.shape)
    values[rng.random(values.shape) < 0.1] = np.nan
    values[48:] = np.nan
    return truth, values, lat, lon


def test_it_is_the_gaussian_process_of_each_month(field):
    _, values, lat, lon = field
    points = sphere(lat, lon)
    found = Kriging.fit(KernelPrior(points, "exponential", length=0.7, nugget=0.3), values).at(points)
    for month in (0, 7, 30):
        known = ~np.isnan(values[:, month])
        process = GaussianProcessRegressor(Matern(0.7, nu=0.5), alpha=0.3, optimizer=None)
        process.fit(points[known], values[known, month])
        np.testing.assert_allclose(found[:, month], process.predict(points), atol=1e-10)


def test_a_month_without_values_is_left_alone():
    points = sphere(np.array([10.0, 20, 30]), np.array([1.0, 2, 3]))
    values = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan]])
    found = Kriging.fit(KernelPrior(points, nugget=0.1), values)
    assert np.isfinite(found.at(points)).all()
    assert (found.at(points)[:, 1] == 0).all()


def test_predicting_elsewhere_fits_nothing_again(field, monkeypatch):
    _, values, lat, lon = field
    fixed = {"lam": 0.3, "rank": 2, "theta": 1.0, "nugget": 0.05, "length": 2.0}
    model = SpatialCompletion("zscore-rows", residual_length=0.3, residual_nugget=0.5, **fixed).fit(values, lat, lon)
    expected = model.predict()[48:]
    monkeypatch.setattr(DriftKriging, "fit", None)
    np.testing.assert_allclose(model.predict_at(lat[48:], lon[48:]), expected, atol=1e-8)


def test_tuning_takes_it_where_it_helps_and_predicts_better(field):
    truth, values, lat, lon = field
    fixed = {"lam": 0.3, "rank": 3, "theta": 1.0, "nugget": 0.05, "length": 2.0}
    without, tuned = (
        SpatialCompletion("none", residual_length=length, **fixed).fit(values, lat, lon) for length in (0.0, None)
    )
    assert tuned.parameters_["residual_length"] > 0
    errors = [np.sqrt(np.mean((model.predict() - truth)[48:] ** 2)) for model in (without, tuned)]
    assert errors[1] < 0.97 * errors[0]
    np.testing.assert_allclose(tuned.predict_at(lat[48:], lon[48:]), tuned.predict()[48:], atol=1e-8)


def test_tuning_leaves_it_out_where_nothing_is_left_over():
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(30, 45, 40), rng.uniform(-110, -80, 40)
    values = np.outer(1 + lat / 40, rng.standard_normal(30)) + 0.3 * rng.standard_normal((40, 30))
    model = SpatialCompletion("none", lam=0.3, rank=1, theta=1.0, nugget=0.0, length=20.0).fit(values, lat, lon)
    assert model.parameters_["residual_length"] == 0


def test_negative_lengths_are_refused(field):
    _, values, lat, lon = field
    with pytest.raises(InputError, match="residual_length"):
        SpatialCompletion("none", residual_length=-1.0).fit(values, lat, lon)
    with pytest.raises(InputError, match="residual_nugget"):
        SpatialCompletion("none", residual_nugget=0.0).fit(values, lat, lon)
