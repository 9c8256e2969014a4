"""Arithmetic at X = U diag(sigma) V^T against dense arrays."""

import numpy as np
import pytest

from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import NNFN
from lorank.side_information import GraphLaplacian

M, N = 12, 9


def path(size, weight):
    return GraphLaplacian.from_adjacency(np.eye(size, k=1) + np.eye(size, k=-1), weight)


@pytest.fixture
def seen():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((M, N))
    X[rng.random((M, N)) < 0.4] = np.nan
    return X


@pytest.fixture
def start():
    rng = np.random.default_rng(1)
    W, H, a, b = (rng.standard_normal(shape) for shape in ((M, 3), (N, 3), M, N))
    return Factors.of(W, H, a, b, 0.7)


def plain(factors):
    return Factors.of(factors.W, factors.H)


@pytest.mark.parametrize("sides", [(), ("row",), ("col",), ("row", "col")])
def test_a_gradient_step_is_that_of_the_dense_objective(seen, start, sides):
    graphs = {f"{side}_side": path(M if side == "row" else N, 0.4) for side in sides}
    problem = Problem(Observations.from_dense(seen), NNFN(lam=0.5), 5, n_jobs=1, **graphs)
    point = problem.start_point(plain(start))
    X = plain(start).dense()
    np.testing.assert_allclose(point.factors.dense(), X, atol=1e-12)
    gradient = np.where(np.isnan(seen), 0.0, X - seen)
    value = 0.5 * np.nansum((X - seen) ** 2) + NNFN(lam=0.5).value(np.linalg.svd(X, compute_uv=False))
    for side in sides:
        L = graphs[f"{side}_side"].dot(np.eye(M if side == "row" else N))
        gradient += L @ X if side == "row" else X @ L
        value += 0.5 * np.trace(X.T @ L @ X if side == "row" else X @ L @ X.T)
    assert problem.point_objective(point) == pytest.approx(value)
    Z = problem.gradient_step(point.U * point.sigma, point.V, point.entries, point.bias)
    dense = X - gradient / problem.lipschitz
    np.testing.assert_allclose(Z.dot(np.eye(N)), dense, atol=1e-12)
    np.testing.assert_allclose(Z.transposed_dot(np.eye(M)), dense.T, atol=1e-12)


def test_biases_are_fitted_one_side_after_the_other(seen, start):
    problem = Problem(Observations.from_dense(seen), NNFN(lam=0.5), 5, bias_ridges=(0.3, 0.7), n_jobs=1)
    point = problem.start_point(start)
    F = problem.point_objective(point)
    sigma = start.singular_values()
    expected = problem.loss(start) + NNFN(lam=0.5).value(sigma) + problem.bias_penalty(start)
    assert pytest.approx(expected) == F
    np.testing.assert_allclose(point.factors.dense(), start.dense(), atol=1e-12)
    for _ in range(200):
        point, fitted = problem.fitted_point(point.U, point.sigma, point.V, point.bias)
        assert fitted <= F + 1e-12
        F = fitted
    # At the end no bias, nor the offset, can be moved to a lower F.
    for at in (0, 1, 5, M + 1, M + N):
        for step in (1e-4, -1e-4):
            bias = point.bias.copy()
            bias[at] += step
            assert problem.point_objective(problem.point(point.U, point.sigma, point.V, bias)) > F
