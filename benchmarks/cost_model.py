"""The cost model of docs/explanation/distributed.md: fitted to some sizes and ranks, checked against others.

    workers' CPU seconds of a sweep = nnz (a (k + 1)(k + 2) + b q + c q s f + d q s g) + (m + n)(e q + h k^2)

q is the padded width, s the bytes of a number; f and g are the shares of the factors' lines that the second- and the
third-level cache do not hold, averaged over both half-sweeps. What goes with the lines (Grams, momentum, fetching) is
done by their owners: all of it is divided by the number of workers. The driver's own seconds are printed beside.
The terms are those of `lorank.distributed.travel`, whose RATES make the plan that a fit reports. Sizes differ in
entries, in entries a row and in rank, so that what an entry costs can be told from what a line costs.

CPU seconds, not wall seconds, so that what else the machine does matters less; yet a busy machine also empties the
caches, so that an idle one is better. Every size is measured in several processes, and the fastest counts.

python benchmarks/cost_model.py             # measure, fit, check
python benchmarks/cost_model.py predict     # 10^10 entries on 64 nodes and 10^11 on 512, by the library's RATES

Both write to docs/benchmarks/distributed.json.
"""

import sys
import time
from multiprocessing import get_context

import numpy as np
from measured import save
from scaling import matrix

from lorank.distributed.cluster import PAIRS
from lorank.distributed.engines import LocalEngine
from lorank.distributed.parts import parts_of
from lorank.distributed.problem import COLS, ROWS, Elsewhere, FolderProblem
from lorank.distributed.travel import BANDWIDTH, sweep_seconds, sweep_terms
from lorank.linalg.factors import padded_width
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating

# Entries, entries in a row, rank.
FITTED = [
    *((1_000_000, in_a_row, k) for k in (10, 20) for in_a_row in (5, 25, 100, 400)),
    *((4_000_000, in_a_row, k) for k in (10, 20) for in_a_row in (25, 200)),
    *((4_000_000, 5, 10), (8_000_000, 100, 10), (8_000_000, 10, 10), (8_000_000, 20, 20)),
]
HELD_OUT = [
    *((2_000_000, 10, 10), (2_000_000, 50, 20), (3_000_000, 300, 10)),
    *((6_000_000, 15, 10), (6_000_000, 100, 20), (10_000_000, 30, 20)),
]
# Seconds to draw a normal number.
DRAW = 9e-9
# Sweeps are repeated for so many CPU seconds in so many processes.
PATIENCE, PROCESSES = 1.5, 3


class Timed(LocalEngine):
    """The engine of this process with one thread, which adds up its CPU seconds."""

    seconds = 0.0

    def run(self, *args, **kwargs):
        began = time.process_time()
        answer = super().run(*args, **kwargs)
        self.seconds += time.process_time() - began
        return answer


def measure(entries: int, in_a_row: int, k: int):
    data = matrix(entries, in_a_row=in_a_row)
    engine = Timed({ROWS: parts_of(data.by_row), COLS: parts_of(data.by_col)}, 1)
    problem = FolderProblem(Elsewhere(data.shape, data.dtype), FactoredNNFN(lam=5.0), k, engine=engine)
    solver = Alternating()
    state = solver.step(problem, solver.init(problem, None, 0))
    workers, drivers = [], []
    while sum(workers) + sum(drivers) < PATIENCE or len(workers) < 5:
        engine.seconds, began = 0.0, time.process_time()
        state = solver.step(problem, state)
        whole = time.process_time() - began
        # A sweep that momentum made worse is done again, and counts twice.
        if state.sweeps > 1:
            workers.append(engine.seconds)
            drivers.append(whole - engine.seconds)
    return sweep_terms(data.nnz, data.shape, k, data.dtype.itemsize), (min(workers), min(drivers))


def fastest(*size: int):
    """The terms of a size, and the least seconds of workers and driver over some processes."""
    found = []
    for _ in range(PROCESSES):
        with get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(measure, size))
    least = tuple(min(seconds) for seconds in zip(*(times for _, times in found)))
    print(*size, *least, flush=True)
    return found[0][0], least


def solve_positive(terms, seconds):
    """Least squares in relative error, with no negative rate."""
    from scipy.optimize import nnls

    A, y = np.array(terms, float), np.array(seconds)
    scale = A.max(axis=0)
    return nnls(A / scale / y[:, None], np.ones(len(y)))[0] / scale


def predict(nnz: float, m: float, n: float, nodes: int, cores: int, k: int = 20, itemsize: int = 4) -> None:
    """Seconds, bytes and memory of a sweep, a worker of so many threads on each node; entries are spread evenly."""
    line, share = padded_width(k) * itemsize, nnz / nodes
    computing = sweep_seconds(nnz, (m, n), k, itemsize) / nodes / cores
    # Distinct lines among the share of the entries that a node has.
    lines = [size * -np.expm1(-share / size) * (1 - 1 / nodes) for size in (n, m)]
    moving = sum(lines) * line
    owned = 2 * share * (itemsize + 4) + PAIRS[0] * (m + n) / nodes * line
    print(f"{nnz:.0e} entries, {m:.0e} x {n:.0e}, rank {k}, {nodes} nodes of {cores} cores:")
    print(f"  computing {computing:.1f} s a sweep; {moving / 1e9:.1f} GB to each node, {moving / BANDWIDTH:.1f} s")
    print(f"  a node keeps {owned / 1e9:.1f} GB and fetches up to {max(lines) * line / 1e9:.1f} GB at a time")
    print(f"  the driver draws the start's numbers in {(m + n) * k * DRAW:.0f} s, once")
    save(
        f"predicted, {nnz:.0e} entries, {nodes} nodes of {cores} cores",
        computing_seconds=round(computing, 1),
        received_gb=round(moving / 1e9, 1),
        moving_seconds=round(moving / BANDWIDTH, 1),
        kept_gb=round(owned / 1e9, 1),
        fetched_gb=round(max(lines) * line / 1e9, 1),
        drawing_seconds=round((m + n) * k * DRAW),
    )


def main() -> None:
    if sys.argv[1:] == ["predict"]:
        predict(1e10, 1e8, 1e7, 64, 1)
        predict(1e10, 1e8, 1e7, 64, 16)
        predict(1e11, 1e9, 1e8, 512, 16)
        return
    found = {size: fastest(*size) for size in [*FITTED, *HELD_OUT]}
    rates = solve_positive([found[size][0] for size in FITTED], [found[size][1][0] for size in FITTED])
    print("a, b, c, d, e, h =", rates)
    worst, seconds = {"fitted": 0.0, "held out": 0.0}, {}
    for size, (own, (workers, driver)) in found.items():
        mark, guess = "held out" if size in HELD_OUT else "fitted", float(np.dot(own, rates))
        worst[mark] = max(worst[mark], abs(guess / workers - 1))
        name = "{} entries, {} in a row, rank {}".format(*size)
        seconds[name] = round(workers, 4), round(guess, 4)
        print(f"{name}: {workers:.3f} s, model {guess:.3f} ({guess / workers - 1:+.0%}) {mark}; driver {driver:.4f} s")
    largest = {mark: round(error, 4) for mark, error in worst.items()}
    each = {f"{name}_ns": round(rate * 1e9, 3) for name, rate in zip("abcdeh", rates)}
    save("cost model", **each, **largest, measured_and_modelled=seconds)
    print("largest errors: " + "; ".join(f"{mark}: {error:.0%}" for mark, error in worst.items()))


if __name__ == "__main__":
    main()
