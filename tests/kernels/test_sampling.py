"""Draws of lines against the Gaussian that they are drawn from."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from lorank.kernels import draw_lines, interval_halves
from lorank.linalg import pad


@pytest.mark.parametrize(("biased", "weighted"), [(False, False), (True, False), (True, True)])
def test_a_line_is_drawn_from_its_posterior(biased, weighted):
    """Many copies of one line: mean and covariance of the draws against the closed form, with weights."""
    rng = np.random.default_rng(0)
    k, n, copies, offset, size, c = 2, 5, 40000, 0.3 * biased, 0.7, 1.7
    p = k + biased
    H, b, d = rng.standard_normal((n, k)), rng.standard_normal(n) * biased, rng.gamma(3, 1 / 3, n)
    omega = rng.gamma(2, 0.5, n) if weighted else None
    v = d if omega is None else d * omega
    o, mu, A = rng.standard_normal(n), rng.standard_normal(p), rng.standard_normal((p, p))
    ridge = (A @ A.T + np.eye(p)) * size**2
    F = np.hstack([H, np.ones((n, 1))])[:, :p]
    precision = (c * F.T @ np.diag(v) @ F + ridge) / size**2
    expected = np.linalg.solve(precision, (c * F.T @ (v * (o - offset - b)) + ridge @ mu) / size**2)
    pointers, indices = n * np.arange(copies + 1), np.tile(np.arange(n, dtype=np.int32), copies)
    right = pad(H, b if biased else None)
    mean, out, loss = np.zeros((copies, right.shape[1])), np.zeros((copies, right.shape[1])), np.empty(copies)
    weights = None if omega is None else np.tile(omega, copies)
    args = (
        pointers,
        indices,
        np.tile(o, copies),
        weights,
        right,
        k,
        biased,
        offset,
        np.full(copies, c),
        np.sqrt(d),
        ridge,
    )
    args += (np.tile(ridge @ mu, (copies, 1)), size, np.uint64(3), 1, 0, 1)
    draw_lines(*args, mean, out, loss, 0, copies)
    np.testing.assert_allclose(mean[0, :p], expected, rtol=1e-9)
    draws = out[:, :p]
    np.testing.assert_allclose(np.cov(draws.T) @ precision, np.eye(p), atol=0.04)
    np.testing.assert_allclose(draws.mean(axis=0), expected, atol=0.02)
    residual = o - offset - b - F @ draws[7]
    assert loss[7] == pytest.approx(residual @ (v * residual) / 2)


@pytest.mark.parametrize("k", [7, 8, 19])
def test_residuals_of_lines_of_any_rank(k):
    rng = np.random.default_rng(k)
    n = 100
    H, b, o = rng.standard_normal((n, k)), rng.standard_normal(n), rng.standard_normal((2, n))
    right = pad(H, b)
    mean, out, loss = np.zeros((2, right.shape[1])), np.zeros((2, right.shape[1])), np.empty(2)
    lines = (n * np.arange(3), np.tile(np.arange(n, dtype=np.int32), 2), o.ravel(), None, right, k, True, 0.5)
    draw_lines(
        *lines,
        np.ones(2),
        np.ones(n),
        np.eye(k + 1),
        np.zeros((2, k + 1)),
        1.0,
        np.uint64(0),
        1,
        0,
        1,
        mean,
        out,
        loss,
        0,
        2,
    )
    residuals = o - 0.5 - b - out[:, k : k + 1] - out[:, :k] @ H.T
    np.testing.assert_allclose(loss, (residuals**2).sum(axis=1) / 2)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.999])
def test_intervals_hold_what_draws_of_the_noise_say(level):
    """Against the root of the mixture's probability: draws that agree, that differ a thousandfold, and no noise."""
    rng = np.random.default_rng(0)
    pairs, draws = 60, 12
    sides = [np.exp(3 * rng.random((pairs, 1)) * rng.standard_normal((pairs, draws))) for _ in range(2)]
    sides[0][:5], sides[1][:5] = 1.0, 0.25
    sides[0][5:8] = 0.0
    variances = np.exp(rng.standard_normal(pairs))
    rows, cols, out = rng.permutation(pairs), rng.permutation(pairs), np.empty(pairs)
    padded = [pad(side) for side in sides]
    interval_halves(rows, cols, variances, *padded, draws, level, ndtri((1 + level) / 2), out, 0, pairs)
    deviations = np.sqrt(variances[:, None] + draws * sides[0][rows] * sides[1][cols])
    truth = [brentq(lambda h, sd=sd: np.mean(1 - 2 * ndtr(-h / sd)) - level, 0, 1e4 * sd.max()) for sd in deviations]
    np.testing.assert_allclose(out, truth, rtol=1e-4)
