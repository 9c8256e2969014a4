"""Places and times in the unit of the data: arrays, xarray, NetCDF."""

import warnings

import numpy as np
import pytest

from lorank import spatial
from lorank.errors import InputError
from lorank.side_information import KernelPrior
from lorank.spatial import SpatialCompletion

MONTHS = np.arange("1990-01", "1995-01", dtype="datetime64[M]")
FIXED = {"length": 2.0, "nugget": 0.01, "lam": 0.1, "rank": 3, "theta": 1.0}
FIXED |= {"residual_length": 0.0, "residual_nugget": 0.5}


@pytest.fixture
def climate():
    """50 places x 60 months, degrees: level and season from latitude, smooth anomalies; 15 places never measured."""
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(30, 45, 50), rng.uniform(-110, -80, 50)
    season = np.cos(2 * np.pi * np.arange(60) / 12)
    smooth = np.column_stack([np.sin(lat / 6), np.cos(lon / 9)])
    anomalies = smooth @ rng.standard_normal((2, 60)) + 0.05 * rng.standard_normal((50, 60))
    truth = (40 - lat)[:, None] - (lat[:, None] / 4) * season + anomalies
    values = np.where(rng.random(truth.shape) < 0.1, np.nan, truth)
    values[35:] = np.nan
    return truth, values, lat, lon


@pytest.fixture
def array(climate):
    xr = pytest.importorskip("xarray")
    _, values, lat, lon = climate
    return xr.DataArray(
        values.T,
        dims=("time", "station"),
        coords={
            "time": MONTHS.astype("datetime64[ns]"),
            "lat": ("station", lat),
            "lon": ("station", lon),
            "station": [f"S{i}" for i in range(50)],
        },
        attrs={"units": "degC"},
        name="tas",
    )


def test_never_measured_places_come_out_in_degrees(climate):
    truth, values, lat, lon = climate
    model = SpatialCompletion(**FIXED).fit(values, lat, lon, MONTHS)
    unseen = np.sqrt(np.mean((model.predict()[35:] - truth[35:]) ** 2))
    assert unseen < 0.35, "anomalies vary by about 1, seasons by 10"
    assert np.array_equal(model.complete()[:35][~np.isnan(values[:35])], values[:35][~np.isnan(values[:35])])
    assert not np.isnan(model.complete()).any()
    gaps = np.isnan(values[:35])
    actual = np.sqrt(np.mean((model.predict()[:35] - truth[:35])[gaps] ** 2))
    assert 0.5 < np.sqrt(np.mean(model.error_[35:] ** 2)) / unseen < 2
    assert 0.5 < np.sqrt(np.mean(model.error_[:35] ** 2)) / actual < 2


@pytest.mark.parametrize("name", ["departures", "anomalies"])
def test_new_coordinates_are_predicted_like_rows_without_values(climate, name):
    _, values, lat, lon = climate
    whole = SpatialCompletion(name, **FIXED).fit(values, lat, lon, MONTHS)
    fewer = SpatialCompletion(name, **FIXED).fit(values[:35], lat[:35], lon[:35], MONTHS)
    np.testing.assert_allclose(fewer.predict_at(lat[35:], lon[35:]), whole.predict()[35:], atol=0.05)


def test_parameters_are_tuned_on_held_out_places(climate):
    _, values, lat, lon = climate
    given = {"nugget": 0.01, "theta": 1.0, "rank": 3, "residual_length": 0.0, "residual_nugget": 1.0, "length": 2.0}
    model = SpatialCompletion("zscore-rows", **given).fit(values, lat, lon)
    assert model.parameters_["nugget"] == 0.01
    assert model.parameters_["normalisation"] == "zscore-rows"
    assert len(model.tuning_) == 3
    best = min(model.tuning_, key=lambda trial: trial.error)
    assert best.parameters == model.tuning_.chosen.parameters == model.parameters_
    given["lam"] = 0.1
    assert not len(SpatialCompletion("zscore-rows", **given).fit(values, lat, lon).tuning_)


def test_laplacian_is_offered_too(climate):
    truth, values, lat, lon = climate
    model = SpatialCompletion(prior="laplacian", length=0.2, lam=0.1, rank=3, theta=1.0, graph_weight=0.01)
    model.fit(values, lat, lon, MONTHS)
    assert np.sqrt(np.mean((model.predict()[35:] - truth[35:]) ** 2)) < 1.5
    assert np.isfinite(model.error_).all()
    with pytest.raises(InputError, match="prior='kernel'"):
        model.predict_at([40], [-100])


def test_covariates_are_a_drift_also_elsewhere(climate):
    truth, values, lat, lon = climate
    height = np.random.default_rng(3).uniform(0, 3, 50)
    lower = 6.0 * height[:, None]
    plain = SpatialCompletion(**FIXED).fit(values - lower, lat, lon, MONTHS)
    model = SpatialCompletion(**FIXED).fit(values - lower, lat, lon, MONTHS, {"elevation": height})
    errors = [np.sqrt(np.mean((m.predict()[35:] - (truth - lower)[35:]) ** 2)) for m in (plain, model)]
    assert errors[1] < 0.5 < 3 < errors[0]
    again, deviation = model.predict_at(lat[35:], lon[35:], {"elevation": height[35:]}, return_std=True)
    np.testing.assert_allclose(again, model.predict()[35:], atol=1e-6)
    np.testing.assert_allclose(deviation, model.predict(return_std=True)[1][35:], rtol=1e-6)
    for given, message in (
        (None, "give elevation"),
        ({"slope": height}, "elevation of these places is lacking"),
        (np.full(15, np.nan), "missing"),
        (height, "50 values for 15 places"),
        (np.zeros((15, 2)), "1 covariates"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict_at(lat[35:], lon[35:], given)
    with pytest.raises(InputError, match="without covariates"):
        plain.predict_at(lat[35:], lon[35:], height[35:])
    with pytest.raises(InputError, match="same at all"):
        SpatialCompletion(**FIXED).fit(values, lat, lon, MONTHS, np.ones(50))


@pytest.mark.parametrize("variable", ["temperature", "precipitation"])
def test_intervals_hold_what_they_say(variable):
    """At places never measured and at those with a third of their months."""
    from lorank.datasets import mountain_stations

    data = mountain_stations(variable, 120, 120, seed=3)
    rng = np.random.default_rng(0)
    values = data.values.copy()
    values[90:] = np.nan
    values[60:90][rng.random((30, 120)) < 0.67] = np.nan
    model = SpatialCompletion(rank=10, lam=1.0, theta=1.0)
    model.fit(values, data.latitude, data.longitude, data.time, {"elevation": data.elevation})
    low, high = model.interval(0.9)
    inside = (low <= data.values) & (data.values <= high)
    gaps = np.isnan(values[60:90])
    assert 0.84 < inside[90:].mean() < 0.96
    assert 0.84 < inside[60:90][gaps].mean() < 0.96
    predicted, deviation = model.predict(return_std=True)
    miss = predicted - data.values
    for part in (miss[90:] / deviation[90:], (miss / deviation)[60:90][gaps]):
        # Errors of precipitation have heavy tails.
        assert 0.7 < np.sqrt(np.mean(part**2)) < (1.4 if variable == "temperature" else 2.0)
    if variable == "precipitation":
        assert model.parameters_["normalisation"] in ("anomalies", "roots")


def test_roots_stay_positive_and_are_not_biased():
    from lorank.datasets import mountain_stations

    data = mountain_stations("precipitation", 60, 60, seed=1)
    values = np.where(np.random.default_rng(0).random(data.values.shape) < 0.3, np.nan, data.values)
    given = {"rank": 10, "lam": 1.0, "theta": 1.0, "residual_length": 0.3, "residual_nugget": 0.5, "nugget": 0.1}
    model = SpatialCompletion("roots", **given).fit(values, data.latitude, data.longitude, data.time)
    low, high = model.interval(0.8)
    assert (low >= 0).all()
    assert (high >= low).all()
    gaps = np.isnan(values)
    assert model.predict()[gaps].mean() == pytest.approx(data.values[gaps].mean(), rel=0.05)
    with pytest.raises(InputError, match="negative"):
        SpatialCompletion("roots", **given).fit(values - 100, data.latitude, data.longitude, data.time)


def test_few_places_are_filled_with_a_warning(climate):
    _, values, lat, lon = climate
    with pytest.warns(UserWarning, match="Only 3 places"):
        model = SpatialCompletion(normalisation="zscore").fit(values[32:38], lat[32:38], lon[32:38])
    assert np.isnan(model.error_).all()
    assert np.isfinite(model.complete()).all()


def test_xarray_comes_back_as_it_was(array, climate):
    filled = spatial.complete(array, dim="station", **FIXED)
    assert filled.dims == array.dims
    assert filled.attrs == array.attrs
    assert filled.name == "tas"
    for name in array.coords:
        assert filled.coords[name].variable.equals(array.coords[name].variable)
    assert not np.isnan(filled.values).any()
    measured = ~np.isnan(array.values)
    assert np.array_equal(filled.values[measured], array.values[measured])
    assert filled.coords["estimated_error"].dims == array.dims
    assert (filled.coords["estimated_error"].values[measured] == 0).all()
    assert (filled.coords["estimated_error"].values[~measured] > 0).all()
    assert filled.coords["estimated_error"].attrs["units"] == "degC"
    direct = SpatialCompletion(**FIXED).fit(climate[1], climate[2], climate[3], MONTHS).complete()
    np.testing.assert_allclose(filled.values.T, direct)


def test_usual_names_are_found(array):
    named = array.rename(lat="latitude", lon="longitude", station="site", time="month")
    np.testing.assert_array_equal(spatial.complete(named, **FIXED), spatial.complete(array, "station", **FIXED))


def test_grids_are_stacked_and_unstacked():
    xr = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    lat, lon = np.arange(40.0, 30.0, -2), np.arange(-100.0, -88.0, 3)
    field = np.sin(lat / 5)[:, None, None] * rng.standard_normal(24) + np.cos(lon / 7)[:, None] * rng.standard_normal(
        24
    )
    values = field + 0.01 * rng.standard_normal(field.shape)
    values[rng.random((5, 4)) < 0.3] = np.nan
    da = xr.DataArray(values, dims=("lat", "lon", "time"), coords={"lat": lat, "lon": lon, "time": np.arange(24)})
    filled = spatial.complete(da, mask="all", normalisation="zscore", **FIXED)
    assert filled.dims == da.dims
    assert filled.lat.equals(da.lat)
    assert filled.estimated_error.shape == (5, 4, 24)
    assert np.sqrt(np.mean((filled.values - field) ** 2)) < 0.3 * field.std()


def test_netcdf_in_and_out(array, tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    source, target = tmp_path / "in.nc", tmp_path / "out.nc"
    data = array.to_dataset().assign_attrs(title="test")
    data.to_netcdf(source, engine="h5netcdf")
    used = spatial.complete_file(source, target, dim="station", **FIXED)
    assert used["rank"] == 3
    with xr.open_dataset(target, engine="h5netcdf") as out:
        assert out.attrs["title"] == "test"
        assert out["tas"].attrs["units"] == "degC"
        assert not np.isnan(out["tas"].values).any()
        assert out["tas_error"].dims == ("time", "station")
        np.testing.assert_allclose(out["tas"], spatial.complete(array, dim="station", **FIXED))
    with pytest.raises(InputError, match="no variable 'pr'"):
        spatial.complete_file(source, target, variable="pr", dim="station")
    with pytest.raises(InputError, match="no file"):
        spatial.complete_file(tmp_path / "none.nc", target)


def test_bad_arrays_are_named(array, climate):
    with pytest.raises(InputError, match="no dimension 'location'"):
        spatial.complete(array, dim="location")
    with pytest.raises(InputError, match="no coordinate lat or latitude"):
        spatial.complete(array.drop_vars("lat"))
    with pytest.raises(InputError, match="no coordinate 'latitude' among"):
        spatial.complete(array, dim="station", lat="latitude")
    with pytest.raises(InputError, match="'time' must run along"):
        spatial.complete(array, dim="station", lat="time")
    with pytest.raises(InputError, match="one dimension"):
        spatial.complete(array.expand_dims("level"), dim="station")
    with pytest.raises(InputError, match="DataArray, not Dataset"):
        spatial.complete(array.to_dataset(), dim="station")
    with pytest.raises(InputError, match="swapped"):
        spatial.complete(array.rename(lat="lon", lon="lat"), dim="station")
    _, values, lat, lon = climate
    for changed, message in (({"prior": "spline"}, "kernel, laplacian"), ({"normalisation": "x"}, "Unknown normal")):
        with pytest.raises(InputError, match=message):
            SpatialCompletion(**changed).fit(values, lat, lon, MONTHS)
    with pytest.raises(InputError, match="49 places"):
        SpatialCompletion().fit(values, lat[1:], lon[1:], MONTHS)
    with pytest.raises(InputError, match="single value"):
        SpatialCompletion().fit(values * np.nan, lat, lon, MONTHS)


def test_gas_beats_nearest_station(data_folder):
    """The paper's split of whole places: the kernel prior against the nearest station and the figures of kriging."""
    from lorank import MatrixCompletion
    from lorank.datasets import gas_anomalies, split_locations

    for variable, kriging in (("CO2", 0.263), ("H2", 0.161)):
        data = gas_anomalies(variable, data_folder)
        prior = KernelPrior.on_earth(data.latitude, data.longitude, kernel="matern32", length=3.0, nugget=1e-6)
        errors = []
        for seed in range(5):
            train, _, test = split_locations(125, seed=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = MatrixCompletion(rank=12, lam=0.001, row_side=prior, random_state=0)
                model.fit(data.observations(train))
            predicted = model.result_.factors.dense()[test]
            errors.append(np.sqrt(np.mean((predicted - data.values[test]) ** 2)))
        assert np.mean(errors) < kriging


def rain(seed=0):
    """Amounts at 40 places x 60 months that vary in proportion to their level, ten places never measured."""
    rng = np.random.default_rng(seed)
    lat, lon = rng.uniform(35, 45, 40), rng.uniform(-115, -100, 40)
    level = 2 + 0.8 * np.sin(lat / 2) + 0.5 * np.cos(2 * np.pi * np.arange(60) / 12)[:, None]
    weather = np.column_stack([np.sin(lat / 3), np.cos(lon / 4)]) @ rng.standard_normal((2, 60))
    truth = np.exp(level.T + 0.7 * weather + 0.2 * rng.standard_normal((40, 60)))
    values = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    values[30:] = np.nan
    return truth, values, lat, lon


def test_amounts_are_never_negative_and_go_by_their_roots():
    truth, values, lat, lon = rain()
    fixed = FIXED | {"nugget": 0.1, "lam": 1.0}
    model = SpatialCompletion(**fixed).fit(values, lat, lon, MONTHS)
    assert model.parameters_["normalisation"] == "roots"
    plain = SpatialCompletion("departures", **fixed).fit(values, lat, lon, MONTHS)
    missing = np.isnan(values)
    roots, departures = (np.sqrt(np.mean((m.predict() - truth)[missing] ** 2)) for m in (model, plain))
    assert roots < departures
    for fitted in (model, plain):
        assert fitted.predict().min() >= 0
        assert fitted.interval()[0].min() >= 0
        assert fitted.predict_at([40.0], [-108.0]).min() >= 0


def test_values_below_zero_stay_possible_where_the_data_are_no_amounts(climate):
    _, values, lat, lon = climate
    model = SpatialCompletion("departures", **FIXED).fit(values + 5, lat, lon, MONTHS)
    assert model.predict().min() < 0


def test_another_fit_of_the_same_object_answers_for_its_own_data(climate):
    _, values, lat, lon = climate
    model = SpatialCompletion("departures", **FIXED)
    first = model.fit(values, lat, lon, MONTHS).predict()
    model.interval()
    assert model.fit(values[:, :48], lat, lon, MONTHS[:48]).predict().shape == (50, 48)
    np.testing.assert_array_equal(model.fit(values, lat, lon, MONTHS).predict(), first)
