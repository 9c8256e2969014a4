"""Algorithm 1 and FaNCL: CPU seconds to a tolerance of 1e-4 on the synthetic problem of m = 2000, and the SVD's part.

    python benchmarks/proximal.py [--size 2000] [--repeats 5]

"plain" is the algorithm as it stands, a gradient step and a proximal step, and "momentum" adds Nesterov's; "default" is
what a user gets, where sweeps over the factors stand between proximal steps. One thread; the fastest of the repeats.
The SVD's part is that of all truncated SVDs in the seconds of the fit. Results: docs/benchmarks/proximal.json.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from lorank import registry
from lorank.datasets import synthetic
from lorank.problems import Problem
from lorank.solvers import ProximalGradient, Stopping, proximal, solve

OUT = Path(__file__).parents[1] / "docs" / "benchmarks" / "proximal.json"
METHODS = ("nnfn-prox", "capped-l1", "lsp", "mcp")
RANK = 5
# The singular value that a proximal step sets to zero: far below those of the data, far above none.
STRENGTH = 1.0


class Timed:
    """A function that adds up how long its calls take."""

    def __init__(self, function):
        self.function, self.seconds = function, 0.0

    def __call__(self, *args, **named):
        started = time.process_time()
        try:
            return self.function(*args, **named)
        finally:
            self.seconds += time.process_time() - started


def measure(method, accelerate, train, repeats):
    """Seconds, the part of the SVDs, and the result, of the fastest of the repeats."""
    found = registry.find(method)
    regularizer = found.regularizer(**found.at(STRENGTH, found.shapes[0]))
    best = None
    original = proximal.truncated_svd
    for _ in range(repeats):
        proximal.truncated_svd = timed = Timed(original)
        try:
            problem = Problem(train, regularizer, RANK, n_jobs=1)
            started = time.process_time()
            result = solve(ProximalGradient(accelerate), problem, stopping=Stopping(tol=1e-4), seed=0)
        finally:
            proximal.truncated_svd = original
        seconds = time.process_time() - started
        if best is None or seconds < best[0]:
            best = seconds, timed.seconds / seconds, result
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    data = synthetic(m=arguments.size, seed=0)
    print("| method | steps | seconds | iterations | SVD's part | NMSE |\n|---|---|---|---|---|---|")
    rows = []
    for method in METHODS:
        for name, accelerate in (("plain", "none"), ("momentum", "momentum"), ("default", "sweeps")):
            seconds, part, result = measure(method, accelerate, data.train, arguments.repeats)
            error = data.nmse(result.factors.W, result.factors.H)
            rows.append({"method": method, "steps": name, "seconds": seconds, "svd": part, "error": error})
            print(f"| {method} | {name} | {seconds:.2f} | {result.n_iter} | {part:.0%} | {error:.4f} |", flush=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
