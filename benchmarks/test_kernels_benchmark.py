"""Times of the kernels one by one, on one thread: a slower commit shows.

make bench-kernels                                                   saved in .benchmarks
pytest benchmarks/test_kernels_benchmark.py --benchmark-compare      beside the last saved run
"""

import numpy as np
import pytest

from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import FactoredNuclear

ENTRIES, ROWS, COLS = 300_000, 3_000, 4_000


@pytest.fixture(scope="module", params=["float64", "float32"])
def triplets(request):
    rng = np.random.default_rng(0)
    cells = rng.permutation(np.unique(rng.integers(ROWS * COLS, size=ENTRIES)))
    return cells // COLS, cells % COLS, rng.standard_normal(cells.size).astype(request.param)


@pytest.fixture(params=[5, 10, 20, 50])
def case(request, triplets):
    """A problem of this rank, and factors in its shape."""
    k, rng = request.param, np.random.default_rng(1)
    W, H = (rng.standard_normal((size, k)).astype(triplets[2].dtype) for size in (ROWS, COLS))
    seen = Observations.from_coo(*triplets, (ROWS, COLS))
    return Problem(seen, FactoredNuclear(lam=1.0), k, n_jobs=1), Factors.of(W, H)


def test_solve_lines(benchmark, case):
    problem, factors = case
    benchmark(problem.ridge_regressions, factors, np.eye(factors.k))


def test_gradient_lines(benchmark, case):
    problem, factors = case
    benchmark(problem.gradient_left, factors)


def test_gram(benchmark, case):
    problem, factors = case
    benchmark(problem.gram, factors.left, factors.k)


def test_predict(benchmark, case):
    problem, factors = case
    seen = problem.observations
    benchmark(factors.predict, seen.rows, seen.cols, problem.workers)


def test_frame(benchmark, case):
    problem, factors = case
    benchmark(problem.frame, factors)


def test_preparation(benchmark, triplets):
    benchmark(lambda: Observations.from_coo(*triplets, (ROWS, COLS)).by_col)
