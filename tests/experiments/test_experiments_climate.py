"""Interpolation by hand, and the search for a graph or a prior."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from lorank import datasets
from lorank.experiments.baselines import BASELINES, inverse_distance, kriging, nearest
from lorank.experiments.methods import CLIMATE, INSTEAD, TUNED_UNIT
from lorank.experiments.run_cell import run_cell
from lorank.experiments.settings import Budget, Cell, Dataset
from lorank.experiments.suites import FULL, INSTEAD_STATIONS, STATIONS, TUNED_STATIONS
from lorank.observations import Observations


@pytest.fixture
def gappy():
    """Nine places, of which four are measured, with gaps; the values with NaN."""
    rng = np.random.default_rng(0)
    points, values = rng.standard_normal((9, 3)), rng.standard_normal((9, 6))
    values[4:] = np.nan
    values[0, 1] = values[2, 3] = values[3, 3] = np.nan
    return points, values, Observations.from_dense(values)


def by_hand(points, values, weight):
    """Month by month: weight(distances to the places that have it) of their values."""
    out = np.empty_like(values)
    for month in range(values.shape[1]):
        have = ~np.isnan(values[:, month])
        for place in range(len(points)):
            weights = weight(cdist(points[[place]], points[have])[0])
            out[place, month] = weights @ values[have, month] / weights.sum()
    return out


def test_interpolation_is_what_it_says(gappy):
    points, values, train = gappy
    found = nearest(points, train).values
    np.testing.assert_allclose(found, by_hand(points, values, lambda apart: (apart == apart.min()).astype(float)))
    found = inverse_distance(points, train, power=2.0).values
    by_squares = by_hand(points, values, lambda apart: 1 / np.maximum(apart, 1e-6) ** 2)
    np.testing.assert_allclose(found, by_squares)


@pytest.mark.parametrize(("kernel", "nu"), [("exponential", 0.5), ("matern32", 1.5)])
def test_kriging_is_a_gaussian_process(gappy, kernel, nu):
    points, values, train = gappy
    found = kriging(points, train, kernel, length=1.3, nugget=0.05).values
    for month in range(values.shape[1]):
        have = ~np.isnan(values[:, month])
        process = GaussianProcessRegressor(Matern(1.3, nu=nu), alpha=0.05, optimizer=None)
        process.fit(points[have], values[have, month])
        np.testing.assert_allclose(found[:, month], process.predict(points), atol=1e-8)


def test_nobody_has_more_settings_than_a_search_has_fits():
    assert all(len(baseline.settings) <= FULL["climate"].budget.trials for baseline in BASELINES.values())


@pytest.fixture
def stations(monkeypatch):
    """A smooth field on a map in place of a file."""
    rng = np.random.default_rng(1)
    latitude, longitude = rng.uniform(30, 45, 60), rng.uniform(-110, -80, 60)
    smooth = np.column_stack([np.sin(latitude / 5), np.cos(longitude / 9)])
    values = smooth @ rng.standard_normal((2, 30)) + 0.05 * rng.standard_normal((60, 30))
    time = np.datetime64("1990-01") + np.arange(30)
    data = datasets.StationData(values, latitude, longitude, np.arange(60), time, "CO2", "")
    monkeypatch.setattr(datasets, "gas_anomalies", lambda **_: data)


def run(dataset, entry):
    return run_cell(Cell("climate", dataset, entry, 0, Budget(trials=24)), None)


def test_rows_of_every_kind(stations):
    by_name = {entry.name: entry for entry in (*TUNED_UNIT, *INSTEAD)}
    tuned = run(TUNED_STATIONS[0], by_name["nnfn"])
    assert tuned["status"] == "ok"
    assert tuned["parameters"]["rate"] in (2.0, 4.0, 8.0, 16.0)
    assert tuned["parameters"]["graph_weight"] > 0
    prior = run(INSTEAD_STATIONS[0], by_name["nnfn-kernel"])
    assert {"kernel", "length", "nugget", "lam"} <= set(prior["parameters"])
    krige = run(INSTEAD_STATIONS[0], by_name["kriging"])
    assert krige["trials"] == 18
    assert prior["error"] < 1.2 * krige["error"] < tuned["error"]


def test_the_paper_has_one_graph(stations):
    row = run(STATIONS[0], next(entry for entry in CLIMATE if entry.name == "factored-nuclear"))
    assert row["parameters"]["rate"] == 2.0


def test_a_method_that_cannot_take_the_graph_is_a_row_with_its_reason(stations):
    entry = next(entry for entry in CLIMATE if entry.name == "nnfn")
    fgsr = run(STATIONS[0], type(entry)("fgsr", "FGSR", "fgsr", sides=entry.sides, graph_range=entry.graph_range))
    assert fgsr["status"] == "skipped"
    assert "cannot take a GraphLaplacian" in fgsr["reason"]


def test_months_before_are_left_out(stations):
    late = Dataset("late", "", "", "stations", {"source": "gas_anomalies", "since": "1991-01"}, (2,))
    assert run(late, INSTEAD[0])["shape"] == [60, 18]


def test_reasons_do_not_name_folders(tmp_path):
    cell = Cell("climate", STATIONS[0], CLIMATE[0], 0, Budget())
    row = run_cell(cell, tmp_path)
    assert row["status"] == "skipped"
    assert str(tmp_path) not in row["reason"]
