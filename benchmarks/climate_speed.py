"""The rest of benchmarks/climate.py: how long fits take, and how much memory.

`python benchmarks/climate_speed.py 1000 500` fills a grid of 1000 x 1000 cells x 500 times, `... stations` tunes 376
stations x 1236 months; both keep what it took (`climate_records`).
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from climate_records import SAVED, Records
from climate_stations import split

from lorank.datasets import mountain_stations
from lorank.spatial import GridCompletion, SpatialCompletion


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
