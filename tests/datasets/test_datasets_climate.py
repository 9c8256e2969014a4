import gzip
import io
import tarfile

import numpy as np
import pytest
import scipy.io

from lorank import datasets
from lorank.datasets import StationData
from lorank.errors import InputError
from lorank.spatial.normalisation import Normalisation

HEADER = "YEAR,MONTH,LAT,LONG,CO2,UV"
# The second place comes first in alphabetical order of its numbers: order of appearance must win.
GAS = [
    "1990,1,40.5,-100.25,350.5,1",
    "1990,2,40.5,-100.25,351,NA",
    "1990,3,40.5,-100.25,352,3",
    "1990,1,30.5,-90.25,360,4",
    "1990,3,30.5,-90.25,362,6",
]


def write_gas(folder, lines, end="\r\n"):
    (folder / "NA-1990-2002-Monthly.csv").write_text(end.join([HEADER, *lines, ""]), newline="")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_gas_from_csv(tmp_path, end):
    write_gas(tmp_path, [*GAS, ""], end)
    data = datasets.gas("CO2", tmp_path)
    np.testing.assert_array_equal(data.values, [[350.5, 351, 352], [360, np.nan, 362]])
    assert data.latitude.tolist() == [40.5, 30.5]
    assert data.longitude.tolist() == [-100.25, -90.25]
    assert data.station.tolist() == ["40.5,-100.25", "30.5,-90.25"]
    assert data.time.astype(str).tolist() == ["1990-01", "1990-02", "1990-03"]
    assert (data.variable, data.units) == ("CO2", "ppm")
    np.testing.assert_array_equal(datasets.gas("UV", tmp_path).values, [[1, np.nan, 3], [4, np.nan, 6]])


def test_gas_from_gz_and_fewer_months(tmp_path):
    with gzip.open(tmp_path / "NA-1990-2002-Monthly.csv.gz", "wt") as stream:
        stream.write("\n".join([HEADER, *GAS]))
    data = datasets.gas("CO2", tmp_path, months=2)
    np.testing.assert_array_equal(data.values, [[350.5, 351], [360, np.nan]])
    assert data.time.size == 2


def test_gas_names_what_is_wrong(tmp_path):
    write_gas(tmp_path, GAS)
    with pytest.raises(InputError, match="no variable 'CH4'; choose one of CO2, UV"):
        datasets.gas("CH4", tmp_path)
    write_gas(tmp_path, [*GAS, "1990,4,30.5,-90.25,oops,6"])
    with pytest.raises(InputError, match=r"Line 7 of .*NA-1990-2002-Monthly.csv has 'oops' in column 'CO2'"):
        datasets.gas("CO2", tmp_path)
    write_gas(tmp_path, [*GAS, GAS[0]])
    with pytest.raises(InputError, match="same location and month"):
        datasets.gas("CO2", tmp_path)
    with pytest.raises(InputError, match="Unknown normalisation 'log'"):
        datasets.normalise(example(), "log")


def cell(*items):
    cells = np.empty((len(items), 1), object)
    cells[:, 0] = items
    return cells


def test_gas_anomalies_from_mat(tmp_path):
    first, second = np.arange(10.0).reshape(2, 5), -np.arange(10.0).reshape(2, 5)
    content = {"series": cell(first, second), "names": cell("CO2", "H2"), "locations": [[40.5, -100], [30, -90]]}
    scipy.io.savemat(tmp_path / "gas_p17.mat", content)
    data = datasets.gas_anomalies("H2", tmp_path, months=4)
    np.testing.assert_array_equal(data.values, second[:, :4])
    assert data.longitude.tolist() == [-100, -90]
    assert str(data.time[-1]) == "1990-04"
    with pytest.raises(InputError, match="no variable 'UV'"):
        datasets.gas_anomalies("UV", tmp_path)


def test_ushcn_anomalies_from_mat(tmp_path):
    names = [[990002, 40.5, -120.5], [99001, 31.5, -87.5]]
    series = cell(*(np.full((2, 24), float(which)) for which in range(3)))
    years = np.array([[1915], [1916]], np.uint16)
    content = {"series": series, "order": cell("prcp", "tmax", "tmin").T, "names": names, "years": years}
    scipy.io.savemat(tmp_path / "ushcn_p3.mat", content)
    data = datasets.ushcn_anomalies("tmin", tmp_path)
    assert (data.values == 2).all()
    assert data.station.tolist() == ["USH00990002", "USH00099001"]
    assert data.time[[0, -1]].astype(str).tolist() == ["1915-01", "1916-12"]


# Invented stations, in NOAA's columns.
STATIONS = """\
USH00990001  31.1000  -87.2000   25.9 AL FIRST PLACE                    ------ ------ ------ +6
USH00990002  30.3000  -87.4000    7.0 AL SECOND PLACE                   ------ ------ ------ +6
USH00990003  32.5000  -88.6000   38.1 AL THIRD PLACE                    990009 ------ ------ +6
"""


def year_line(station, year, values, flags=()):
    """A line as NOAA writes it: value in six characters, then DMFLAG, QCFLAG, DSFLAG."""
    flag = {**dict.fromkeys(range(12), "   "), **dict(flags)}
    return f"{station} {year}" + "".join(f"{value:6d}{flag[month]}" for month, value in enumerate(values))


FILES = {
    "USH00990003": [
        year_line("USH00990003", 1901, [-1234, -9999, 500, 600, *range(8)], {2: " S ", 3: "a 6", 11: "  1"})
    ],
    "USH00990001": [
        year_line("USH00990001", 1900, range(100, 112), {0: "E  ", 1: " A "}),
        year_line("USH00990001", 1901, range(200, 212)).rstrip(),
    ],
}


def check_ushcn(data):
    assert data.station.tolist() == ["USH00990001", "USH00990003"]
    assert data.latitude.tolist() == [31.1, 32.5]
    assert data.longitude.tolist() == [-87.2, -88.6]
    assert data.time[[0, -1]].astype(str).tolist() == ["1900-01", "1901-12"]
    assert data.units == "degC"
    np.testing.assert_allclose(data.values[0], [np.nan, *np.arange(101, 112), *np.arange(200, 212)] / np.float64(100))
    np.testing.assert_allclose(data.values[1], [np.nan] * 12 + [-12.34, np.nan, np.nan, 6, *(np.arange(8) / 100)])


def write_station_files(folder, ending):
    folder.mkdir(exist_ok=True)
    for station, lines in FILES.items():
        (folder / f"{station}.{ending}").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("subfolder", [".", "ushcn.v2.5.5.20191231"])
def test_ushcn_from_station_files(tmp_path, subfolder):
    (tmp_path / "ushcn-v2.5-stations.txt").write_text(STATIONS)
    write_station_files(tmp_path / subfolder, "raw.tavg")
    check_ushcn(datasets.ushcn(folder=tmp_path))


def test_ushcn_reads_one_version_only_the_newest(tmp_path):
    (tmp_path / "ushcn-v2.5-stations.txt").write_text(STATIONS)
    write_station_files(tmp_path / "ushcn.v2.5.5.20181231", "FLs.52j.tmin")
    write_station_files(tmp_path / "ushcn.v2.5.5.20191231", "FLs.52j.tmin")
    check_ushcn(datasets.ushcn("tmin", tmp_path, version="adjusted"))


def test_ushcn_from_one_file_of_all_stations_with_crlf(tmp_path):
    (tmp_path / "ushcn-v2.5-stations.txt").write_text(STATIONS.replace("\n", "\r\n") + "\r\n", newline="")
    lines = [line for station in FILES.values() for line in station]
    (tmp_path / "all.raw.tavg").write_text("\r\n".join([*lines, "", ""]), newline="")
    check_ushcn(datasets.ushcn(folder=tmp_path))


def test_ushcn_from_noaas_archive(tmp_path):
    (tmp_path / "ushcn-v2.5-stations.txt").write_text(STATIONS)
    with tarfile.open(tmp_path / "ushcn.tavg.latest.raw.tar.gz", "w:gz") as archive:
        for station, lines in FILES.items():
            content = "\n".join(lines).encode()
            member = tarfile.TarInfo(f"ushcn.v2.5.5.20191231/{station}.raw.tavg")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    check_ushcn(datasets.ushcn(folder=tmp_path))


def test_ushcn_precipitation_is_in_millimetres(tmp_path):
    (tmp_path / "ushcn-v2.5-stations.txt").write_text(STATIONS)
    (tmp_path / "USH00990002.raw.prcp").write_text(year_line("USH00990002", 1950, [1234] * 12))
    data = datasets.ushcn("prcp", tmp_path)
    np.testing.assert_allclose(data.values, 123.4)
    assert data.units == "mm"


def test_ushcn_names_what_is_wrong(tmp_path):
    (tmp_path / "ushcn-v2.5-stations.txt").write_text(STATIONS)
    path = tmp_path / "a.raw.tavg"
    good = FILES["USH00990001"]
    path.write_text("\n".join([*good, "", good[0].replace("   100", "   1x0")]))
    with pytest.raises(InputError, match=r"Line 4 of a.raw.tavg is 'USH00990001 1900   1x0"):
        datasets.ushcn(folder=tmp_path)
    path.write_text(good[0][:60])
    with pytest.raises(InputError, match=r"Line 1 of a.raw.tavg"):
        datasets.ushcn(folder=tmp_path)
    path.write_text(good[0] + "\n" + good[0])
    with pytest.raises(InputError, match="USH00990001 has two lines for 1900"):
        datasets.ushcn(folder=tmp_path)
    path.write_text(good[0].replace("USH00990001", "USH00099999"))
    with pytest.raises(InputError, match="USH00099999 has data but is not in the station list"):
        datasets.ushcn(folder=tmp_path)
    with pytest.raises(InputError, match="no variable 'snow'"):
        datasets.ushcn("snow", tmp_path)
    path.write_text("\n")
    with pytest.raises(InputError, match="holds no data"):
        datasets.ushcn(folder=tmp_path)


def test_ushcn_from_arrays_drops_flagged_values(tmp_path):
    np.savez(
        tmp_path / "ushcn_tavg_raw_1895_2016.npz",
        tavg_c=np.array([[1.5, 2.25, np.nan]], np.float32),
        qc_flagged=np.array([[False, True, False]]),
        station=["USH00990001"],
        lat=[31.0],
        lon=[-87.0],
        year=np.array([1895, 1895, 1895], np.int16),
        month=np.array([1, 2, 3], np.int8),
    )
    data = datasets.ushcn(folder=tmp_path)
    np.testing.assert_array_equal(data.values, [[1.5, np.nan, np.nan]])
    assert data.time.astype(str).tolist() == ["1895-01", "1895-02", "1895-03"]


def example(months=60, missing=0.2):
    rng = np.random.default_rng(0)
    values = 10 * rng.standard_normal((4, months)) + 280
    values[rng.random(values.shape) < missing] = np.nan
    values[2] = np.nan
    values[3] = 7.3
    time = np.datetime64("1990-03") + np.arange(months)
    return StationData(values, np.arange(4.0), np.arange(4.0), np.array(list("abcd")), time, "T", "K")


def test_zscore_of_each_station():
    data = example()
    scaled = datasets.normalise(data, "zscore-rows")
    np.testing.assert_allclose(np.nanmean(scaled.values[:2], axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(scaled.values[:2], axis=1), 1)
    np.testing.assert_array_equal(np.isnan(scaled.values), np.isnan(data.values))
    np.testing.assert_allclose(scaled.values[3], 0, atol=1e-12)
    assert scaled.units == "standard deviations"
    assert datasets.normalise(data, "none") is data


def test_anomalies_are_the_joint_least_squares_residual():
    data = example()
    scaled = datasets.normalise(data, "anomalies-trend")
    month = data.time.astype(int)
    design = np.column_stack([month % 12 == which for which in range(12)] + [month - month.mean()]).astype(float)
    for row in (0, 1):
        seen = ~np.isnan(data.values[row])
        fit = np.linalg.lstsq(design[seen], data.values[row, seen], rcond=None)[0]
        residual = data.values[row, seen] - design[seen] @ fit
        np.testing.assert_allclose(scaled.values[row, seen], residual / residual.std(), atol=1e-9)
    assert np.isnan(scaled.values[2]).all()
    np.testing.assert_allclose(scaled.values[3], 0, atol=1e-12)


def test_names_mean_the_same_as_in_spatial():
    data = example()
    for name in ("zscore", "zscore-rows", "anomalies-trend"):
        fitted = Normalisation.fit(data.values, name, data.time)
        ratio = datasets.normalise(data, name).values[:2] / fitted.apply(data.values)[:2]
        # A row's own constant: the plain deviation beside the one by degrees of freedom.
        assert np.nanmax(ratio, axis=1) == pytest.approx(np.nanmin(ratio, axis=1))
        assert 1 <= np.nanmin(ratio) < 1.2


def test_a_station_with_too_few_values_has_none_left():
    data = example()
    data.values[0, 5:] = np.nan
    scaled = datasets.normalise(data, "anomalies-trend")
    assert np.isnan(scaled.values[0]).all()
    assert np.isfinite(scaled.values[1]).any()


def test_observations_of_some_stations_keep_all_rows():
    data = example()
    observed = data.observations([0, 3])
    assert observed.shape == data.values.shape
    assert set(observed.rows.tolist()) == {0, 3}
    assert observed.nnz == (~np.isnan(data.values[[0, 3]])).sum()
    assert data.observations().nnz == (~np.isnan(data.values)).sum()
    np.testing.assert_array_equal(observed.values, data.values[observed.rows, observed.cols])
    assert observed.row_ids.values.tolist() == list("abcd")
