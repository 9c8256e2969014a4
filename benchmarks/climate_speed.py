"""The rest of benchmarks/climate.py: how long fits take, and how much memory.

`python benchmarks/climate_speed.py 1000 500` fills a grid of 1000 x 1000 cells x 500 times, `... stations` tunes 376
stations x 1236 months; both keep what it took (`climate_records`).
"""

from __future__ import annotations

import itertools
import resource
import sys
import time

import numpy as np
from climate_records import SAVED, Records
from climate_stations import split

from lorank import MatrixCompletion
from lorank.datasets import StationData, mountain_stations
from lorank.observations import Observations
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.spatial import GridCompletion, SpatialCompletion


def speed(data: StationData, seen: np.ndarray) -> None:
    """data and what is seen of them with gaps. Processor time, since a busy machine says little by its clock."""
    observations = {"70% of the stations": Observations.from_dense(seen), "all stations": data.observations()}
    prior = KernelPrior.on_earth(data.latitude, data.longitude, length=2.0, nugget=0.1)
    graph = GraphLaplacian.from_coordinates(data.latitude, data.longitude, rate=8.0, weight=0.01)
    nearest = GraphLaplacian.from_coordinates(data.latitude, data.longitude, rate=8.0, neighbours=10, weight=0.01)
    print("\n## One fit of 1218 stations x 1200 months, factored nuclear norm, lam 3: processor seconds, best of 3\n")
    print("| seen | rank | plain | kernel prior | dense graph | 10 neighbours |\n|---|---|---|---|---|---|")
    for (where, seen_entries), rank in itertools.product(observations.items(), (10, 20, 40)):
        times = []
        for side in (None, prior, graph, nearest):
            runs = []
            for _ in range(3):
                # A new object each time: what a prior or a graph prepares for a fit is part of the fit.
                fresh = None if side is None else side.scaled(1.0)
                started = time.process_time()
                MatrixCompletion("factored-nuclear", rank, 3.0, row_side=fresh, random_state=0).fit(seen_entries)
                runs.append(time.process_time() - started)
            times.append(min(runs))
        ratios = " | ".join(f"{t:.2f} ({t / times[0]:.1f}x)" for t in times[1:])
        print(f"| {where} | {rank} | {times[0]:.2f} | {ratios} |", flush=True)
    _large()


def _large() -> None:
    rng = np.random.default_rng(0)
    latitude, longitude = rng.uniform(25, 50, 20_000), rng.uniform(-125, -65, 20_000)
    smooth = np.column_stack([np.sin(latitude / 3), np.cos(longitude / 5), np.sin((latitude + longitude) / 8)])
    truth = (smooth @ rng.standard_normal((3, 1000))).astype(np.float32)
    measured = np.flatnonzero(rng.random(20_000) < 0.3)
    rows = np.repeat(measured, 1000)
    values = truth[measured].ravel() + 0.1 * rng.standard_normal(rows.size).astype(np.float32)
    observations = Observations.from_coo(rows, np.tile(np.arange(1000), measured.size), values, (20_000, 1000))
    graph = GraphLaplacian.from_coordinates(latitude, longitude, rate=8.0, weight=0.1)
    prior = KernelPrior.on_earth(latitude, longitude, length=1.0)
    print("\n## 20,000 places x 1000 months, 30% measured (6 million values), rank 10\n")
    others = np.setdiff1d(np.arange(20_000), measured)
    for name, side in (("10-neighbour graph", graph), ("kernel prior, 1000 inducing points", prior)):
        started = time.perf_counter()
        model = MatrixCompletion(rank=10, lam=1.0, row_side=side, random_state=0, dtype="float32").fit(observations)
        spent = time.perf_counter() - started
        factors = model.result_.factors
        miss = factors.W[others] @ factors.H.T - truth[others]
        error = np.sqrt(np.mean(miss**2)) / truth[others].std()
        print(f"- {name}: {spent:.1f} s, {model.n_iter_} sweeps, NMSE where unmeasured {error:.3f}, {peak()}")


def peak() -> str:
    return f"peak {gigabytes():.2f} GB"


def gigabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def large_grid(side: int, n: int) -> None:
    """A square grid in float32, a field of rank 6 with noise, a third of it under clouds of 50 x 50 cells."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:side, 0:side] / side
    patterns = np.stack([np.sin(2 * np.pi * (a * y + b * x)) for a, b in rng.uniform(0, 3, (6, 2))]).astype(np.float32)
    series = np.cumsum(rng.standard_normal((n, 6)), axis=0).astype(np.float32) / 5
    values = np.empty((n, side, side), np.float32)
    clouds = -(-side // 50)
    for t in range(n):
        values[t] = np.tensordot(series[t], patterns, 1) + 0.1 * rng.standard_normal((side, side), np.float32)
        values[t][np.kron(rng.random((clouds, clouds)) < 1 / 3, np.ones((50, 50), bool))[:side, :side]] = np.nan
    measured: dict[str, float | None] = {"data GB": values.nbytes / 1e9}
    started = time.process_time()
    model = GridCompletion().fit(values)
    measured |= {"tuning CPU s": time.process_time() - started, "tuned, peak GB": gigabytes()}
    started = time.process_time()
    filled, _ = model.complete()
    measured |= {"filling CPU s": time.process_time() - started, "filled, peak GB": gigabytes()}
    miss = [np.tensordot(series[t], patterns, 1) - filled[t] for t in range(0, n, 50)]
    measured["RMSE"] = float(np.sqrt(np.mean(np.square(miss))))
    Records(SAVED, again=True).add(f"{side} x {side} cells x {n} times", "`GridCompletion`", 0, measured)
    print(measured, model.parameters_)


def tuned_stations() -> None:
    """376 simulated stations x 1236 months with elevation, all chosen: seconds and CPU seconds, kernels compiled."""
    seen = split(mountain_stations("temperature", 376, 1236, seed=3), 0)
    data = seen.data

    def fit(m: int, n: int) -> None:
        known = {"elevation": data.elevation[:m]}
        SpatialCompletion().fit(seen.seen[:m, :n], data.latitude[:m], data.longitude[:m], data.time[:n], known)

    fit(60, 120)
    clock, started = time.perf_counter(), time.process_time()
    fit(376, 1236)
    measured = {"s": time.perf_counter() - clock, "CPU s": time.process_time() - started}
    Records(SAVED, again=True).add("376 stations x 1236 months", "`SpatialCompletion`", 0, measured)
    print(measured)


if __name__ == "__main__":
    if sys.argv[1] == "stations":
        tuned_stations()
    else:
        large_grid(int(sys.argv[1]), int(sys.argv[2]))
