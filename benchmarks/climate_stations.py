"""Stations in degrees: never seen, or with a tenth of their months, with and without elevation, beside pykrige.

Every method gets the values that are seen, and must return the unit in which they came: level, season and weather.
Peers krige every seventh month, with the variogram that pykrige fits to it; all methods are judged at these months.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lorank.datasets import StationData, mountain_stations, ushcn
from lorank.spatial import SpatialCompletion

STEP = 7
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
    data = ushcn("tavg", folder)
    with np.load(folder / "ushcn_tavg_raw_1895_2016.npz") as arrays:
        chosen = np.isin(arrays["state"], WEST)
    rows = (part[chosen] for part in (data.latitude, data.longitude, data.station))
    return StationData(
        data.values[chosen][:, -months:], *rows, data.time[-months:], "tavg", "degC", data.elevation[chosen]
    )


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
        height = case.data.elevation / 1000
        heights = (height[known], height) if drift else None
        out[:, column] = krige(case.plane[known], case.seen[known, t], case.plane, heights)
    return out


def anomaly_kriging(case: Case, times: np.ndarray, drift: bool) -> np.ndarray:
    """Month means of stations (their own from three values on, else kriged), and kriged anomalies."""
    month = case.data.time.astype(int) % 12
    means, height = np.full((len(case.seen), 12), np.nan), case.data.elevation / 1000
    for m in range(12):
        values = case.seen[:, month == m]
        count = (~np.isnan(values)).sum(axis=1)
        own = count >= 3
        means[own, m] = np.nansum(values[own], axis=1) / count[own]
        heights = (height[own], height[~own]) if drift else None
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


METHODS: dict[str, Callable[[Case, np.ndarray], object]] = {
    "inverse distance": inverse_distance,
    "ordinary kriging (pykrige)": lambda case, times: kriging(case, times, drift=False),
    "anomalies kriged (pykrige)": lambda case, times: anomaly_kriging(case, times, drift=False),
    "**lorank**": lambda case, times: lorank(case, times, drift=False),
    "kriging with drift (pykrige)": lambda case, times: kriging(case, times, drift=True),
    "means with drift, anomalies kriged (pykrige)": lambda case, times: anomaly_kriging(case, times, drift=True),
    "**lorank, elevation**": lambda case, times: lorank(case, times, drift=True),
}


def stations(folder: Path, seeds: int) -> None:
    """The table of docs/climate.md."""
    cases = {
        "USHCN temperature, the West": western_stations(folder),
        "simulated temperature": mountain_stations("temperature", 250, 480, seed=11),
        "simulated precipitation": mountain_stations("precipitation", 250, 480, seed=12),
    }
    for title, data in cases.items():
        times = np.arange(3, data.values.shape[1], STEP)
        found: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            case = split(data, seed)
            for name, method in METHODS.items():
                started = time.process_time()
                answer = method(case, times)
                spent = time.process_time() - started
                predicted, *ends = answer if isinstance(answer, tuple) else (answer,)
                row = []
                for mask in (case.never[:, times], case.hidden[:, times]):
                    truth = data.values[:, times][mask]
                    row.append(float(np.sqrt(np.mean((predicted[mask] - truth) ** 2))))
                    inside = (ends[0][mask] <= truth) & (truth <= ends[1][mask]) if ends else np.array([np.nan])
                    row.append(float(inside.mean()))
                found.setdefault(name, []).append([*row, spent])
                print(f"<!-- {title}, seed {seed}, {name}: {np.round(found[name][-1], 3)} -->", flush=True)
        m, n = data.values.shape
        print(f"\n## {title}: {m} stations x {n} months, RMSE in {data.units}, mean and deviation of {seeds} splits\n")
        print(
            "| method | never seen | nine tenths hidden | in 90% intervals: never seen | nine tenths hidden | CPU s |"
        )
        print("|---|---|---|---|---|---|")
        for name, rows in found.items():
            mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
            cover = ["" if np.isnan(mean[i]) else f"{100 * mean[i]:.1f}%" for i in (1, 3)]
            errors = [f"{mean[i]:.3f} ± {spread[i]:.3f}" for i in (0, 2)]
            print(f"| {name} | {errors[0]} | {errors[1]} | {cover[0]} | {cover[1]} | {mean[4]:.0f} |", flush=True)
