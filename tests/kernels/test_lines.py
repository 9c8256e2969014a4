"""Every kernel against the same thing written with numpy."""

from dataclasses import replace

import numpy as np
import pytest

from lorank import kernels
from lorank.linalg import Factors, pad
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import FactoredNuclear

TOLERANCE = {np.float64: 1e-9, np.float32: 2e-3}


def some_observations(m, n, density, dtype, seed=0):
    rng = np.random.default_rng(seed)
    mask = rng.random((m, n)) < density
    mask[2] = False  # a row that was never seen
    X = np.where(mask, rng.standard_normal((m, n)), np.nan).astype(dtype)
    return X, Observations.from_dense(X)


def random_factors(m, n, k, biased, dtype, seed=1):
    rng = np.random.default_rng(seed)
    W, H, a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (n, k), m, n))
    return Factors.of(W, H, a, b, 0.7) if biased else Factors.of(W, H)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 3, 6, 7, 10, 17])
@pytest.mark.parametrize("biased", [False, True])
def test_solve_lines(dtype, k, biased):
    # 150 columns: some rows are longer than a block of the kernel, some are not.
    X, seen = some_observations(13, 150, 0.6, dtype)
    factors = random_factors(13, 150, k, biased, dtype)
    problem = Problem(seen, FactoredNuclear(lam=1.0), k, (0.9, 0.9) if biased else None, n_jobs=1)
    rng = np.random.default_rng(5)
    B = rng.standard_normal((k, k))
    ridge, pull = B @ B.T + np.eye(k), rng.standard_normal((k, k))
    out, loss = problem.ridge_regressions(factors, ridge, pull)
    expected_loss = 0.0
    for i in range(13):
        j = np.flatnonzero(~np.isnan(X[i]))
        F, target, R = factors.H[j].astype(float), X[i, j].astype(float), ridge
        right = factors.W[i].astype(float) @ pull
        if biased:
            F = np.column_stack([F, np.ones(j.size)])
            target = target - factors.offset - factors.col_bias[j]
            R = np.block([[ridge, np.zeros((k, 1))], [np.zeros((1, k)), 0.9]])
            right = np.append(right, 0.0)
        w = np.linalg.solve(F.T @ F + R, F.T @ target + right)
        np.testing.assert_allclose(out[i, : k + biased], w, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        expected_loss += 0.5 * np.sum((F @ w - target) ** 2)
    assert loss == pytest.approx(expected_loss, rel=1e-3 if dtype == np.float32 else 1e-9)
    assert not out[:, k + biased :].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_gradient_by_finite_differences(dtype, biased, transposed):
    """The kernel in its precision against differences of the loss in float64, at the same numbers."""
    _X, seen = some_observations(9, 30, 0.5, dtype)
    k = 4
    factors = random_factors(9, 30, k, biased, dtype)
    problem = Problem(seen, FactoredNuclear(lam=0.0), k, (1e-9, 1e-9) if biased else None, n_jobs=1)
    slope, loss = problem.gradient_left(factors.transposed() if transposed else factors, transposed)
    assert slope.dtype == dtype
    problem = replace(problem, observations=seen.astype("float64"))
    left, right = factors.left.astype(float), factors.right.astype(float)
    factors = replace(factors, left=left, right=right)
    view = factors.transposed() if transposed else factors
    assert loss == pytest.approx(problem.loss(factors), rel=1e-5 if dtype == np.float32 else 1e-12)
    step, rel = 1e-6, 1e-4 if dtype == np.float32 else 1e-5
    for i, a in [(0, 0), (4, 3), (5, 1)] + [(3, k)] * biased:
        both = []
        for sign in (1, -1):
            moved = view.left.copy()
            moved[i, a] += sign * step
            point = Factors(moved, view.right, k, biased, factors.offset)
            both.append(problem.loss(point.transposed() if transposed else point))
        assert slope[i, a] == pytest.approx((both[0] - both[1]) / (2 * step), rel=rel, abs=rel)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shape", [(40, 9), (9, 40), (600, 3)])
def test_both_gradients_are_those_of_the_two_sides(dtype, biased, shape):
    _X, seen = some_observations(*shape, 0.7, dtype)
    factors = random_factors(*shape, 11, biased, dtype)
    problem = Problem(seen, FactoredNuclear(lam=1.0), 11, (1.0, 1.0) if biased else None, n_jobs=1)
    left, right = problem.gradients(factors)
    used = 11 + biased
    for slope, view, side in ((left, factors, False), (right, factors.transposed(), True)):
        expected = problem.gradient_left(view, side)[0]
        np.testing.assert_allclose(slope[:, :used], expected[:, :used], rtol=1e-3 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("biased", [False, True])
def test_predict_pairs(dtype, biased):
    factors = random_factors(20, 30, 9, biased, dtype)
    rows, cols = np.repeat(np.arange(20), 30), np.tile(np.arange(30), 20)
    np.testing.assert_allclose(factors.predict(rows, cols), factors.dense().ravel(), rtol=1e-4, atol=1e-4)
    expected = factors.W @ factors.H.T + factors.row_bias[:, None] + factors.col_bias + factors.offset
    np.testing.assert_allclose(factors.dense(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m", [1, 100, 4096, 9000])
def test_gram_in_blocks(m):
    W = np.random.default_rng(0).standard_normal((m, 11))
    problem = Problem(Observations.from_dense(np.ones((2, 2))), FactoredNuclear(lam=1.0), 1)
    np.testing.assert_allclose(problem.gram(pad(W), 11), W.T @ W, rtol=1e-11, atol=1e-9)


def test_singular_lines_are_solved():
    # Two observations, rank five, no ridge: the system is singular, the answer must be finite.
    seen = Observations.from_coo([0, 0, 1], [0, 1, 2], [1.0, 2.0, 3.0], (4, 4))
    problem = Problem(seen, FactoredNuclear(lam=0.0), 4, n_jobs=1)
    factors = random_factors(4, 4, 4, False, np.float64)
    out, loss = problem.ridge_regressions(factors, np.zeros((4, 4)))
    assert np.isfinite(out).all()
    assert loss < 1e-6
    assert not out[2:].any()


def test_the_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(kernels.parallel, "WORTH_A_THREAD", 0)
    monkeypatch.setattr(kernels.gradients, "WORTH_A_PART", 10)
    _X, seen = some_observations(301, 200, 0.3, np.float64)
    factors = random_factors(301, 200, 6, True, np.float64)
    results = []
    for threads in (1, 2, 3, 7):
        problem = Problem(seen, FactoredNuclear(lam=1.0), 6, (1.0, 1.0), n_jobs=threads)
        solved = problem.ridge_regressions(factors, np.eye(6))
        slope = problem.gradient_left(factors)
        both = [slope.tobytes() for slope in problem.gradients(factors)]
        results.append(
            (solved[0].tobytes(), solved[1], slope[0].tobytes(), *both, problem.gram(factors.left, 6).tobytes())
        )
    assert all(result == results[0] for result in results)


def test_n_jobs():
    cores = kernels.available_cores()
    assert kernels.Workers(None).threads == cores
    assert kernels.Workers(3).threads == 3
    assert kernels.Workers(-1).threads == cores
    assert kernels.Workers(-100).threads == 1
