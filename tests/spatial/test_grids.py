"""Grids with gaps: land stays, clouds are filled, blocks are the whole, files keep what they had."""

import gc
import json

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from lorank import spatial
from lorank.errors import InputError
from lorank.spatial import GridCompletion, gaps, grids
from lorank.spatial.gaps import Regression, Smoothing, hide_gaps, lend_gaps

GIVEN = {"rank": 4, "lam": 1.0, "theta": 1.0, "time_length": 3.0}


NOISE = 0.05


def surface(seed):
    """80 times x 24 x 30: three patterns, an eddy field, noise; clouds of a third, land in a corner."""
    rng = np.random.default_rng(seed)
    n, shape = 80, (24, 30)
    patterns = np.stack([gaussian_filter(rng.standard_normal(shape), 5, mode="wrap") for _ in range(3)])
    patterns /= patterns.std(axis=(1, 2), keepdims=True)
    series = gaussian_filter(rng.standard_normal((n, 3)), (2, 0))
    eddies = gaussian_filter(rng.standard_normal((n, *shape)), (1.5, 2, 2))
    truth = 15 + np.einsum("tk,kyx->tyx", series / series.std(axis=0), patterns) + 0.4 * eddies / eddies.std()
    seen = truth + NOISE * rng.standard_normal(truth.shape)
    clouds = gaussian_filter(rng.standard_normal(truth.shape), (0, 4, 4))
    seen[clouds / clouds.std() > rng.normal(0.4, 0.5, n)[:, None, None]] = np.nan
    seen[:, :6, :8] = np.nan
    return truth, seen


@pytest.fixture(scope="module")
def sea():
    return surface(0)


def test_gaps_are_filled_and_land_is_not(sea):
    truth, seen = sea
    filled, deviation = GridCompletion(**GIVEN).fit(seen).complete()
    land = np.zeros(seen.shape[1:], bool)
    land[:6, :8] = True
    assert np.isnan(filled[:, land]).all()
    assert np.isnan(deviation[:, land]).all()
    clouds = np.isnan(seen) & ~land
    miss = (filled - truth)[clouds]
    plain, _ = GridCompletion(**GIVEN, smoothing=(0, 0, 1)).fit(seen).complete()
    alone = np.sqrt(np.mean((plain - truth)[clouds] ** 2))
    assert np.sqrt(np.mean(miss**2)) < 0.9 * alone, "residuals are smooth here"
    mean = np.nanmean(np.where(land, 0, seen), axis=0)
    assert np.sqrt(np.mean(miss**2)) < 0.4 * np.sqrt(np.mean((mean - truth)[clouds] ** 2))
    np.testing.assert_allclose(filled[~np.isnan(seen)], seen[~np.isnan(seen)], rtol=1e-6)
    assert (deviation[~np.isnan(seen)] == 0).all()


def test_deviations_are_as_large_as_errors():
    """90% of what clouds hide lie within 1.645 deviations, up to sampling: errors at one time are alike, so that times
    are counted, those that are hidden by clouds and those on which deviations were learnt."""
    excess, count = [], 0
    for seed in range(4):
        truth, seen = surface(seed)
        filled, deviation = GridCompletion(**GIVEN | {"rank": 12}).fit(seen).complete()
        clouds = np.isnan(seen) & ~np.isnan(deviation)
        miss = filled - truth - NOISE * np.random.default_rng(seed + 100).standard_normal(truth.shape)
        excess.append(np.where(clouds, (np.abs(miss) < 1.645 * deviation) - 0.9, 0).sum(axis=(1, 2)))
        count += clouds.sum()
    error = np.linalg.norm(excess) / count * np.sqrt(1 + 1 / (gaps.REPEATS * gaps.HIDDEN))
    assert abs(np.sum(excess) / count) < 3 * error
    assert error < 0.02, "a test that tells little"


def test_blocks_are_the_whole(sea, monkeypatch):
    """A halo makes the smoothing of a block that of the whole grid, and only slices are read."""

    class Slices:
        shape = sea[1].shape
        largest = 0

        def __getitem__(self, parts):
            found = sea[1][parts]
            Slices.largest = max(Slices.largest, found.size)
            return found

    given = GIVEN | {"smoothing": (1.0, 1.0, 1.0)}
    whole = GridCompletion(**given).fit(sea[1]).complete()
    model = GridCompletion(**given).fit(Slices())
    monkeypatch.setattr(grids, "BLOCK_BYTES", 60 * 80 * 17**2)
    Slices.largest = 0
    blocks = model.complete()
    assert Slices.largest < sea[1].size
    for one, other in zip(whole, blocks):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_cell_is_its_own_ridge_regression():
    rng = np.random.default_rng(1)
    R, x = rng.standard_normal((20, 3)), rng.standard_normal((4, 20))
    x[rng.random(x.shape) < 0.3] = np.nan
    precision = np.diag([1.0, 2.0, 3.0])
    centre = np.array([1.0, 0.0, -1.0])
    found = Regression(R, centre, precision, 0.5).predict(x)
    for i in range(4):
        seen = ~np.isnan(x[i])
        A = R[seen].T @ R[seen] / 0.5 + precision
        expected = R @ np.linalg.solve(A, R[seen].T @ x[i, seen] / 0.5 + precision @ centre)
        np.testing.assert_allclose(found[i], expected, atol=1e-10)


def test_smoothing_is_a_weighted_mean():
    residual = np.full((5, 9, 9), np.nan)
    residual[2, 4, 4], residual[2, 4, 6] = 1.0, 3.0
    smoothed, known = Smoothing(1.0, 0.5, 0.0).apply(residual)
    assert smoothed[2, 4, 5] == pytest.approx(2.0, abs=1e-5)
    assert known[2, 4, 5] == pytest.approx(1.0)
    shrunk, known = Smoothing(1.0, 0.5, 2.0).apply(residual)
    assert 0 < shrunk[2, 4, 5] < 1.5
    assert 0 < known[2, 4, 5] < 1
    assert not Smoothing(0.0, 0.0, 1.0).apply(residual)[0].any()


def test_hidden_gaps_are_those_of_other_times(sea, monkeypatch):
    monkeypatch.setattr(gaps, "HIDDEN", 0.3)
    missing = np.isnan(sea[1])
    lent = lend_gaps(sea[1], np.random.default_rng(0))
    judged = np.concatenate([pairs[:, 0] for pairs in lent])
    assert len(set(judged)) == len(judged) == 40, "no time twice, the clearer half at most"
    pairs = lent[0]
    hidden = hide_gaps(sea[1], pairs)
    assert not (hidden & missing).any()
    assert set(np.flatnonzero(hidden.any(axis=(1, 2)))) <= set(pairs[:, 0])
    for t, lender in pairs:
        np.testing.assert_array_equal(hidden[t], ~missing[t] & missing[lender])
    part = hide_gaps(sea[1][:, 3:9, 5:20], pairs)
    np.testing.assert_array_equal(part, hidden[:, 3:9, 5:20])
    assert not lend_gaps(np.zeros((3, 2, 2)), np.random.default_rng(0))[0].size, "a grid without gaps has none to lend"


@pytest.fixture
def dataset(sea):
    xr = pytest.importorskip("xarray")
    y, x = np.mgrid[0:24, 0:30]
    about = {"units": "degC", "standard_name": "sea_surface_temperature"}
    dates = np.datetime64("2001-01-01", "ns") + np.arange(80) * np.timedelta64(5, "D")
    return xr.Dataset(
        {"sst": (("y", "t", "x"), sea[1].transpose(1, 0, 2), about)},
        coords={
            "t": ("t", dates, {"standard_name": "time"}),
            "nav_lat": (("y", "x"), 40 + 0.1 * y + 0.01 * x, {"units": "degrees_north"}),
            "nav_lon": (("y", "x"), 0.1 * x - 0.01 * y, {"units": "degrees_east"}),
        },
        attrs={"history": "made up"},
    )


def test_curvilinear_grids_are_found_by_their_attributes(sea, dataset):
    filled = spatial.complete(dataset["sst"], **GIVEN)
    assert filled.dims == ("y", "t", "x")
    assert filled.estimated_error.attrs["standard_name"] == "sea_surface_temperature standard_error"
    direct, _ = GridCompletion(**GIVEN).fit(sea[1], dataset["t"].values).complete()
    np.testing.assert_allclose(filled.transpose("t", "y", "x").values, direct, rtol=1e-5)
    mask = dataset["nav_lat"] > 41
    masked = spatial.complete(dataset["sst"], mask=mask, **GIVEN)
    assert np.isnan(masked.transpose("t", "y", "x").values[:, ~mask.values]).all()
    with pytest.raises(InputError, match="without covariates"):
        spatial.complete(dataset["sst"], covariates=["nav_lat"], **GIVEN)


def test_levels_and_dask(sea, dataset):
    pytest.importorskip("dask")
    import xarray as xr

    twice = xr.concat([dataset["sst"], dataset["sst"] + 5], "depth").chunk({"t": 40, "y": 12})
    filled = spatial.complete(twice, **GIVEN, smoothing=(1.0, 0.5, 3.0))
    assert filled.dims == twice.dims
    first, second = filled.isel(depth=0).values, filled.isel(depth=1).values
    np.testing.assert_allclose(first + 5, second, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_files_stay_packed_and_say_what_was_done(dataset, tmp_path, suffix):
    import xarray as xr

    pytest.importorskip("h5netcdf" if suffix == ".nc" else "zarr")
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    packed = {"sst": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}}
    if suffix == ".nc":
        dataset.to_netcdf(source, engine="h5netcdf", encoding=packed)
    else:
        dataset.to_zarr(source, encoding=packed, consolidated=False)
    used = spatial.complete_file(source, target, **GIVEN, smoothing=(1.0, 0.5, 3.0))
    assert used["rank"] == 4
    assert used["filled"] == int(np.isnan(dataset["sst"].values).sum()) - 80 * 48
    with (
        xr.open_dataset(target, engine="h5netcdf")
        if suffix == ".nc"
        else xr.open_zarr(target, consolidated=False) as out
    ):
        assert out["sst"].encoding["dtype"] == np.int16
        assert out["sst"].encoding["scale_factor"] == 0.01
        assert out["sst"].attrs["ancillary_variables"] == "sst_error"
        assert out.attrs["history"].endswith("made up")
        assert f"filled {used['filled']} of {dataset['sst'].size} values of sst" in out.attrs["history"]
        assert out["sst_error"].dims == ("y", "t", "x")
        before, after = dataset["sst"].values, out["sst"].values
        np.testing.assert_allclose(after[~np.isnan(before)], before[~np.isnan(before)], atol=0.0051)
        assert np.isnan(after).sum() == 80 * 48, "land stays missing"


def test_a_zarr_store_takes_the_place_of_nothing_but_a_store(tmp_path):
    pytest.importorskip("zarr")
    import xarray as xr

    from lorank.spatial import arrays

    data = xr.Dataset({"t": (("place", "time"), np.ones((3, 4)))})
    target = tmp_path / "a.zarr"
    target.mkdir()
    (target / "thesis.txt").write_text("all my work")
    with pytest.raises(InputError, match="exists and is not a Zarr store"):
        arrays._written(data, target)
    assert (target / "thesis.txt").read_text() == "all my work"
    (target / "thesis.txt").unlink()
    arrays._written(data, target)
    arrays._written(data + 1, target)  # a store is replaced
    (target / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds also notes.txt"):
        arrays._written(data, target)
    (target / "notes.txt").unlink()
    assert arrays.open_file(target)["t"].values.tolist() == [[2.0] * 4] * 3
    (tmp_path / "b.zarr").write_text("a file")
    with pytest.raises(InputError, match="is a file"):
        arrays._written(data, tmp_path / "b.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.zarr"]


@pytest.mark.parametrize("where", [".zarray", ".zmetadata", "zarr.json"])
def test_a_zarr_store_with_pickled_objects_is_not_read(tmp_path, where):
    pytest.importorskip("xarray")
    from lorank.spatial import arrays

    store = tmp_path / "a.zarr" if where == ".zmetadata" else tmp_path / "a.zarr" / "t"
    store.mkdir(parents=True)
    (store / where).write_text('{"x": [{"filters": [{"\\u0069d": "pick\\u006ce"}]}]}')
    with pytest.raises(InputError, match="holds pickled objects"):
        arrays.open_file(tmp_path / "a.zarr")


@pytest.mark.parametrize("number", [2, 3])
def test_a_zarr_store_with_damaged_arrays_is_refused_without_a_traceback(tmp_path, caplog, number):
    """Zarr dropped an array whose description lacks a field, and logged what went wrong with one beside another."""
    pytest.importorskip("zarr")
    import xarray as xr

    from lorank.spatial import arrays

    store = tmp_path / "a.zarr"
    data = xr.Dataset({name: ("place", np.ones(3)) for name in "abcd"})
    data.to_zarr(store, zarr_format=number, consolidated=False)
    assert sorted(arrays.open_file(store)) == list("abcd")
    described = ".zarray" if number == 2 else "zarr.json"
    (store / "b" / described).write_text(json.dumps({"zarr_format": number, "node_type": "array"}))
    with pytest.raises(InputError, match="is damaged or not Zarr"):
        arrays.open_file(store)
    for name in "acd":
        (store / name / described).write_text('{"zarr_format": [], "node_type": []}')
    with pytest.raises(InputError, match="is damaged or not Zarr"):
        arrays.open_file(store)
    gc.collect()
    assert not caplog.records
