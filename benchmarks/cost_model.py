"""The cost model of docs/explanation/distributed.md: fitted to some sizes and ranks, checked against others.

    workers' CPU seconds of a sweep = a nnz (k + 1)(k + 2) + b nnz q + c nnz q f + e (m + n) q + g (m + n) k^2
    driver's CPU seconds of a sweep = d                                                   q: padded width

f is the share of the factors' lines that the second-level cache does not hold, averaged over both half-sweeps. What
goes with the lines (Grams, momentum, fetching) is done by their owners: all but d is divided by the number of workers.

CPU seconds, not wall seconds, so that what else the machine does matters less; yet a busy machine also empties the
caches, so that an idle one is better. Every size is measured in several processes, and the fastest counts.

python benchmarks/cost_model.py             # measure, fit, check
python benchmarks/cost_model.py predict     # 10^10 entries on 64 nodes and 10^11 on 512, by the rates in RATES

Both write to docs/benchmarks/distributed.json.
"""

import sys
import time
from multiprocessing import get_context

import numpy as np
from measured import save
from scaling import matrix

from lorank.distributed.engines import LocalEngine
from lorank.distributed.parts import parts_of
from lorank.distributed.problem import COLS, ROWS, Elsewhere, FolderProblem
from lorank.distributed.travel import BANDWIDTH
from lorank.linalg.factors import padded_width
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating

FITTED = [
    *((size, 10) for size in (1_000_000, 2_000_000, 4_000_000, 16_000_000)),
    *((size, 20) for size in (1_000_000, 4_000_000, 8_000_000)),
]
HELD_OUT = [(3_000_000, 10), (2_000_000, 20), (6_000_000, 20), (12_000_000, 10)]
# Bytes of the second-level cache of a core of the machine that docs/explanation/distributed.md speaks of.
CACHE = 1 << 20
# Rates a, b, c, e and g that were fitted on that machine, in seconds, and seconds to draw a normal number.
RATES, DRAW = (0.088e-9, 0.93e-9, 0.51e-9, 0.64e-9, 0.13e-9), 9e-9
# Sweeps are repeated for so many CPU seconds in so many processes.
PATIENCE, PROCESSES = 2.0, 4


class Timed(LocalEngine):
    """The engine of this process with one thread, which adds up its CPU seconds."""

    seconds = 0.0

    def run(self, *args, **kwargs):
        began = time.process_time()
        answer = super().run(*args, **kwargs)
        self.seconds += time.process_time() - began
        return answer


def measure(entries: int, k: int):
    data = matrix(entries)
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
    return terms(data.nnz, *data.shape, k, data.dtype.itemsize), (min(workers), min(drivers))


def terms(nnz: float, m: float, n: float, k: int, itemsize: int):
    """What the rates a, b, c, e and g are multiplied with."""
    q, lines = padded_width(k), m + n
    outside = sum(max(0.0, 1 - CACHE / (size * q * itemsize)) for size in (m, n)) / 2
    return nnz * (k + 1) * (k + 2), nnz * q, nnz * q * outside, lines * q, lines * k**2


def fastest(entries: int, k: int):
    """The terms of a size, and the least seconds of workers and driver over some processes."""
    found = []
    for _ in range(PROCESSES):
        with get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(measure, (entries, k)))
    return found[0][0], tuple(min(seconds) for seconds in zip(*(times for _, times in found)))


def solve_positive(terms, seconds):
    """Least squares in relative error, with no negative rate."""
    from scipy.optimize import nnls

    A, y = np.array(terms, float), np.array(seconds)
    scale = A.max(axis=0)
    return nnls(A / scale / y[:, None], np.ones(len(y)))[0] / scale


def predict(nnz: float, m: float, n: float, nodes: int, cores: int, k: int = 20, itemsize: int = 4) -> None:
    """Seconds, bytes and memory of a sweep, a worker of so many threads on each node; entries are spread evenly."""
    line, share = padded_width(k) * itemsize, nnz / nodes
    computing = float(np.dot(terms(nnz, m, n, k, itemsize), RATES)) / nodes / cores
    # Distinct lines among the share of the entries that a node has.
    lines = [size * -np.expm1(-share / size) * (1 - 1 / nodes) for size in (n, m)]
    moving = sum(lines) * line
    owned = 2 * share * (itemsize + 4) + 5 * (m + n) / nodes * line
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
    known = [fastest(*size) for size in FITTED]
    rates = solve_positive([terms for terms, _ in known], [times[0] for _, times in known])
    print("a, b, c, e, g =", rates, " d =", np.median([times[1] for _, times in known]))
    worst = {"fitted": 0.0, "held out": 0.0}
    for (entries, k), (own, times) in [*zip(FITTED, known), *((size, fastest(*size)) for size in HELD_OUT)]:
        mark = "held out" if (entries, k) in HELD_OUT else "fitted"
        guess, (workers, driver) = float(np.dot(own, rates)), times
        worst[mark] = max(worst[mark], abs(guess / workers - 1))
        print(
            f"{entries} k={k}: workers {workers:.3f} s, model {guess:.3f} ({guess / workers - 1:+.0%}) {mark}; "
            f"driver {driver * 1e3:.1f} ms",
            flush=True,
        )
    save("cost model", **{f"{name}_ns": round(rate * 1e9, 3) for name, rate in zip("abceg", rates)}, **worst)
    print("largest errors: " + "; ".join(f"{mark}: {error:.0%}" for mark, error in worst.items()))


if __name__ == "__main__":
    main()
