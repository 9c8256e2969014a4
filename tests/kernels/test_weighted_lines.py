"""The kernels with weights, against the same thing written with numpy."""

from dataclasses import replace

import numpy as np
import pytest

from lorank.linalg import Factors
from lorank.losses import Huber, Logistic
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import FactoredNuclear
from lorank.solvers.half_steps import normal_equations

M, N, K = 11, 150, 5


def weighted_data(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    mask = rng.random((M, N)) < 0.6
    mask[2] = False  # a row that was never seen
    X = np.where(mask, rng.standard_normal((M, N)), np.nan)
    C = np.exp(rng.standard_normal((M, N)))
    return X, C, Observations.from_dense(X.astype(dtype), weights=C)


def some_factors(biased, dtype=np.float64, seed=1):
    rng = np.random.default_rng(seed)
    W, H, a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((M, K), (N, K), M, N))
    return Factors.of(W, H, a, b, 0.7) if biased else Factors.of(W, H)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 3e-3)])
@pytest.mark.parametrize("biased", [False, True])
def test_weighted_ridge_regressions(dtype, tolerance, biased):
    X, C, seen = weighted_data(dtype)
    factors = some_factors(biased, dtype)
    problem = Problem(seen, FactoredNuclear(lam=1.0), K, (0.9, 0.9) if biased else None)
    ridge = np.diag(np.arange(1.0, K + 1))
    out, loss = problem.ridge_regressions(factors, ridge, 0.3 * np.eye(K))
    expected = 0.0
    for i in range(M):
        j = np.flatnonzero(~np.isnan(X[i]))
        F, target, R, right = factors.H[j].astype(float), X[i, j], ridge, 0.3 * factors.W[i].astype(float)
        if biased:
            F, R = np.column_stack([F, np.ones(j.size)]), np.diag([*range(1, K + 1), 0.9])
            target, right = target - factors.offset - factors.col_bias[j], np.append(right, 0.0)
        w = np.linalg.solve(F.T @ (C[i, j, None] * F) + R, F.T @ (C[i, j] * target) + right)
        np.testing.assert_allclose(out[i, : K + biased], w, rtol=tolerance, atol=tolerance)
        expected += 0.5 * C[i, j] @ (F @ w - target) ** 2
    assert loss == pytest.approx(expected, rel=tolerance)
    solved = replace(factors, left=out)
    assert problem.loss(solved) == pytest.approx(loss, rel=tolerance)


def test_weighted_normal_equations():
    X, C, seen = weighted_data()
    factors = some_factors(False)
    G, B, squares = normal_equations(seen.by_row, factors, Problem(seen, None, K).workers)
    known = np.nan_to_num(X)
    weights = np.where(np.isnan(X), 0, C)
    np.testing.assert_allclose(G, np.einsum("ij,ja,jb->iab", weights, factors.H, factors.H))
    np.testing.assert_allclose(B, (weights * known) @ factors.H, atol=1e-12)
    assert squares == pytest.approx(np.sum(weights * known**2))


@pytest.mark.parametrize("pointwise", [None, Huber(0.5), Logistic()])
@pytest.mark.parametrize("biased", [False, True])
def test_weighted_gradients_by_finite_differences(pointwise, biased):
    _, _, seen = weighted_data()
    if isinstance(pointwise, Logistic):
        seen = seen.with_values(np.sign(seen.values))
    factors = some_factors(biased)
    problem = Problem(seen, FactoredNuclear(lam=0.0), K, (1.0, 1.0) if biased else None)
    problem = problem if pointwise is None else replace(problem, pointwise=pointwise)
    both = problem.gradients(factors)
    slopes = [problem.gradient_left(factors)[0], problem.gradient_left(factors.transposed(), transposed=True)[0]]
    for one, other in zip(both, slopes):
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert problem.gradient_left(factors)[1] == pytest.approx(problem.loss(factors))
    for side, name in ((0, "left"), (1, "right")):
        for i, a in [(0, 0), (4, 3), (7, 1)] + [(3, K)] * biased:
            ends = []
            for step in (1e-6, -1e-6):
                moved = getattr(factors, name).copy()
                moved[i, a] += step
                ends.append(problem.loss(replace(factors, **{name: moved})))
            assert slopes[side][i, a] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-6)
