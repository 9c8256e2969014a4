"""`lorank complete` and `lorank fit` on NetCDF files, from the shell's point of view."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lorank.cli import app
from lorank.spatial import arrays

xr = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
GIVEN = ["--rank", "2", "--lam", "0.1", "--theta", "1"]


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def fails(*words):
    code, out, err = run(*words)
    errors = [line for line in err.splitlines() if line.startswith("Error: ")]
    assert (code, out, len(errors)) == (1, "", 1), (code, out, err)
    assert "Traceback" not in err
    return errors[0]


@pytest.fixture
def stations(tmp_path, monkeypatch):
    """30 stations x 36 months, the last six never measured, a tenth of the rest missing; written to stations.nc."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(30, 45, 30), rng.uniform(-110, -80, 30)
    smooth = np.column_stack([np.sin(lat / 6), np.cos(lon / 9)])
    truth = smooth @ rng.standard_normal((2, 36)) + 10 + 5 * np.cos(2 * np.pi * np.arange(36) / 12)
    values = np.where(rng.random(truth.shape) < 0.1, np.nan, truth)
    values[24:] = np.nan
    months = np.arange("2001-01", "2004-01", dtype="datetime64[M]").astype("datetime64[ns]")
    data = xr.Dataset(
        {"tas": (("station", "time"), values, {"units": "degC"})},
        coords={"time": months, "lat": ("station", lat), "lon": ("station", lon)},
        attrs={"title": "made up"},
    )
    data.to_netcdf("stations.nc", engine="h5netcdf")
    return data, truth


def test_stations_in_and_out(stations):
    data, truth = stations
    code, out, err = run("complete", "stations.nc", "-o", "filled.nc", "--json", *GIVEN)
    assert code == 0, err
    facts = json.loads(out)
    assert facts["filled"] == int(np.isnan(data["tas"].values).sum())
    assert facts["cells"] == 30 * 36
    assert facts["rank"] == 2
    with xr.open_dataset("filled.nc", engine="h5netcdf") as filled:
        assert filled.attrs["title"] == "made up"
        assert filled["tas"].attrs["units"] == "degC"
        known = ~np.isnan(data["tas"].values)
        assert np.array_equal(filled["tas"].values[known], data["tas"].values[known])
        assert np.sqrt(np.mean((filled["tas"].values - truth)[24:] ** 2)) < 0.5
        assert filled["tas_error"].dims == ("station", "time")
        assert (filled["tas_error"].values[known] == 0).all()


def test_covariates_are_named(stations):
    data, truth = stations
    height = np.random.default_rng(5).uniform(0, 3, 30)
    data = data.assign(tas=data["tas"] - 6.0 * xr.DataArray(height, dims="station"), elevation=("station", height))
    data.to_netcdf("high.nc", engine="h5netcdf")
    errors = []
    for words in ([], ["--covariate", "elevation"]):
        code, _, err = run("complete", "high.nc", "-o", "filled.nc", "--variable", "tas", *words, *GIVEN)
        assert code == 0, err
        with xr.open_dataset("filled.nc", engine="h5netcdf") as filled:
            assert "elevation" in filled.data_vars
            miss = filled["tas"].values - (truth - 6.0 * height[:, None])
            errors.append(np.sqrt(np.mean(miss[24:] ** 2)))
    assert errors[1] < 1 < 3 < errors[0]
    words = ["complete", "high.nc", "-o", "filled.nc", "--variable", "tas"]
    assert "no coordinate 'depth'" in fails(*words, "--covariate", "depth", *GIVEN)


def test_variables_and_coordinates_by_other_names(stations):
    data, _ = stations
    odd = data.rename(lat="breite", lon="laenge", station="ort").assign(pr=lambda d: d["tas"] * 2)
    # Latitudes as a plain variable, and numbers packed as small integers.
    odd = odd.reset_coords(["breite", "laenge"])
    packing = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -9999}
    odd.to_netcdf("odd.nc", engine="h5netcdf", encoding={"pr": packing})
    words = ["complete", "odd.nc", "-o", "filled.nc", *GIVEN]
    assert "holds tas, pr" in fails(*words, "--lat", "breite", "--lon", "laenge")
    code, _, err = run(*words, "--variable", "pr", "--lat", "breite", "--lon", "laenge", "--dim", "ort")
    assert code == 0, err
    with xr.open_dataset("filled.nc", engine="h5netcdf") as filled:
        assert not np.isnan(filled["pr"].values).any()
        assert np.isnan(filled["tas"].values).any()
        assert filled["pr"].encoding["dtype"] == np.int16, "packed numbers stay packed"
        np.testing.assert_allclose(filled["pr"].values, np.round(filled["pr"].values, 2), atol=1e-9)
        assert "lorank" in filled.attrs["history"]


def test_bad_files_give_one_sentence(stations, monkeypatch):
    data, _ = stations

    def refused(changed, *words):
        changed.to_netcdf("bad.nc", engine="h5netcdf")
        with monkeypatch.context() as sound:  # what is wrong is what they say: no process needs to try them first
            sound.setattr(arrays, "check_netcdf", lambda path: None)
            return fails("complete", "bad.nc", "-o", "filled.nc", *GIVEN, *words)

    def with_lat(change):
        lat = data["lat"].values.copy()
        change(lat)
        return data.assign_coords(lat=("station", lat))

    assert "There is no file nowhere.nc" in fails("complete", "nowhere.nc", "-o", "filled.nc")
    assert "no variable 'pr' among tas" in refused(data, "--variable", "pr")
    assert "no dimension 'place'" in refused(data, "--dim", "place")
    assert "no coordinate lat or latitude" in refused(data.drop_vars("lat"))
    assert "no coordinate 'y' among time, lat, lon" in refused(data, "--lat", "y")
    assert "Latitude 95 of place 3 is beyond 90 degrees" in refused(with_lat(lambda lat: lat.__setitem__(3, 95)))
    assert "look swapped" in refused(
        data.rename(lat="lon", lon="lat").assign_coords(lon=("station", data["lat"].values))
    )
    assert "Place 5 has no coordinates" in refused(with_lat(lambda lat: lat.__setitem__(5, np.nan)))
    twice = data.assign_coords(
        lat=("station", np.r_[data["lat"].values[:1], data["lat"].values[:-1]]),
        lon=("station", np.r_[data["lon"].values[:1], data["lon"].values[:-1]]),
    )
    assert "Places 0 and 1 have the same coordinates" in refused(twice)
    assert "No place has a single value" in refused(data.assign(tas=data["tas"] * np.nan))
    assert "needs the date of each" in refused(data.assign_coords(time=np.arange(36)), "--normalisation", "anomalies")
    assert "let the name of filled.csv end in .nc" in fails("complete", "stations.nc", "-o", "filled.csv")
    assert "Unknown normalisation" in fails("complete", "stations.nc", "-o", "filled.nc", "--normalisation", "x")
    with open("noise.nc", "wb") as file:
        file.write(b"this is not NetCDF")
    assert "noise.nc is damaged or not NetCDF" in fails("complete", "noise.nc", "-o", "filled.nc")
    assert not list(Path().glob("*filled*"))


def test_fit_takes_netcdf(stations):
    code, out, err = run("fit", "stations.nc", "-o", "m.lorank", "--json", "--biases", "yes", *GIVEN)
    assert code == 0, err
    assert json.loads(out)["columns"] == 36
    assert "nowhere.nc" in fails("fit", "nowhere.nc")


def test_a_zarr_store_is_filled_and_drawn(stations):
    """It is a folder, where other input is a file."""
    pytest.importorskip("zarr")
    pytest.importorskip("matplotlib")
    with xr.open_dataset("stations.nc") as data:
        data.to_zarr("stations.zarr", consolidated=False)
    assert run("complete", "stations.zarr", "-o", "filled.zarr", *GIVEN)[0] == 0
    with xr.open_zarr("filled.zarr", consolidated=False) as filled:
        assert not filled["tas"].isnull().any()
    assert run("plot", "filled.zarr", "-o", "map.png")[0] == 0
    assert Path("map.png").stat().st_size > 1000
    assert "is a folder" in fails("complete", ".", "-o", "filled.nc")


def test_a_map_in_an_unknown_format_is_told_all_that_can_be_written(stations):
    code, _, err = run("plot", "stations.nc", "-o", "map.gif")
    assert code == 2
    assert ".html" in err
