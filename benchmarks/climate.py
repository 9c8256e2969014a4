"""Stations that were never measured: every method on the same splits, and what a climate scientist would do instead.

    python benchmarks/climate.py stations grids page gas ushcn gaps speed picture --data ../shared/data

stations, grids   beside pykrige and DINEOF (`climate_stations`, `climate_grids`), into docs/benchmarks/climate.json
page     the tables of docs/climate.md from these records
gas      the paper's setting on the anomalies of 125 places x 144 months: 10/10/80% of the places train, validate, test
ushcn    the same on 1218 stations x 1200 months of temperature anomalies, with the gaps that they have
gaps     the same data, 30% of the stations never seen and 20% with a tenth of their months
speed    one fit with a prior or a graph against one without; 20,000 places and their ten neighbours
picture  a map of errors and one never-measured station (docs/climate.png)

Every method is tuned on the same validation places, with as many settings as the others.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import climate_grids
import climate_stations
import numpy as np
from climate_records import SAVED, Records, write_page
from climate_speed import speed
from scipy.spatial.distance import cdist

from lorank import MatrixCompletion, registry
from lorank.datasets import StationData, gas_anomalies, normalise, split_locations, ushcn
from lorank.observations import Observations
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.side_information.coordinates import sphere
from lorank.spatial.kriging import Kriging

Fit = Callable[[np.ndarray, dict[str, Any]], np.ndarray]
RATES, WEIGHTS, LAMS = (2.0, 4.0, 8.0, 16.0), (0.001, 0.01, 0.1), (0.001, 0.03)


def settings(**options: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*options.values()):
        yield dict(zip(options, values))


def rmse(predicted: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean((predicted - truth) ** 2)))


class Task:
    """Stations, and the fits that methods are made of: from values with NaN to all values."""

    def __init__(self, data: StationData, rank: int) -> None:
        self.data, self.rank = data, rank
        self.large = data.values.size > 1e5
        self.tol = 1e-4 if self.large else 1e-5
        self.points = sphere(data.latitude, data.longitude)
        self.apart = cdist(self.points, self.points)
        self.graphs: dict[float, GraphLaplacian] = {}

    def by_distance(self, seen: np.ndarray, power: float) -> np.ndarray:
        """Each month the mean of the stations that have it, weighted by distance to the power; nearest if infinite."""
        known = ~np.isnan(seen)
        if np.isfinite(power):
            weights = np.maximum(self.apart, 1e-6) ** -power
            return weights @ np.where(known, seen, 0.0) / (weights @ known)
        out = np.empty_like(seen)
        for month in range(seen.shape[1]):
            have = np.flatnonzero(known[:, month])
            out[:, month] = seen[have[self.apart[:, have].argmin(axis=1)], month]
        return out

    def kriging(self, seen: np.ndarray, length: float, nugget: float, nu: float, months: Any = None) -> np.ndarray:
        """scikit-learn's Gaussian process, month by month; months with the same stations share a factorization."""
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import Matern

        known = ~np.isnan(seen)
        out = np.full_like(seen, np.nan)
        months = np.arange(seen.shape[1]) if months is None else months
        patterns: dict[bytes, list[int]] = {}
        for month in months:
            patterns.setdefault(known[:, month].tobytes(), []).append(int(month))
        for group in patterns.values():
            have = known[:, group[0]]
            process = GaussianProcessRegressor(Matern(length, nu=nu), alpha=nugget, optimizer=None)
            process.fit(self.points[have], seen[np.ix_(have, group)])
            out[:, group] = process.predict(self.points).reshape(len(seen), -1)
        return out

    def graph(self, rate: float) -> GraphLaplacian:
        if rate not in self.graphs:
            self.graphs[rate] = GraphLaplacian.from_coordinates(self.data.latitude, self.data.longitude, rate=rate)
        return self.graphs[rate]

    def completed(self, seen: np.ndarray, method: str, graph: Any, lam: float, theta: float = 1.0) -> np.ndarray:
        found = registry.find(method)
        given = {"lam": lam, "theta": theta} if method == "nnfn" else found.at(lam, found.shapes[0])
        limits = {"max_iter": 100} if found.samples else {"tol": self.tol}
        model = MatrixCompletion(**found.arguments(given), rank=self.rank, row_side=graph, random_state=0, **limits)
        return model.fit(Observations.from_dense(seen)).result_.factors.dense()

    def laplacian(self, method: str) -> Fit:
        def fit(seen: np.ndarray, s: dict[str, Any]) -> np.ndarray:
            return self.completed(
                seen, method, self.graph(s["rate"]).scaled(s["weight"]), s["lam"], s.get("theta", 1.0)
            )

        return fit

    def prior(self, method: str, theta: float = 1.0) -> Fit:
        def fit(seen: np.ndarray, s: dict[str, Any]) -> np.ndarray:
            kernel = KernelPrior(self.points, s.get("kernel", "exponential"), s["length"], s["nugget"])
            return self.completed(seen, method, kernel, s["lam"], theta)

        return fit

    def prior_kriged(self, seen: np.ndarray, s: dict[str, Any]) -> np.ndarray:
        """Kernel prior and NNFN, what they leave over kriged."""
        field = self.prior("nnfn")(seen, s)
        return field + kriged_residuals(self.points, seen - field, s)


def kriged_residuals(points: np.ndarray, left_over: np.ndarray, s: dict[str, Any]) -> np.ndarray:
    return Kriging.fit(KernelPrior(points, "exponential", s["residual"], s["noise"]), left_over).at(points)


def methods_of(task: Task, table_6: bool) -> dict[str, tuple[list[dict[str, Any]], Fit]]:
    """Name: the settings that are tried, and the fit."""
    paper = list(
        settings(rate=(2.0,), weight=(0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), lam=(0.001, 0.03, 0.3))
    )
    tuned = list(settings(rate=RATES, weight=WEIGHTS, lam=LAMS))
    grals = list(settings(rate=RATES, weight=(0.01, 0.1, 1.0), lam=LAMS))
    kernels = ("exponential", "matern32")
    prior = list(settings(kernel=kernels, length=(1.0, 3.0, 10.0), nugget=(1e-6, 0.02), lam=(0.001, 0.1)))
    krige = list(settings(length=(0.5, 1.0, 3.0, 10.0), nugget=(1e-6, 0.02, 0.1), nu=(0.5, 1.5)))
    if task.large:
        # Fewer settings, and weather rather than gas: more noise, rougher fields.
        paper = list(settings(rate=(2.0,), weight=(0.001, 0.01, 0.1, 1.0), lam=(0.1, 1.0)))
        tuned = list(settings(rate=(4.0, 8.0, 16.0), weight=WEIGHTS, lam=(0.1,)))
        prior = list(settings(kernel=("exponential",), length=(2.0, 4.0), nugget=(0.02, 0.1), lam=(0.1, 1.0)))
        krige = list(settings(length=(1.0, 2.0, 4.0), nugget=(0.02, 0.1, 0.2), nu=(0.5,)))
    found = {
        "nearest station": ([{}], lambda seen, s: task.by_distance(seen, np.inf)),
        "inverse distance": (list(settings(power=(1.0, 2.0, 3.0))), lambda seen, s: task.by_distance(seen, s["power"])),
        "kriging (GaussianProcessRegressor)": (krige, lambda seen, s: task.kriging(seen, **s)),
        "graph exp(-2b), b in 1000 km: factored nuclear": (paper, task.laplacian("factored-nuclear")),
        "graph exp(-2b), b in 1000 km: factored NNFN": (paper, task.laplacian("nnfn")),
        "**graph exp(-2b), unit of b tuned: factored NNFN**": (tuned, task.laplacian("nnfn")),
        "graph, unit of b tuned: factored nuclear": (tuned, task.laplacian("factored-nuclear")),
        "kernel prior, factored nuclear": (prior, task.prior("factored-nuclear")),
        "kernel prior, factored NNFN": (prior, task.prior("nnfn")),
    }
    if task.large:
        options = settings(length=(2.0, 4.0), nugget=(0.1,), lam=(1.0,), residual=(0.5, 1.0), noise=(0.3, 0.5))
        found["kernel prior, factored NNFN, residuals kriged"] = (list(options), task.prior_kriged)
    others = ("nuclear", "nnfn-prox", "truncated-l12", "capped-l1", "lsp", "mcp", "bpmf")
    names = ("nuclear", "NNFN", "truncated l1-2", "capped-l1", "LSP", "MCP", "BPMF")
    if table_6:
        found["graph, unit of b tuned: GRALS"] = (grals, task.laplacian("grals"))
    for method, name in zip(others, names) if table_6 else ():
        options = [s for s in tuned if s["lam"] == LAMS[0]] if method == "bpmf" else tuned
        found[f"graph, unit of b tuned: {name}"] = (options, task.laplacian(method))
    return found


def whole_places(title: str, tasks: dict[str, Task], seeds: int, table_6: bool) -> None:
    """The paper's setting: 10% of the places train, 10% validate, 80% test."""
    print(f"\n## {title}: RMSE at places never measured, mean and deviation of {seeds} splits\n")
    print("| method | settings | " + " | ".join(tasks) + " | s a fit |\n|---|---|" + "---|" * (len(tasks) + 1))
    for name in methods_of(next(iter(tasks.values())), table_6):
        cells, spent, count = [], 0.0, 0
        for task in tasks.values():
            tried, fit = methods_of(task, table_6)[name]
            errors = []
            for seed in range(seeds):
                train, validation, test = split_locations(len(task.points), seed=seed)
                seen = np.full_like(task.data.values, np.nan)
                seen[train] = task.data.values[train]
                best, error = np.inf, np.nan
                for setting in tried:
                    started = time.perf_counter()
                    predicted = fit(seen, setting)
                    spent, count = spent + time.perf_counter() - started, count + 1
                    held_out = rmse(predicted[validation], task.data.values[validation])
                    if held_out < best:
                        best, error = held_out, rmse(predicted[test], task.data.values[test])
                errors.append(error)
            cells.append(f"{np.mean(errors):.3f} ± {np.std(errors):.3f}")
        print(f"| {name} | {len(tried)} | {' | '.join(cells)} | {spent / count:.3f} |", flush=True)


def temperature(folder: Path) -> StationData:
    """The last 1200 months of USHCN temperature as anomalies in standard deviations."""
    measured = ushcn("tavg", folder)
    return normalise(
        replace(measured, values=measured.values[:, -1200:], time=measured.time[-1200:]), "anomalies-trend"
    )


def with_gaps(data: StationData, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What is seen, and masks of what is not: `never` seen stations (30%), `hidden` nine tenths of the months of 20%.

    `validation` is the same in small, on other stations (5%): half never seen, half with a tenth of their months.
    """
    rng = np.random.default_rng(seed)
    there = ~np.isnan(data.values)
    never, few, validation, _ = np.split(rng.permutation(len(there)), np.cumsum([365, 244, 61]))
    nine_tenths = rng.random(there.shape) > 0.1
    masks = {name: np.zeros_like(there) for name in ("validation", "never", "hidden")}
    masks["validation"][validation], masks["never"][never] = there[validation], there[never]
    masks["validation"][validation[:30]] &= nine_tenths[validation[:30]]
    masks["hidden"][few] = there[few] & nine_tenths[few]
    seen = there & ~(masks["validation"] | masks["never"] | masks["hidden"])
    masks["both"] = masks["never"] | masks["hidden"]
    return np.where(seen, data.values, np.nan), masks


def gaps(folder: Path, seeds: int) -> None:
    """Kriging factorizes anew each month: methods are tuned at every 17th month, and judged at every third."""
    data = temperature(folder)
    task = Task(data, 60)
    some, judged = np.arange(0, 1200, 17), np.arange(1, 1200, 3)
    krige = list(settings(length=(1.0, 2.0, 4.0), nugget=(0.1, 0.2), nu=(0.5,)))
    prior = list(settings(length=(2.0,), nugget=(0.03, 0.1), lam=(1.0, 3.0)))
    residual = list(settings(residual=(0.3, 0.5), noise=(0.3, 0.5)))
    plain = list(settings(lam=(3.0, 10.0), rank=(10, 20)))

    def without_prior(seen: np.ndarray, s: dict[str, Any]) -> np.ndarray:
        return MatrixCompletion(rank=s["rank"], lam=s["lam"], random_state=0).fit(seen).result_.factors.dense()

    def kriged(seen: np.ndarray, field: np.ndarray, s: dict[str, Any], months: np.ndarray) -> np.ndarray:
        left_over = (seen - field)[:, months]
        return field[:, months] + kriged_residuals(task.points, left_over, s)

    whole: dict[str, tuple[list[dict[str, Any]], Fit]] = {
        "inverse distance": (list(settings(power=(2.0, 3.0))), lambda seen, s: task.by_distance(seen, s["power"])),
        "NNFN without a prior": (plain, without_prior),
        "kernel prior, factored NNFN, rank 60": (prior, task.prior("nnfn")),
    }
    tried = {name: len(options) for name, (options, _) in whole.items()} | {"kriging month by month": len(krige)}
    rows: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        seen, masks = with_gaps(data, seed)

        def held_out(predicted: np.ndarray, masks: dict[str, np.ndarray] = masks) -> float:
            mask = masks["validation"][:, some]
            return rmse(predicted[mask], data.values[:, some][mask])

        def judge(name: str, predicted: np.ndarray, seed: int = seed, masks: dict[str, np.ndarray] = masks) -> None:
            truth, kinds = data.values[:, judged], [masks[kind][:, judged] for kind in ("never", "hidden", "both")]
            rows.setdefault(name, []).append([rmse(predicted[mask], truth[mask]) for mask in kinds])
            print(f"<!-- seed {seed}, {name}: {np.round(rows[name][-1], 4)} -->", flush=True)

        best = min(krige, key=lambda s: held_out(task.kriging(seen, **s, months=some)[:, some]))
        judge("kriging month by month", task.kriging(seen, **best, months=judged)[:, judged])
        for name, (options, fit) in whole.items():
            fields = [fit(seen, s) for s in options]
            judge(name, min(fields, key=lambda field: held_out(field[:, some]))[:, judged])
            if "prior, " in name:
                # Kriging of the residuals beside, of the same fits: the best of fits and residuals together.
                pairs = [
                    (held_out(kriged(seen, field, s, some)), t, s) for t, field in enumerate(fields) for s in residual
                ]
                _, t, s = min(pairs, key=lambda pair: pair[0])
                judge(f"{name}, residuals kriged", kriged(seen, fields[t], s, judged))
                tried[f"{name}, residuals kriged"] = len(pairs)
    print(f"\n## USHCN temperature anomalies with gaps: RMSE, mean and deviation of {seeds} splits\n")
    print("| method | settings | never seen | nine tenths hidden | both |\n|---|---|---|---|---|")
    for name, errors in rows.items():
        cells = (f"{value:.4f} ± {spread:.4f}" for value, spread in zip(np.mean(errors, 0), np.std(errors, 0)))
        print(f"| {name} | {tried[name]} | {' | '.join(cells)} |", flush=True)
    against = np.array(rows["kriging month by month"])
    for name, errors in rows.items():
        print(f"- {name}: below kriging in {(np.array(errors) < against).sum(axis=0)} of {seeds} splits")


def picture(measured: StationData, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.spatial import SpatialCompletion

    data = replace(measured, values=measured.values[:, -360:], time=measured.time[-360:])
    never = split_locations(len(data.station), (0.7, 0.3), seed=0)[1]
    seen = data.values.copy()
    seen[never] = np.nan
    model = SpatialCompletion(lam=2.0, rank=40, nugget=0.1, theta=1.0)
    model.fit(seen, data.latitude, data.longitude, data.time)
    predicted = model.predict()
    errors = np.sqrt(np.nanmean((predicted - data.values) ** 2, axis=1))
    here = never[np.argsort(errors[never])[never.size // 2]]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 9), height_ratios=(3, 2), layout="constrained")
    known = np.setdiff1d(np.arange(len(errors)), never)
    top.scatter(data.longitude[known], data.latitude[known], s=5, color="0.8", label="measured")
    dots = top.scatter(data.longitude[never], data.latitude[never], c=errors[never], s=22, cmap="viridis", vmax=3)
    top.plot(data.longitude[here], data.latitude[here], "o", ms=13, mfc="none", mec="crimson", label=data.station[here])
    figure.colorbar(dots, ax=top, label="RMSE of monthly temperature (°C)", extend="max")
    top.set(title=f"{never.size} stations that were never measured", xlabel="longitude", ylabel="latitude")
    top.legend(loc="lower left")
    last = slice(-96, None)
    band, when = 2 * model.error_[here], data.time[last].astype("datetime64[D]")
    bottom.fill_between(when, predicted[here, last] - band, predicted[here, last] + band, color="crimson", alpha=0.15)
    bottom.plot(when, predicted[here, last], color="crimson", label="predicted, ± 2 estimated errors")
    bottom.plot(when, data.values[here, last], "k.", ms=5, label="measured, never shown to the model")
    bottom.set(title=f"{data.station[here]}: the never-measured station with the median error", ylabel="°C")
    bottom.legend(loc="lower left", ncols=2)
    figure.savefig(out, dpi=130)
    error = np.sqrt(np.nanmean((predicted[never] - data.values[never]) ** 2))
    estimated = np.sqrt(np.mean(model.error_[never] ** 2))
    print(f"\nPicture: {out}; never-measured stations: RMSE {error:.3f} °C,")
    print(f"estimated {estimated:.3f} °C, correlation {np.corrcoef(errors[never], model.error_[never])[0, 1]:.2f};")
    print(f"parameters {model.parameters_}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", nargs="+", choices=("stations", "grids", "page", "gas", "ushcn", "gaps", "speed", "picture")
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("LORANK_DATA", Path("../shared/data")))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--cases", nargs="*", choices=climate_stations.CASES, default=(), help="stations: data; all if none is named"
    )
    parser.add_argument("--methods", default="", help="stations, grids: run only methods with this in their name")
    parser.add_argument("--records", type=Path, default=SAVED, help="stations, grids: what was measured")
    parser.add_argument("--again", action="store_true", help="stations, grids: measure again what is recorded")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "climate.png")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    records = Records(asked.records, asked.again)
    if "stations" in asked.what:
        climate_stations.stations(Path(asked.data), asked.seeds, asked.cases, asked.methods, records)
    if "grids" in asked.what:
        climate_grids.grids(asked.seeds, asked.methods, records)
    if "page" in asked.what:
        shown = dict.fromkeys(climate_stations.CASES, (climate_stations.COLUMNS, climate_stations.METHODS))
        shown |= dict.fromkeys(("clouds", "swaths"), (climate_grids.COLUMNS, climate_grids.METHODS))
        write_page(records, shown)
    if "gas" in asked.what:
        tasks = {name: Task(gas_anomalies(name, asked.data), 12) for name in ("CO2", "H2")}
        whole_places("GAS anomalies (gas_p17.mat), 125 places x 144 months", tasks, asked.seeds, table_6=True)
    if "ushcn" in asked.what:
        tasks = {"temperature": Task(temperature(asked.data), 40)}
        whole_places("USHCN temperature anomalies, 1218 stations x 1200 months", tasks, asked.seeds, table_6=False)
    if "gaps" in asked.what:
        gaps(asked.data, asked.seeds)
    if "speed" in asked.what:
        data = temperature(asked.data)
        speed(data, with_gaps(data, 0)[0])
    if "picture" in asked.what:
        picture(ushcn("tavg", asked.data), asked.out)


if __name__ == "__main__":
    main()
