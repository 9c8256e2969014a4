"""Alternating least squares at the last digits, where directions die."""

import numpy as np
import pytest

from lorank.linalg import Factors, accurate_balance, balance
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import NNFN, FactoredNNFN
from lorank.solvers import Alternating, Status, Stopping, solve


@pytest.mark.parametrize("seed", [2, 5, 9, 11])
@pytest.mark.parametrize("theta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("lam", [0.5, 5.0])
def test_it_stalls_at_the_optimum_only(seed, theta, lam):
    """With every entry observed the optimum is the proximal point; ten or more of the twenty directions die."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((30, 20))
    Z = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20)) + 0.1 * noise
    spectral = NNFN(lam=lam, theta=theta)
    z = np.linalg.svd(Z, compute_uv=False)
    x = spectral.prox(z, 1.0)
    best = 0.5 * np.sum((x - z) ** 2) + spectral.value(x)
    problem = Problem(Observations.from_dense(Z), FactoredNNFN(lam=lam, theta=theta), 20, n_jobs=1)
    result = solve(Alternating(), problem, seed=seed, stopping=Stopping(tol=0.0, max_iter=3000))
    assert result.status is Status.STALLED
    assert result.objective == pytest.approx(best, rel=1e-12)
    assert np.all(np.diff(result.history.objective) <= 1e-13 * best)


def test_accurate_balance_keeps_singular_values_that_balance_loses():
    rng = np.random.default_rng(0)
    (Q, _), (R, _) = np.linalg.qr(rng.standard_normal((40, 6))), np.linalg.qr(rng.standard_normal((30, 6)))
    sigma = 10.0 ** -np.arange(0, 15, 2.5)
    turn = rng.standard_normal((6, 6))
    factors = Factors.of(Q * np.sqrt(sigma), R * np.sqrt(sigma))
    frame = accurate_balance(factors.W.T @ factors.W, factors.H.T @ factors.H)
    np.testing.assert_allclose(frame.sigma[::-1], sigma, atol=1e-15)
    # Where nothing is small both are the same, in any frame.
    W, H = Q @ turn, R @ np.linalg.inv(turn).T
    quick, accurate = (f(W.T @ W, H.T @ H) for f in (balance, accurate_balance))
    np.testing.assert_allclose(accurate.sigma, quick.sigma, rtol=1e-9)
    for frame in (quick, accurate):
        np.testing.assert_allclose(frame.for_left(np.eye(6)) @ frame.for_right(np.eye(6)), np.eye(6), atol=1e-9)
        np.testing.assert_allclose((W @ frame.A).T @ (W @ frame.A), np.diag(frame.sigma), atol=1e-9)
        right = H @ frame.inverse_transposed
        np.testing.assert_allclose(right.T @ right, np.diag(frame.sigma), atol=1e-9)
