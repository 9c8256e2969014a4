"""Stations in degrees: never seen, or with a tenth of their months, with and without elevation, beside pykrige.

Every method gets the values that are seen, and must return the unit in which they came: level, season and weather.
Peers krige every seventh month, with the variogram that pykrige fits to it; all methods are judged at these months.
Each result is kept (`climate_records`), and a run goes on where another ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from climate_records import Records, table

from lorank.datasets import StationData, gas, mountain_stations, ushcn, ushcn_anomalies
from lorank.spatial import SpatialCompletion

# Months between those that are kriged and judged; of so many stations or more, fewer are.
STEP, FEWER, MANY = 7, 21, 1000
WEST = ("AZ", "CA", "CO", "ID", "MT", "NM", "NV", "OR", "UT", "WA", "WY")


@dataclass(frozen=True)
class Case:
    """Data with everything, what of it is seen, and masks of the two kinds of values that are not."""

    data: StationData
    seen: np.ndarray
    never: np.ndarray
    hidden: np.ndarray

    @property
    def plane(self) -> np.ndarray:
        """East and north in km: pykrige's kriging with drift knows no sphere."""
        lat, lon = self.data.latitude, self.data.longitude
        return 111.2 * np.column_stack([lon * np.cos(np.radians(lat.mean())), lat])

    @property
    def height(self) -> np.ndarray:
        """In km."""
        return self.data.elevation / 1000


def split(data: StationData, seed: int) -> Case:
    """30% of the stations never seen, nine tenths of the months of another 20% hidden."""
    rng = np.random.default_rng(seed)
    there = ~np.isnan(data.values)
    order = rng.permutation(len(there))
    never, few = np.split(order, np.round([0.3 * len(order), 0.5 * len(order)]).astype(int))[:2]
    masks = np.zeros((2, *there.shape), bool)
    masks[0][never] = there[never]
    masks[1][few] = there[few] & (rng.random(there.shape) > 0.1)[few]
    return Case(data, np.where(masks.any(axis=0), np.nan, data.values), masks[0], masks[1])


def western_stations(folder: Path, months: int = 1236) -> StationData:
    """USHCN temperature of the mountainous West: 371 stations, 0 to 2763 m."""
    data = all_stations(folder, months)
    with np.load(folder / "ushcn_tavg_raw_1895_2016.npz") as arrays:
        chosen = np.isin(arrays["state"], WEST)
    rows = {name: getattr(data, name)[chosen] for name in ("values", "latitude", "longitude", "station", "elevation")}
    return replace(data, **rows)


def all_stations(folder: Path, months: int = 1236) -> StationData:
    """All 1,218 stations of USHCN temperature."""
    data = ushcn("tavg", folder)
    return replace(data, values=data.values[:, -months:], time=data.time[-months:])


def anomalies(element: str, folder: Path) -> StationData:
    """108 stations of USHCN, anomalies in standard deviations, with elevations from the list of stations."""
    data, listed = ushcn_anomalies(element, folder), ushcn("tavg", folder)
    height = dict(zip(listed.station.tolist(), listed.elevation.tolist()))
    return replace(data, elevation=np.array([height.get(name, np.nan) for name in data.station.tolist()]))


def cells(variable: str, folder: Path) -> StationData:
    """125 cells of 2.5 degrees (CRU TS 2.1), without elevation; in mm and degrees instead of tenths."""
    data = gas(variable, folder, months=None)
    return replace(data, values=data.values / 10, units=data.units.removeprefix("0.1 "))


# Title, and the data in a folder.
CASES: dict[str, tuple[str, Callable[[Path], StationData]]] = {
    "west": ("USHCN temperature, the West", western_stations),
    "all": ("USHCN temperature, all stations", all_stations),
    "temperature": ("Simulated temperature", lambda folder: mountain_stations("temperature", 250, 480, seed=11)),
    "precipitation": ("Simulated precipitation", lambda folder: mountain_stations("precipitation", 250, 480, seed=12)),
    "prcp": ("USHCN precipitation anomalies", lambda folder: anomalies("prcp", folder)),
    "tmax": ("USHCN anomalies of maxima", lambda folder: anomalies("tmax", folder)),
    "tmin": ("USHCN anomalies of minima", lambda folder: anomalies("tmin", folder)),
    "PRE": ("CRU precipitation", lambda folder: cells("PRE", folder)),
    "TMX": ("CRU maxima", lambda folder: cells("TMX", folder)),
}


def inverse_distance(case: Case, times: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    weights = np.maximum(cdist(case.plane, case.plane), 1e-3) ** -2.0
    np.fill_diagonal(weights, 0.0)
    known = ~np.isnan(case.seen[:, times])
    return weights @ np.where(known, case.seen[:, times], 0.0) / (weights @ known)


def krige(plane: np.ndarray, values: np.ndarray, targets: np.ndarray, heights: tuple | None = None) -> np.ndarray:
    """One field by pykrige: ordinary, or with linear drift in the coordinates and elevation (known, targets)."""
    from pykrige.ok import OrdinaryKriging
    from pykrige.uk import UniversalKriging

    options = {"variogram_model": "exponential", "nlags": 12, "exact_values": False}
    if heights is None:
        return OrdinaryKriging(*plane.T, values, **options).execute("points", *targets.T)[0].data
    process = UniversalKriging(
        *plane.T, values, drift_terms=["regional_linear", "specified"], specified_drift=[heights[0]], **options
    )
    return process.execute("points", *targets.T, specified_drift_arrays=[heights[1]])[0].data


def kriging(case: Case, times: np.ndarray, drift: bool) -> np.ndarray:
    """Month by month."""
    out = np.empty((len(case.seen), times.size))
    for column, t in enumerate(times):
        known = ~np.isnan(case.seen[:, t])
        heights = (case.height[known], case.height) if drift else None
        out[:, column] = krige(case.plane[known], case.seen[known, t], case.plane, heights)
    return out


def anomaly_kriging(case: Case, times: np.ndarray, drift: bool) -> np.ndarray:
    """Month means of stations (their own from three values on, else kriged), and kriged anomalies."""
    month = case.data.time.astype(int) % 12
    means = np.full((len(case.seen), 12), np.nan)
    for m in range(12):
        values = case.seen[:, month == m]
        count = (~np.isnan(values)).sum(axis=1)
        own = count >= 3
        means[own, m] = np.nansum(values[own], axis=1) / count[own]
        heights = (case.height[own], case.height[~own]) if drift else None
        means[~own, m] = krige(case.plane[own], means[own, m], case.plane[~own], heights)
    out = np.empty((len(case.seen), times.size))
    for column, t in enumerate(times):
        known = ~np.isnan(case.seen[:, t])
        out[:, column] = krige(case.plane[known], case.seen[known, t] - means[known, month[t]], case.plane)
    return out + means[:, month[times]]


def lorank(case: Case, times: np.ndarray, drift: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    model = SpatialCompletion()
    covariates = {"elevation": case.data.elevation} if drift else None
    model.fit(case.seen, case.data.latitude, case.data.longitude, case.data.time, covariates)
    print(f"<!-- {model.parameters_} -->", flush=True)
    low, high = model.interval(0.9)
    return model.predict()[:, times], low[:, times], high[:, times]


# Those with "drift" or "elevation" in their name need the elevation of every station.
METHODS: dict[str, Callable[[Case, np.ndarray], object]] = {
    "inverse distance": inverse_distance,
    "ordinary kriging (pykrige)": lambda case, times: kriging(case, times, drift=False),
    "anomalies kriged (pykrige)": lambda case, times: anomaly_kriging(case, times, drift=False),
    "**lorank**": lambda case, times: lorank(case, times, drift=False),
    "kriging with drift (pykrige)": lambda case, times: kriging(case, times, drift=True),
    "means with drift, anomalies kriged (pykrige)": lambda case, times: anomaly_kriging(case, times, drift=True),
    "**lorank, elevation**": lambda case, times: lorank(case, times, drift=True),
}


COLUMNS = {
    "never seen": ".3f±",
    "nine tenths hidden": ".3f±",
    "in intervals: never seen": ".1%",
    "hidden": ".1%",
    "CPU s": ".0f",
}


def stations(folder: Path, seeds: int, cases: Sequence[str], methods: str, records: Records) -> None:
    """Measure what is not recorded; only methods whose name has `methods` in it are run."""
    for short in cases or CASES:
        title, data = CASES[short][0], CASES[short][1](folder)
        times = np.arange(3, data.values.shape[1], STEP if len(data.values) < MANY else FEWER)
        height = data.elevation is not None and bool(np.isfinite(data.elevation).all())
        names = [name for name in METHODS if height or not ("drift" in name or "elevation" in name)]
        for seed in range(seeds):
            case = split(data, seed)
            for name in names:
                if methods in name and not records.has(short, name, seed):
                    records.add(short, name, seed, judged(case, METHODS[name], times))
        m, n = data.values.shape
        print(f"\n## {title}: {m} stations x {n} months, RMSE in {data.units}, mean and deviation of the splits\n")
        print(table([row for name in names if (row := records.row(short, name)) is not None], COLUMNS), flush=True)


def judged(case: Case, method: Callable[[Case, np.ndarray], object], times: np.ndarray) -> dict[str, float | None]:
    """RMSE and part within intervals at stations never seen, the same at hidden months, and CPU seconds."""
    started = time.process_time()
    answer = method(case, times)
    spent = time.process_time() - started
    predicted, *ends = answer if isinstance(answer, tuple) else (answer,)
    row: list[float | None] = []
    for mask in (case.never[:, times], case.hidden[:, times]):
        truth = case.data.values[:, times][mask]
        row.append(float(np.sqrt(np.mean((predicted[mask] - truth) ** 2))))
        row.append(float(((ends[0][mask] <= truth) & (truth <= ends[1][mask])).mean()) if ends else None)
    return dict(zip(COLUMNS, (row[0], row[2], row[1], row[3], spent)))
