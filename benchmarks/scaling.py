"""Seconds of a sweep on Ray, by size and number of workers: the measurements behind docs/scaling.md.

python benchmarks/scaling.py [--rank 20] [--sweeps 4] [--entries 2e6 5e6 20e6] [--workers 1 2]
"""

import argparse
import time

import numpy as np

from lorank import Observations
from lorank.distributed import open_ray, over_ray
from lorank.problems import Problem
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating


def matrix(entries: int, seed: int = 0) -> Observations:
    """About so many entries, a hundred in each row, ten times as many rows as columns."""
    rng = np.random.default_rng(seed)
    m, n = max(entries // 100, 50), max(entries // 1000, 50)
    cells = np.sort(rng.integers(m * n, size=entries))
    cells = cells[np.diff(cells, prepend=-1) > 0]
    rows, cols = np.divmod(cells, n)
    values = rng.integers(1, 6, size=cells.size).astype(np.float64)
    return Observations.from_coo(rows.astype(np.int32), cols.astype(np.int32), values, (m, n))


def sweeps(problem: Problem, count: int) -> list[tuple[float, float]]:
    """Wall seconds of each sweep and, of those, seconds of the slowest worker; the first sweep is left out."""
    solver = Alternating()
    state = solver.init(problem, None, 0)
    measured = []
    for number in range(count + 1):
        before = getattr(getattr(problem, "engine", None), "computing", 0.0)
        began = time.perf_counter()
        state = solver.step(problem, state)
        wall = time.perf_counter() - began
        if number:
            measured.append((wall, getattr(getattr(problem, "engine", None), "computing", 0.0) - before))
    return measured


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=4)
    parser.add_argument("--entries", type=float, nargs="+", default=[2e6, 5e6, 20e6])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    regularizer = FactoredNNFN(lam=5.0)
    print("entries rows columns workers sweep_s compute_s overhead")
    with open_ray(cpus=max(given.workers), store_bytes=2 << 30):
        for entries in given.entries:
            data = matrix(int(entries))
            m, n = data.shape
            local = min(wall for wall, _ in sweeps(Problem(data, regularizer, given.rank), given.sweeps))
            print(f"{data.nnz} {m} {n} local {local:.3f}", flush=True)
            for workers in given.workers:
                problem = over_ray(data, regularizer, given.rank, None, workers)
                wall, compute = min(sweeps(problem, given.sweeps))
                problem.engine.close()
                print(f"{data.nnz} {m} {n} {workers} {wall:.3f} {compute:.3f} {1 - compute / wall:.1%}", flush=True)


if __name__ == "__main__":
    main()
