"""Climate data at stations: greenhouse gases (GAS) and the U.S. Historical Climatology Network (USHCN).

`gas` and `ushcn` read what was measured; `gas_anomalies` and `ushcn_anomalies` read the files that the
spatio-temporal literature passes around, in which season, trend and scale are already taken away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lorank.datasets import noaa
from lorank.datasets.location import Folder, Source, find, find_all
from lorank.datasets.stations import StationData, normalise
from lorank.errors import InputError
from lorank.tables.delimited import sniff

LITERATURE = "the code of Bahadori, Yu and Liu (https://github.com/Eng-RSMY/MultiSourceTemporal, folder data)"

GAS = Source(
    "GAS",
    ("NA-1990-2002-Monthly.csv", "NA-1990-2002-Monthly.csv.gz"),
    "https://viterbi-web.usc.edu/~liu32/data/NA-1990-2002-Monthly.csv",
)
GAS_ANOMALIES = Source("GAS as anomalies", ("gas_p17.mat", "climateP17.mat"), LITERATURE)
USHCN_HOME = "https://www.ncei.noaa.gov/pub/data/ushcn/v2.5/"
USHCN_STATIONS = Source(
    "The USHCN station list", ("ushcn-v2.5-stations.txt", "ushcn.v2.5.*/ushcn-v2.5-stations.txt"), USHCN_HOME
)
USHCN_ARRAYS = "ushcn_tavg_raw_1895_2016.npz"
USHCN_ANOMALIES = Source("USHCN as anomalies", ("ushcn_p3.mat", "climateP3.mat"), LITERATURE)

# Gases come in mole fractions; the meteorology is CRU TS 2.1, which stores whole numbers of these units.
GAS_UNITS = {
    "CO2": "ppm",
    **dict.fromkeys(("CH4", "CO", "H2"), "ppb"),
    **dict.fromkeys(("DTR", "TMN", "TMP", "TMX"), "0.1 degC"),
    **dict.fromkeys(("WET", "FRS"), "0.01 days"),
    "PRE": "0.1 mm",
    "VAP": "0.1 hPa",
    "CLD": "0.1 %",
}
# Element: (unit of the whole numbers in the files, unit of the values returned).
USHCN_UNITS = {"tavg": (0.01, "degC"), "tmax": (0.01, "degC"), "tmin": (0.01, "degC"), "prcp": (0.1, "mm")}

Element = Literal["tavg", "tmax", "tmin", "prcp"]


def gas(
    variable: str = "CO2",
    folder: Folder | None = None,
    normalisation: str = "none",
    months: int | None = 144,
) -> StationData:
    """Monthly greenhouse gases and weather at 125 locations of North America.

    From `NA-1990-2002-Monthly.csv`, also as .gz.

    Parameters
    ----------
    variable : a column of the file: CO2, CH4, CO, H2, WET, CLD, VAP, PRE, FRS, DTR, TMN, TMP, TMX, GLO, ETR,
        ETRN, DIR, UV.
    folder : where the file is; see `lorank.datasets.location`.
    normalisation : a name such as "none", "zscore-rows" or "anomalies-trend"; see `normalise`. It sees only the months
        asked for.
    months : how many from January 1990; the paper's 1990-2001 are 144, None is all 156.

    References
    ----------
    A. C. Lozano et al., "Spatial-temporal causal modeling for climate change attribution", KDD 2009.
    """
    path = find(GAS, folder)
    table = sniff(path, ",", header=True)
    names = list(table.columns)
    _check_variable(variable, names[4:])
    if names[:4] != ["YEAR", "MONTH", "LAT", "LONG"]:
        raise InputError(f"{path.name} must begin with the columns YEAR, MONTH, LAT, LONG; it has {names[:4]}.")
    types = {0: np.int64, 1: np.int64, 2: np.float64, 3: np.float64, names.index(variable): np.float64}
    batches = [[column.to_numpy(zero_copy_only=False) for column in batch.columns] for batch in table.batches(types)]
    if not batches:
        raise InputError(f"{path} has a header and no lines; get the file again.")
    year, month_of_year, lat, lon, value = (np.concatenate(column) for column in zip(*batches))
    # Locations keep the order in which they come, which is that of `gas_anomalies`.
    pairs, first, location = np.unique(np.column_stack([lat, lon]), axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    pairs, location = pairs[np.argsort(first)], rank[location.reshape(-1)]
    month = (year - 1970) * 12 + month_of_year - 1
    start, end = int(month.min()), int(month.max())
    values = np.full((len(pairs), end - start + 1), np.nan)
    if np.unique(location * values.shape[1] + month - start).size < value.size:
        raise InputError(f"{path.name} has two lines for the same location and month; get the file again.")
    values[location, month - start] = value
    station = np.array([f"{lat:g},{lon:g}" for lat, lon in pairs])
    time = np.arange(start, end + 1).astype("datetime64[M]")
    units = GAS_UNITS.get(variable, "as in the file")
    measured = StationData(values, pairs[:, 0].copy(), pairs[:, 1].copy(), station, time, variable, units)
    return normalise(measured.first(months), normalisation)


def gas_anomalies(variable: str = "CO2", folder: Folder | None = None, months: int | None = 144) -> StationData:
    """GAS as the spatio-temporal literature uses it: 125 locations, 17 variables (no UV), nothing missing.

    From `gas_p17.mat`, which its authors call `climateP17.mat`. Values are anomalies, in standard
    deviations of each location over all 156 months. Parameters as for `gas`.

    References
    ----------
    M. T. Bahadori, Q. R. Yu and Y. Liu, "Fast multivariate spatio-temporal analysis via low rank tensor
    learning", NIPS 2014.
    """
    content = _load_mat(find(GAS_ANOMALIES, folder))
    values = _series(content["series"], content["names"], variable)
    latitude, longitude = np.array(content["locations"], dtype=np.float64).T
    station = np.array([f"{lat:g},{lon:g}" for lat, lon in zip(latitude, longitude)])
    time = np.datetime64("1990-01") + np.arange(values.shape[1])
    data = StationData(values, latitude, longitude, station, time, variable, "standard deviations")
    return data.first(months)


def ushcn(
    variable: Element = "tavg", folder: Folder | None = None, version: Literal["raw", "adjusted"] = "raw"
) -> StationData:
    """Monthly temperature or precipitation at up to 1,218 stations of the United States, version 2.5.

    Read from NOAA's own files, of which it takes the first that are there: one for each station
    (`*.raw.tavg`, `*.FLs.52j.tavg`) in the folder or in a folder `ushcn.v2.5.*` of it, or the archive
    (`ushcn.tavg.latest.raw.tar.gz`); the station list must be beside them. For raw tavg also from the array
    file `ushcn_tavg_raw_1895_2016.npz`.

    Parameters
    ----------
    variable : tavg, tmax, tmin (means of the month, degC) or prcp (sum of the month, mm).
    folder : where the files are; see `lorank.datasets.location`.
    version : as measured, or adjusted by NOAA for changes of station, instrument and hour. Values that failed
        quality control, and those that NOAA estimated from neighbours, are missing in both.

    References
    ----------
    M. J. Menne, C. N. Williams and R. S. Vose, "The U.S. Historical Climatology Network monthly temperature
    data, version 2", BAMS 90, 2009.
    """
    _check_variable(variable, list(USHCN_UNITS))
    kind = "raw" if version == "raw" else "FLs.52?"
    patterns = [
        f"*.{kind}.{variable}",
        f"ushcn.v2.5.*/*.{kind}.{variable}",
        f"ushcn.{variable}.*.{kind}.tar.gz",
    ]
    if (variable, version) == ("tavg", "raw"):
        patterns.append(USHCN_ARRAYS)
    found = find_all(Source(f"USHCN {version} {variable}", tuple(patterns), USHCN_HOME), folder)
    factor, units = USHCN_UNITS[variable]
    if found[-1].name == USHCN_ARRAYS:
        return _ushcn_arrays(found[-1])
    # Two versions may lie side by side; only the last is read, for each holds all stations.
    newest = [path for path in found if path.parent == found[-1].parent]
    if newest[-1].name.endswith(".tar.gz"):
        newest = newest[-1:]
    years = [noaa.read_years(lines, name, factor) for name, lines in noaa.data_files(newest, f".{variable}")]
    if not sum(part.year.size for part in years):
        raise InputError(f"{newest[-1]} holds no data of {variable}; get it again from {USHCN_HOME}.")
    stations, time, values = noaa.by_month(noaa.read_stations(find(USHCN_STATIONS, folder)), years)
    where = stations.latitude, stations.longitude, stations.station
    return StationData(values, *where, time, variable, units, stations.elevation)


def ushcn_anomalies(variable: Literal["prcp", "tmax", "tmin"] = "prcp", folder: Folder | None = None) -> StationData:
    """USHCN as the spatio-temporal literature uses it: 108 stations, 1915-2000, nothing missing.

    From `ushcn_p3.mat`, which its authors call `climateP3.mat`. Values are anomalies in standard deviations.
    Parameters as for `ushcn`; source as for `gas_anomalies`.
    """
    content = _load_mat(find(USHCN_ANOMALIES, folder))
    values = _series(content["series"], content["order"], variable)
    number, latitude, longitude = np.array(content["names"], dtype=np.float64).T
    station = np.array([f"USH{int(coop):08d}" for coop in number])
    time = np.datetime64(f"{int(content['years'].min())}-01") + np.arange(values.shape[1])
    return StationData(values, latitude, longitude, station, time, variable, "standard deviations")


def _ushcn_arrays(path: Path) -> StationData:
    with np.load(path) as arrays:
        values = np.where(arrays["qc_flagged"], np.nan, arrays["tavg_c"]).astype(np.float64)
        start = np.datetime64(f"{arrays['year'][0]}-{arrays['month'][0]:02d}")
        return StationData(
            # Stored as float32; two decimals are what was measured.
            np.round(values, 2),
            arrays["lat"],
            arrays["lon"],
            arrays["station"],
            start + np.arange(values.shape[1]),
            "tavg",
            "degC",
            arrays["elev"].astype(np.float64) if "elev" in arrays else None,
        )


def _load_mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    content: dict[str, Any] = loadmat(path)
    return content


def _series(cells: npt.NDArray[Any], names: npt.NDArray[Any], variable: str) -> npt.NDArray[np.float64]:
    """The matrix called `variable` in a MATLAB cell array of matrices, whose names are in another."""
    known = [str(name[0]) for name in names.ravel()]
    _check_variable(variable, known)
    return np.array(cells.ravel()[known.index(variable)], dtype=np.float64)


def _check_variable(variable: str, known: list[str]) -> None:
    if variable not in known:
        raise InputError(f"There is no variable {variable!r}; choose one of {', '.join(known)}.")
