"""The core's figures: errors on synthetic data and MovieLens-1M, memory of a large fit, start-up times.

    python benchmarks/core.py [synthetic] [movielens] [memory] [startup]      all of them by default

MovieLens-1M is read from LORANK_DATA (`movielens1m.mat` or `ratings.dat`) or from ../shared/data, and left out without.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lorank import MatrixCompletion
from lorank.datasets import movielens_1m, split, standardise, synthetic
from lorank.experiments.demo import least_squares_nmse

SEEDS = range(5)


def best_by_validation(train, validation, method, rank, weights, **params):
    """The model whose weight is best on the validation set."""
    fits = [MatrixCompletion(method, rank, lam, random_state=0, **params).fit(train) for lam in weights]
    return max(fits, key=lambda model: model.score(validation))


def row(name, errors, models):
    lams = sorted({model.lam for model in models})
    seconds = statistics.median(model.result_.seconds for model in models)
    print(
        f"  {name:28s} {np.mean(errors):.4f} +- {np.std(errors):.4f}   {1e3 * seconds:8.1f} ms"
        f"   {statistics.median(model.n_iter_ for model in models):5.0f} iterations   lam {lams}"
    )


def report_synthetic():
    print("Synthetic, mean of 5 seeds, NMSE; weight chosen on the validation set")
    for m, rank, bound in ((500, 5, "0.0203"), (1000, 5, "0.0188"), (2000, 5, "0.0179"), (500, 10, "-")):
        problems = [synthetic(m=m, seed=seed) for seed in SEEDS]
        floor = least_squares_nmse(problems[0].train.nnz, m, 5, 0.1)
        print(f" m = {m}, rank {rank}; to reach: {bound}; least squares at the true rank: {floor:.4f}")
        means = {}
        for method in ("nnfn", "factored-nuclear", "nnfn-prox"):
            weights = (0.01, 0.03, 0.1) if rank == 5 else (0.3, 0.5, 0.8, 1.0, 1.3)
            models = [best_by_validation(p.train, p.validation, method, rank, weights) for p in problems]
            errors = [p.nmse(*model.factors_) for p, model in zip(problems, models)]
            means[method] = np.mean(errors)
            row(method, errors, models)
        if rank == 10:
            print(f"  nnfn / factored-nuclear = {means['nnfn'] / means['factored-nuclear']:.3f} (to reach: 0.85)")


def report_movielens():
    folder = Path(os.environ.get("LORANK_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        print("MovieLens-1M: not here; set LORANK_DATA")
        return
    print("MovieLens-1M, 50/25/25, standardised, rank 10, RMSE, mean of 5 splits (to reach: nnfn 0.784, 0.008 under)")
    ratings = movielens_1m(folder)
    means = {}
    for method, params, weights in (
        ("nnfn", {}, (8.0, 10.0, 12.0)),
        ("factored-nuclear", {}, (6.0, 7.5, 9.0)),
        ("nnfn", {"theta": 0.5, "biases": True}, (12.0, 15.0, 18.0)),
    ):
        errors, models = [], []
        for seed in SEEDS:
            (train, validation, test), _ = standardise(*split(ratings, seed=seed))
            models.append(best_by_validation(train, validation, method, 10, weights, **params))
            errors.append(-models[-1].score(test))
        name = method + (", theta 0.5, biases" if params else "")
        means[name] = np.mean(errors)
        row(name, errors, models)
    print(f"  factored-nuclear - nnfn = {means['factored-nuclear'] - means['nnfn']:.4f}")


def report_memory():
    """Runs in a process of its own, so that the peak is that of this fit."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import core; core.large_fit()"
    subprocess.run([sys.executable, "-c", code], check=True)


def large_fit():
    rng = np.random.default_rng(0)
    size, entries = 1_000_000, 10_000_000
    cells = np.unique(rng.integers(size * size, size=entries))
    rows, cols = (cells // size).astype(np.int32), (cells % size).astype(np.int32)
    del cells
    values = rng.standard_normal(len(rows)).astype(np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    started = time.perf_counter()
    model = MatrixCompletion(rank=10, lam=1.0, dtype="float32", random_state=0, max_iter=10, tol=0).fit(
        (rows, cols, values)
    )
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"1,000,000 x 1,000,000, {len(rows):,} entries, rank 10, float32: {model.n_iter_} sweeps in {seconds:.1f} s")
    print(f"  peak {peak:.2f} GiB (making the data alone: {before:.2f}; to stay under: 2.5 GB = 2.33 GiB)")


FIT = (
    "import time, numpy as np\n"
    "from lorank import MatrixCompletion\n"
    "X = np.random.default_rng(0).standard_normal((50, 40))\n"
    "for _ in range(2):\n"
    "    start = time.perf_counter(); MatrixCompletion(rank=3).fit(X); print(time.perf_counter() - start)"
)


def report_startup():
    def run(code, **env):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env})
        return [float(line) for line in done.stdout.split()], done.stderr.strip()

    timed = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    mine, base = [], []
    for _ in range(5):
        mine += run(timed.format("lorank"))[0]
        base += run(timed.format("numba, sklearn.base, scipy.sparse.linalg"))[0]
    print(f"import lorank: {min(mine):.3f} s; import numba, sklearn.base, scipy.sparse.linalg: {min(base):.3f} s")
    with tempfile.TemporaryDirectory() as cache:
        (cold, _), said = run(FIT, NUMBA_CACHE_DIR=cache)
        (first, second), _ = min(run(FIT, NUMBA_CACHE_DIR=cache) for _ in range(3))
    print(f"first fit, cold kernel cache: {cold:.1f} s (to stay under: 20 s), saying: {said!r}")
    print(f"first fit, warm cache: {first:.3f} s, of which the second takes {second:.3f} (to stay under: 0.5 s more)")


REPORTS = {
    "synthetic": report_synthetic,
    "movielens": report_movielens,
    "memory": report_memory,
    "startup": report_startup,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or REPORTS:
        REPORTS[name]()
