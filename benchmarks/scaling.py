"""Seconds of a sweep on Ray, by size and number of workers, with the factors in shards at the workers.

python benchmarks/scaling.py [--rank 20] [--sweeps 16] [--entries 2e6 5e6 20e6] [--workers 1 2]
python benchmarks/scaling.py --entries 20e6 --workers 2      # the overhead at 20 million entries, rank 20, two workers

Overhead is what remains of a sweep's wall time without the slowest worker's computing: requests and lines on their way,
and the driver. Medians over the sweeps, and the least and the most overhead of a sweep. Bytes are what the plan expects
to travel between workers.
Results go to docs/benchmarks/distributed.json.
"""

import argparse
import tempfile
import time

import numpy as np
from measured import save

from lorank import Observations
from lorank.distributed import open_ray
from lorank.distributed.actors import RayEngine
from lorank.distributed.parts import parts_of
from lorank.distributed.problem import COLS, ROWS, Elsewhere, FolderProblem
from lorank.linalg import padded_width
from lorank.problems import Problem
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating


def matrix(entries: int, seed: int = 0, in_a_row: int = 100) -> Observations:
    """About so many entries, so many in each row, ten times as many rows as columns."""
    rng = np.random.default_rng(seed)
    m, n = max(entries // in_a_row, 50), max(entries // (10 * in_a_row), 50)
    cells = np.sort(rng.integers(m * n, size=entries))
    cells = cells[np.diff(cells, prepend=-1) > 0]
    rows, cols = np.divmod(cells, n)
    values = rng.integers(1, 6, size=cells.size).astype(np.float64)
    return Observations.from_coo(rows.astype(np.int32), cols.astype(np.int32), values, (m, n))


def local_sweeps(problem: Problem, count: int) -> list[float]:
    """Wall seconds of each sweep but the first."""
    solver = Alternating()
    state = solver.init(problem, None, 0)
    walls = []
    for _ in range(count + 1):
        began = time.perf_counter()
        state = solver.step(problem, state)
        walls.append(time.perf_counter() - began)
    return walls[1:]


def ray_sweeps(problem: FolderProblem, count: int) -> list[tuple[float, float, float]]:
    """The same, with the seconds of the slowest worker and those within requests."""
    engine, inside = problem.engine, [0.0]
    ask = engine.run_all

    def timed(*args, **kwargs):
        began = time.perf_counter()
        answer = ask(*args, **kwargs)
        inside[0] += time.perf_counter() - began
        return answer

    engine.run_all = timed
    solver = Alternating()
    state = solver.init(problem, None, 0)
    measured = []
    for _ in range(count + 1):
        computing, inside[0] = engine.computing, 0.0
        began = time.perf_counter()
        state = solver.step(problem, state)
        wall = time.perf_counter() - began
        measured.append((wall, engine.computing - computing, inside[0] - engine.computing + computing))
    return measured[1:]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=16)
    parser.add_argument("--entries", type=float, nargs="+", default=[2e6, 5e6, 20e6])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    regularizer = FactoredNNFN(lam=5.0)
    print("entries rows columns workers sweep_s compute_s moving_s driver_s overhead planned_MB")
    with open_ray(cpus=max(given.workers), store_bytes=2 << 30), tempfile.TemporaryDirectory() as folder:
        for entries in given.entries:
            data = matrix(int(entries))
            m, n = data.shape
            local = np.median(local_sweeps(Problem(data, regularizer, given.rank), given.sweeps))
            print(f"{data.nnz} {m} {n} local {local:.3f}", flush=True)
            sides = {ROWS: parts_of(data.by_row), COLS: parts_of(data.by_col)}
            for workers in given.workers:
                engine = RayEngine(sides, workers, 1, folder)
                plan = engine.prepare(padded_width(given.rank) * data.dtype.itemsize)
                problem = FolderProblem(Elsewhere(data.shape, data.dtype), regularizer, given.rank, engine=engine)
                sweeps = np.array(ray_sweeps(problem, given.sweeps))
                wall, compute, moving = np.median(sweeps, axis=0)
                overhead = 1 - sweeps[:, 1] / sweeps[:, 0]
                least, middle, most = np.quantile(overhead, [0, 0.5, 1])
                engine.close()
                seconds = f"{wall:.3f} {compute:.3f} {moving:.3f} {wall - compute - moving:.3f}"
                planned = (plan.bytes["rows"] + plan.bytes["cols"]) / 1e6
                print(f"{data.nnz} {m} {n} {workers} {seconds} {middle:.1%} {planned:.1f}", flush=True)
                print(f"overhead from {least:.1%} to {most:.1%}", flush=True)
                save(
                    f"sweep, {entries:g} entries, {workers} workers",
                    shape=[m, n],
                    rank=given.rank,
                    sweep_seconds=round(wall, 3),
                    computing_seconds=round(compute, 3),
                    in_one_process_seconds=round(local, 3),
                    overhead=round(middle, 4),
                    least_overhead=round(least, 4),
                    most_overhead=round(most, 4),
                    planned_mb=round(planned, 1),
                )


if __name__ == "__main__":
    main()
