"""Facts of the public data; skipped where the files are not."""

import os
from pathlib import Path

import numpy as np
import pytest

from lorank import datasets
from lorank.datasets.noaa import read_stations

FOLDER = Path(os.environ.get("LORANK_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data")


def needs(name):
    return pytest.mark.skipif(not (FOLDER / name).exists(), reason=f"{name} is not in LORANK_DATA or ../shared/data")


@needs("ml-100k.zip")
def test_movielens_100k():
    ratings = datasets.movielens_100k(FOLDER)
    assert ratings.shape == (943, 1682)
    assert ratings.nnz == 100_000
    assert np.unique(ratings.values).tolist() == [1, 2, 3, 4, 5]
    assert ratings.row_ids.values.tolist() == list(range(1, 944))


@needs("movielens1m.mat")
def test_movielens_1m_of_the_paper():
    ratings = datasets.movielens_1m(FOLDER)
    assert ratings.shape == (6040, 3449)
    assert ratings.nnz == 999_714
    assert np.unique(ratings.values).tolist() == [1, 2, 3, 4, 5]
    assert np.bincount(ratings.rows, minlength=6040).min() > 0
    assert np.bincount(ratings.cols, minlength=3449).min() > 0


@needs("movielens1m.mat")
def test_the_papers_protocol_on_movielens_1m():
    parts = datasets.split(datasets.movielens_1m(FOLDER))
    assert [part.nnz for part in parts] == [499_857, 249_929, 249_928]
    (train, _, test), (mean, deviation) = datasets.standardise(*parts)
    assert mean == pytest.approx(3.58, abs=0.01)
    assert deviation == pytest.approx(1.117, abs=0.005)
    # Predicting the mean has an RMSE of 1 in these units.
    assert np.sqrt(np.mean(train.values**2)) == pytest.approx(1)
    assert np.sqrt(np.mean(test.values**2)) == pytest.approx(1, abs=0.01)


@needs("MovieTweetings-100K.zip")
def test_movietweetings():
    ratings = datasets.movietweetings(FOLDER)
    assert ratings.shape == (16_554, 10_506)
    assert ratings.nnz == 100_000
    assert (ratings.values.min(), ratings.values.max()) == (0, 10)
    assert all(len(name) == 7 for name in ratings.col_ids.values)


@needs("NA-1990-2002-Monthly.csv.gz")
def test_gas():
    data = datasets.gas("CO2", FOLDER)
    assert data.values.shape == (125, 144)
    assert data.time[[0, -1]].astype(str).tolist() == ["1990-01", "2001-12"]
    assert 340 < data.values.min() < data.values.max() < 400
    assert datasets.gas("H2", FOLDER, months=None).values.shape == (125, 156)
    assert np.isnan(datasets.gas("UV", FOLDER, months=None).values).sum() == 4876
    # A grid of two and a half degrees.
    assert np.unique(np.diff(np.unique(data.latitude))).tolist() == [2.5]


@needs("gas_p17.mat")
def test_gas_anomalies():
    data = datasets.gas_anomalies("CO2", FOLDER, months=None)
    assert data.values.shape == (125, 156)
    assert not np.isnan(data.values).any()
    np.testing.assert_allclose(data.values.std(axis=1, ddof=1), 1)


@needs("gas_p17.mat")
@needs("NA-1990-2002-Monthly.csv.gz")
@pytest.mark.parametrize("variable", ["CO2", "H2", "CO"])
def test_both_forms_of_gas_have_the_same_places_and_resemble_each_other(variable):
    measured = datasets.gas(variable, FOLDER, "anomalies-trend", months=None)
    published = datasets.gas_anomalies(variable, FOLDER, months=None)
    assert measured.station.tolist() == published.station.tolist()
    assert np.corrcoef(measured.values.ravel(), published.values.ravel())[0, 1] > 0.6


@needs("ushcn_tavg_raw_1895_2016.npz")
def test_ushcn_temperature():
    data = datasets.ushcn("tavg", FOLDER)
    assert data.values.shape == (1218, 1464)
    assert data.time[[0, -1]].astype(str).tolist() == ["1895-01", "2016-12"]
    # 10.28% were never measured; another 4,959 values failed quality control.
    assert np.isnan(data.values).mean() == pytest.approx(0.1055, abs=1e-4)
    assert 11 < np.nanmean(data.values) < 12.5


@needs("ushcn-v2.5-stations.txt")
@needs("ushcn_tavg_raw_1895_2016.npz")
def test_the_station_list_agrees_with_the_arrays():
    stations = read_stations(FOLDER / "ushcn-v2.5-stations.txt")
    data = datasets.ushcn("tavg", FOLDER)
    assert stations.station.tolist() == data.station.tolist()
    np.testing.assert_allclose(stations.latitude, data.latitude)
    np.testing.assert_allclose(stations.longitude, data.longitude)


@needs("ushcn_p3.mat")
@needs("ushcn-v2.5-stations.txt")
def test_ushcn_anomalies():
    data = datasets.ushcn_anomalies("prcp", FOLDER)
    assert data.values.shape == (108, 1032)
    assert not np.isnan(data.values).any()
    assert data.time[[0, -1]].astype(str).tolist() == ["1915-01", "2000-12"]
    stations = read_stations(FOLDER / "ushcn-v2.5-stations.txt")
    assert set(data.station) <= set(stations.station)
