"""The cost model of docs/scaling.md: fitted to some sizes and ranks, checked against others.

    worker CPU seconds of a sweep = a nnz (k + 1)(k + 2) + b nnz q + c (m + n)(k^3/6 + k^2)      q: padded width
    driver CPU seconds of a sweep = d + e (m + n) q

CPU seconds, not wall seconds, so that what else the machine does matters less.
"""

import time

import numpy as np
from scaling import matrix

from lorank.distributed.parts import parts_of
from lorank.distributed.problem import COLS, ROWS, BlockProblem, Here
from lorank.linalg.factors import padded_width
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating

FITTED = [(1_000_000, 10), (1_000_000, 20), (2_000_000, 10), (4_000_000, 10), (4_000_000, 20), (8_000_000, 20)]
HELD_OUT = [(3_000_000, 10), (2_000_000, 20), (6_000_000, 20)]


class Timed(Here):
    """The engine of this process with one thread, which adds up its CPU seconds."""

    seconds = 0.0

    def run(self, *args, **kwargs):
        began = time.process_time()
        answer = super().run(*args, **kwargs)
        self.seconds += time.process_time() - began
        return answer


def measure(entries: int, k: int, sweeps: int = 5):
    data = matrix(entries)
    engine = Timed({ROWS: parts_of(data.by_row), COLS: parts_of(data.by_col)}, 1)
    problem = BlockProblem(data, FactoredNNFN(lam=5.0), k, None, 1, engine=engine)
    solver = Alternating()
    state = solver.step(problem, solver.init(problem, None, 0))
    best = (np.inf, np.inf)
    for _ in range(sweeps):
        engine.seconds, began = 0.0, time.process_time()
        state = solver.step(problem, state)
        whole = time.process_time() - began
        best = min(best[0], engine.seconds), min(best[1], whole - engine.seconds)
    lines = sum(data.shape)
    worker = data.nnz * (k + 1) * (k + 2), data.nnz * padded_width(k), lines * (k**3 / 6 + k**2)
    driver = 1.0, lines * padded_width(k)
    return worker, driver, best


def solve_positive(terms, seconds):
    """Least squares in relative error, with no negative rate."""
    from scipy.optimize import nnls

    A, y = np.array(terms, float), np.array(seconds)
    scale = A.max(axis=0)
    return nnls(A / scale / y[:, None], np.ones(len(y)))[0] / scale


def main() -> None:
    known = [measure(*size) for size in FITTED]
    rates = [solve_positive([w for w, _, _ in known], [t[0] for _, _, t in known])]
    rates.append(solve_positive([d for _, d, _ in known], [t[1] for _, _, t in known]))
    print("a, b, c =", rates[0], " d, e =", rates[1])
    for (entries, k), found in [*zip(FITTED, known), *((size, measure(*size)) for size in HELD_OUT)]:
        mark = "held out" if (entries, k) in HELD_OUT else "fitted"
        guess = [float(np.dot(terms, rate)) for terms, rate in zip(found[:2], rates)]
        worker, driver = found[2]
        print(
            f"{entries} k={k}: worker {worker:.3f} s, model {guess[0]:.3f} ({guess[0] / worker - 1:+.0%}); "
            f"driver {driver:.4f} s, model {guess[1]:.4f} ({guess[1] / driver - 1:+.0%}) {mark}"
        )


if __name__ == "__main__":
    main()
