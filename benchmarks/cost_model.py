"""The cost model of docs/scaling.md: fitted to some sizes and ranks, checked against others.

    worker CPU seconds of a sweep = a nnz (k + 1)(k + 2) + b nnz q + c nnz q f        q: padded width
    driver CPU seconds of a sweep = d + e (m + n) q + g (m + n) k^2

f is the share of the factors' lines that the second-level cache does not hold, averaged over both half-sweeps. The
driver's k^2 is its Grams, its q what it reads and writes of the factors, d its k x k matrices and Python.

CPU seconds, not wall seconds, so that what else the machine does matters less; yet a busy machine also empties the
caches, so that an idle one is better. Every size is measured in several processes, and the fastest counts: whether the
driver's memory is new in each sweep, at 2 ms for 10 MB, is up to what the allocator did before.

python benchmarks/cost_model.py
"""

import time
from multiprocessing import get_context

import numpy as np
from scaling import matrix

from lorank.distributed.parts import parts_of
from lorank.distributed.problem import COLS, ROWS, BlockProblem, LocalEngine
from lorank.linalg.factors import padded_width
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating

FITTED = [
    *((size, 10) for size in (1_000_000, 2_000_000, 4_000_000, 16_000_000)),
    *((size, 20) for size in (1_000_000, 4_000_000, 8_000_000)),
]
HELD_OUT = [(3_000_000, 10), (2_000_000, 20), (6_000_000, 20), (12_000_000, 10)]
# Bytes of the second-level cache of a core of the machine that docs/scaling.md speaks of.
CACHE = 1 << 20
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
    problem = BlockProblem(data, FactoredNNFN(lam=5.0), k, None, 1, engine=engine)
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
    q, lines = padded_width(k), sum(data.shape)
    outside = sum(max(0.0, 1 - CACHE / (size * q * data.dtype.itemsize)) for size in data.shape) / 2
    worker = data.nnz * (k + 1) * (k + 2), data.nnz * q, data.nnz * q * outside
    driver = 1.0, lines * q, lines * k**2
    return worker, driver, (min(workers), min(drivers))


def fastest(entries: int, k: int):
    """Terms of both parts, and the least seconds of each over some processes."""
    found = []
    for _ in range(PROCESSES):
        with get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(measure, (entries, k)))
    return *found[0][:2], tuple(min(seconds) for seconds in zip(*(times for _, _, times in found)))


def solve_positive(terms, seconds):
    """Least squares in relative error, with no negative rate."""
    from scipy.optimize import nnls

    A, y = np.array(terms, float), np.array(seconds)
    scale = A.max(axis=0)
    return nnls(A / scale / y[:, None], np.ones(len(y)))[0] / scale


def main() -> None:
    known = [fastest(*size) for size in FITTED]
    rates = [solve_positive([w for w, _, _ in known], [t[0] for _, _, t in known])]
    rates.append(solve_positive([d for _, d, _ in known], [t[1] for _, _, t in known]))
    print("a, b, c =", rates[0], " d, e, g =", rates[1])
    worst = {"fitted": [0.0, 0.0], "held out": [0.0, 0.0]}
    for (entries, k), found in [*zip(FITTED, known), *((size, fastest(*size)) for size in HELD_OUT)]:
        mark = "held out" if (entries, k) in HELD_OUT else "fitted"
        guess = [float(np.dot(terms, rate)) for terms, rate in zip(found[:2], rates)]
        worker, driver = found[2]
        worst[mark] = [max(old, abs(g / t - 1)) for old, g, t in zip(worst[mark], guess, found[2])]
        print(
            f"{entries} k={k}: worker {worker:.3f} s, model {guess[0]:.3f} ({guess[0] / worker - 1:+.0%}); "
            f"driver {driver:.4f} s, model {guess[1]:.4f} ({guess[1] / driver - 1:+.0%}) {mark}"
        )
    print("largest errors: " + "; ".join(f"{mark}: worker {w:.0%}, driver {d:.0%}" for mark, (w, d) in worst.items()))


if __name__ == "__main__":
    main()
