"""Conjugate gradients on lines against the exact solution of the same regressions."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from lorank import MatrixCompletion
from lorank.linalg import Factors, diagonal_frame
from lorank.observations import Observations
from lorank.problems import Problem, Unobserved
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating, Stopping, solve

M, N, K = 23, 31, 9


def some_problem(dtype=np.float64, weighted=True, unobserved=True, power=0.7, n_jobs=1):
    rng = np.random.default_rng(0)
    mask = rng.random((M, N)) < 0.4
    mask[2] = False  # a row without entries
    X = np.where(mask, rng.standard_normal((M, N)) + 1, np.nan).astype(dtype)
    weights = np.where(mask, 0.5 + 2 * rng.random((M, N)), 1.0).astype(dtype) if weighted else None
    beyond = {"unobserved": Unobserved(0.3, 0.4)} if unobserved else {}
    seen = Observations.from_dense(X, weights=weights)
    return Problem(seen, FactoredNNFN(lam=1.0), K, None, n_jobs, frequency_power=power, **beyond)


def some_factors(dtype=np.float64):
    rng = np.random.default_rng(1)
    return Factors.of(*(rng.standard_normal((size, K)).astype(dtype) for size in (M, N)))


def ridge_and_pull():
    B = np.random.default_rng(2).standard_normal((2, K, K))
    return B[0] @ B[0].T + np.eye(K), 0.1 * B[1]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("unobserved", "power"), [(True, 0.7), (True, 0.0), (False, 0.0)])
def test_many_half_steps_reach_the_exact_solution(transposed, weighted, unobserved, power):
    problem = some_problem(weighted=weighted, unobserved=unobserved, power=power)
    factors = some_factors().transposed() if transposed else some_factors()
    ridge, _ = ridge_and_pull()
    exact, least = problem.ridge_regressions(factors, ridge, transposed=transposed)
    for _ in range(30):
        left, loss = problem.improved_regressions(factors, ridge, transposed=transposed)
        factors = replace(factors, left=left)
    np.testing.assert_allclose(left, exact, atol=1e-8)
    assert loss == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_half_step_comes_near_and_no_line_gets_worse(dtype):
    problem, factors = some_problem(dtype), some_factors(dtype)
    ridge, pull = ridge_and_pull()
    left, loss = problem.improved_regressions(factors, ridge, pull)
    assert left.dtype == dtype
    assert loss == pytest.approx(problem.loss(replace(factors, left=left)), rel=1e-4 if dtype == np.float32 else 1e-10)
    exact, _ = problem.ridge_regressions(factors, ridge, pull)
    H, C = factors.H.astype(float), np.full((M, N), 0.3)
    C[problem.observations.rows, problem.observations.cols] = problem.observations.weights
    shares = problem.shares(False)
    for i in range(M):
        A = H.T @ (C[i, :, None] * H) + shares[i] * ridge
        far, near = (factors.W[i] - exact[i, :K]).astype(float), (left[i, :K] - exact[i, :K]).astype(float)
        # In the norm of the system, which is what the objective of a line grows by.
        assert near @ A @ near <= 0.05 * (far @ A @ far)


def test_the_same_bits_at_any_number_of_threads(monkeypatch):
    from lorank.kernels import parallel

    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 1)
    ridge, pull = ridge_and_pull()
    found = [some_problem(n_jobs=n).improved_regressions(some_factors(), ridge, pull)[0] for n in (1, 2, 5)]
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("theta", [0.0, 1.0])
def test_fits_end_at_the_same_objective(monkeypatch, theta):
    """With conjugate gradients or with exact half-steps; theta = 1 has a direction without a ridge."""
    problem = some_problem().with_regularizer(FactoredNNFN(lam=1.0, theta=theta))
    ends = []
    for large in (1, 1000):
        monkeypatch.setattr("lorank.problems.factored.LARGE_RANK", large)
        ends.append(solve(Alternating(), problem, stopping=Stopping(1e-7, 2000), seed=0).objective)
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)


def test_diagonal_frame():
    B = np.random.default_rng(0).standard_normal((2, 6, 6))
    base, ridge = B[0] @ B[0].T, B[1][:, :3] @ B[1][:, :3].T  # a ridge on three directions only
    T, inverse, r = diagonal_frame(base, ridge, 1e-12)
    np.testing.assert_allclose(T.T @ (base + ridge) @ T, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(T.T @ ridge @ T, np.diag(r), atol=1e-9)
    np.testing.assert_allclose(T @ inverse, np.eye(6), atol=1e-9)


def test_without_a_ridge_lines_are_solved():
    """No ridge of its own may come in: the fit would end away from data that it can reproduce."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 120))
    X[rng.random(X.shape) < 0.3] = np.nan
    with warnings.catch_warnings(action="ignore"):
        fitted = MatrixCompletion("mf", 32, 0.0, biases=False, features=None, random_state=0, max_iter=30).fit(X)
    assert fitted.result_.history.objective[-1] < 1e-3
