"""Algorithm 1 and FaNCL: seconds to a tolerance of 1e-4 on the synthetic problem of m = 2000, and the SVD's part.

    python benchmarks/proximal.py [--size 2000] [--repeats 5]

"plain" is the algorithm as it stands, a gradient step and a proximal step, and "momentum" adds Nesterov's; "default" is
what a user gets, where sweeps over the factors stand between proximal steps. One thread; the fastest of the repeats.
The SVD's part is that of all truncated SVDs in the seconds of the fit.
"""

import argparse
import time
import warnings

from sklearn.exceptions import ConvergenceWarning

from lorank import registry
from lorank.datasets import synthetic
from lorank.problems import Problem
from lorank.solvers import ProximalGradient, Stopping, proximal, solve

METHODS = ("nnfn-prox", "capped-l1", "lsp", "mcp")
RANK = 5
# The singular value that a proximal step sets to zero: far below those of the data, far above none.
STRENGTH = 1.0


class Timed:
    """A function that adds up how long its calls take."""

    def __init__(self, function):
        self.function, self.seconds = function, 0.0

    def __call__(self, *args, **named):
        started = time.perf_counter()
        try:
            return self.function(*args, **named)
        finally:
            self.seconds += time.perf_counter() - started


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
            result = solve(ProximalGradient(accelerate), problem, stopping=Stopping(tol=1e-4), seed=0)
        finally:
            proximal.truncated_svd = original
        if best is None or result.seconds < best[0]:
            best = result.seconds, timed.seconds / result.seconds, result
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    data = synthetic(m=arguments.size, seed=0)
    print("| method | steps | seconds | iterations | SVD's part | NMSE |\n|---|---|---|---|---|---|")
    for method in METHODS:
        for name, accelerate in (("plain", "none"), ("momentum", "momentum"), ("default", "sweeps")):
            seconds, part, result = measure(method, accelerate, data.train, arguments.repeats)
            error = data.nmse(result.factors.W, result.factors.H)
            print(f"| {method} | {name} | {seconds:.2f} | {result.n_iter} | {part:.0%} | {error:.4f} |", flush=True)


if __name__ == "__main__":
    main()
