"""What was not observed counts a little: every formula against sums over all entries of a small matrix."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.losses import Huber
from lorank.observations import Observations
from lorank.problems import Problem, Unobserved
from lorank.regularizers import FactoredGSR, FactoredNNFN, FactoredNuclear, Nuclear
from lorank.solvers import PALM, Alternating, GradientDescent, ProximalGradient, Stopping, solve

M, N, K = 14, 9, 3
W0, R0 = 0.3, 0.4


def data(weighted=True, seed=0):
    rng = np.random.default_rng(seed)
    mask = rng.random((M, N)) < 0.4
    mask[2] = False
    X = np.where(mask, rng.standard_normal((M, N)) + 1, np.nan)
    C = np.where(mask, 0.5 + 2 * rng.random((M, N)) if weighted else 1.0, W0)
    return X, C, Observations.from_dense(X, weights=np.where(mask, C, 1.0))


def some_factors(biased, seed=1):
    rng = np.random.default_rng(seed)
    W, H, a, b = (rng.standard_normal(shape) for shape in ((M, K), (N, K), M, N))
    return Factors.of(W, H, a, b, 0.7) if biased else Factors.of(W, H)


def brute_force(factors, X, C):
    """The loss as a sum over all m x n entries."""
    return 0.5 * np.sum(C * (factors.dense() - np.where(np.isnan(X), R0, X)) ** 2)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_gradients(biased, weighted):
    X, C, seen = data(weighted)
    factors = some_factors(biased)
    problem = Problem(seen, FactoredNuclear(lam=0.0), K, (1.0, 1.0) if biased else None, unobserved=Unobserved(W0, R0))
    assert problem.loss(factors) == pytest.approx(brute_force(factors, X, C))
    slopes = C * (factors.dense() - np.where(np.isnan(X), R0, X))
    left, loss = problem.gradient_left(factors)
    right, _ = problem.gradient_left(factors.transposed(), transposed=True)
    assert loss == pytest.approx(brute_force(factors, X, C))
    for found, expected, bias in (
        (left, slopes @ factors.H, slopes.sum(1)),
        (right, slopes.T @ factors.W, slopes.sum(0)),
    ):
        np.testing.assert_allclose(found[:, :K], expected, atol=1e-10)
        if biased:
            np.testing.assert_allclose(found[:, K], bias, atol=1e-10)
    for one, other in zip(problem.gradients(factors), (left, right)):
        np.testing.assert_allclose(one, other, atol=1e-10)
    if biased:
        assert problem.mean == pytest.approx(np.average(np.where(np.isnan(X), R0, X), weights=C))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_half_steps(biased, power):
    X, C, seen = data()
    factors = some_factors(biased)
    ridges = (0.9, 0.8) if biased else None
    problem = Problem(seen, FactoredNuclear(lam=1.0), K, ridges, unobserved=Unobserved(W0, R0), frequency_power=power)
    ridge, pull = np.diag([1.0, 2.0, 3.0]), 0.3 * np.eye(K)
    out, loss = problem.ridge_regressions(factors, ridge, pull)
    shares = C.sum(1) / C.sum(1).mean() if power else np.ones(M)
    for i in range(M):
        F, target, R = factors.H, np.where(np.isnan(X[i]), R0, X[i]), shares[i] * ridge
        right = shares[i] * factors.W[i] @ pull
        if biased:
            F, target = np.column_stack([F, np.ones(N)]), target - factors.offset - factors.col_bias
            R = np.block([[R, np.zeros((K, 1))], [np.zeros((1, K)), 0.9]])
            right = np.append(right, 0.0)
        w = np.linalg.solve(F.T @ (C[i, :, None] * F) + R, F.T @ (C[i] * target) + right)
        np.testing.assert_allclose(out[i, : K + biased], w, atol=1e-9)
    assert loss == pytest.approx(brute_force(replace(factors, left=out), X, C))


@pytest.mark.parametrize(
    ("solver", "regularizer", "power"),
    [
        (Alternating(), FactoredNNFN(lam=0.8), 0.0),
        (Alternating(), FactoredNNFN(lam=0.8), 0.7),
        (Alternating(), FactoredNuclear(lam=0.8), 1.0),
        (GradientDescent(), FactoredNNFN(lam=0.8), 0.0),
        (GradientDescent(in_turn=True), FactoredNuclear(lam=0.8), 0.0),
        (PALM(), FactoredGSR(lam=0.8), 0.0),
    ],
)
@pytest.mark.parametrize("biased", [False, True])
def test_solvers_end_at_a_minimum_of_the_sum_over_all_entries(solver, regularizer, power, biased):
    """Small random moves of the factors raise F, computed with m x n arrays."""
    X, C, seen = data()
    problem = Problem(
        seen, regularizer, K, (1.5, 1.5) if biased else None, unobserved=Unobserved(W0, R0), frequency_power=power
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = solve(solver, problem, stopping=Stopping(1e-13, 20000), seed=0)
    best = result.factors

    def objective(factors):
        roots = [np.sqrt(C.sum(axis) / C.sum(axis).mean()) ** power for axis in (1, 0)]
        W, H = factors.W * roots[0][:, None], factors.H * roots[1][:, None]
        sigma = np.linalg.svd(W @ H.T, compute_uv=False)[:K]
        balanced = np.diag(sigma)
        biases = problem.bias_penalty(factors)
        return brute_force(factors, X, C) + regularizer.value(balanced, balanced) + biases

    reached = objective(best)
    rng = np.random.default_rng(3)
    for size in (1e-2, 1e-3):
        for _ in range(20):
            moved = [side.copy() for side in (best.left, best.right)]
            for side in moved:
                side[:, : best.k + biased] += size * rng.standard_normal((len(side), best.k + biased))
            assert objective(replace(best, left=moved[0], right=moved[1])) > reached - 1e-6 * abs(reached)


def test_no_cost_where_nothing_is_asked():
    """Without weights, what was not observed and shares, the same bits as ever: the kernel's arguments are None."""
    _, _, seen = data(weighted=False)
    problem = Problem(seen, FactoredNuclear(lam=1.0), K)
    assert seen.weights is None
    assert problem.shares(False) is None
    assert problem._base(some_factors(False)) == (None, 0.0)


def test_what_cannot_be_meant():
    _, _, seen = data()
    for weight in (0.0, -1.0, np.inf):
        with pytest.raises(InputError, match="unobserved_weight must be a finite number > 0"):
            Unobserved(weight)
    with pytest.raises(InputError, match="less than the weight of every observed entry"):
        Problem(seen, FactoredNuclear(lam=1.0), K, unobserved=Unobserved(0.9))
    with pytest.raises(InputError, match="squared loss"):
        Problem(seen, FactoredNuclear(lam=1.0), K, pointwise=Huber(), unobserved=Unobserved(0.1))
    with pytest.raises(InputError, match="does not take unobserved_weight"):
        solve(ProximalGradient(), Problem(seen, Nuclear(lam=1.0), K, unobserved=Unobserved(0.1)))
    with pytest.raises(InputError, match="does not take frequency_power"):
        solve(GradientDescent(), Problem(seen, FactoredNuclear(lam=1.0), K, frequency_power=0.5))
