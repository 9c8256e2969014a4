"""The Gibbs sampler's mathematics: conditional draws against closed forms, and one joint test."""

import math
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from lorank.kernels import draw_mean, slope_density, weights_density, wishart
from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.side_information import Features
from lorank.solvers.gibbs.chain import Sampler, Side, first_chain
from lorank.solvers.gibbs.hyper import NU, Hyper, Prior, draw_lb
from lorank.solvers.gibbs.noise import LEAST, MIDDLE, SLOPES, WIDTH, draw_weights, levels_of, slice_sample


@pytest.fixture(autouse=True)
def one_blas_thread():
    with threadpool_limits(1, user_api="blas"):
        yield


def test_the_frame_of_features_equals_the_dense_covariance():
    """M | W, and the scatter that Lambda is drawn from, against C = I + F F^T / lb."""
    rng = np.random.default_rng(1)
    n, q, k, lb = 12, 5, 2, 0.8
    F, W = rng.standard_normal((n, q)), rng.standard_normal((n, k))
    directions = Features(F).directions()
    C = np.eye(n) + F @ F.T / lb
    gain, Z = directions.squares / (directions.squares + lb), directions.project(W)
    np.testing.assert_allclose(W.T @ W - Z.T @ (gain[:, None] * Z), W.T @ np.linalg.solve(C, W), atol=1e-5)
    # Posterior mean of F B with Lambda = I: F (F^T F + lb)^-1 F^T W, and its covariance F (F^T F + lb)^-1 F^T.
    inner = np.linalg.solve(F.T @ F + lb * np.eye(q), F.T)
    np.testing.assert_allclose(directions.U @ (gain[:, None] * Z), F @ inner @ W, atol=1e-5)
    np.testing.assert_allclose(directions.U @ np.diag(gain) @ directions.U.T, F @ inner, atol=1e-5)


def test_a_line_whose_features_are_unknown_varies_as_much_as_the_others():
    """Its prior has the covariance (1 + q / lb) Lambda^-1, and nothing is learnt from it."""
    rng = np.random.default_rng(5)
    rows, cols = np.nonzero(rng.random((30, 12)) < 0.4)
    keep = (rows != 4) & (rows != 9)
    observations = Observations.from_coo(rows[keep], cols[keep], np.ones(keep.sum()), (30, 12))
    directions = Features.implicit(observations)[0].directions()
    assert directions.unknown.tolist() == [4, 9]
    assert directions.mean_square == pytest.approx(1)
    prior = Prior(2, False, 1.0, directions)
    W, Lambda, lb = rng.standard_normal((30, 2)), np.array([[2.0, 0.5], [0.5, 1.0]]), 0.25
    other = W.copy()
    other[[4, 9]] += 100
    last = Hyper(np.zeros(2), Lambda, np.ones(2), lb)
    first, second = (prior.draw(last, factor, np.random.default_rng(0)) for factor in (W, other))
    np.testing.assert_array_equal(first.Lambda, second.Lambda)
    hyper = Hyper(np.array([1.0, -1.0]), Lambda, np.ones(2), lb, np.zeros((directions.squares.size, 2)))
    means = np.array([prior.means(hyper, 30, np.float64, rng)[[4, 9]] for _ in range(4000)]).reshape(-1, 2)
    np.testing.assert_allclose(means.mean(axis=0), hyper.mu, atol=0.1)
    np.testing.assert_allclose(np.cov(means.T), np.linalg.inv(Lambda) / lb, atol=0.25)


def test_lb_is_drawn_from_its_density():
    rng = np.random.default_rng(2)
    squares, R, Lambda = np.array([9.0, 2.0, 0.5]), rng.standard_normal((3, 2)) * 2, np.diag([1.0, 2.0])
    energy = np.einsum("ea,ab,eb->e", R, Lambda, R)
    grid = np.linspace(-12, 6, 6000)
    grown = 1 + squares / np.exp(grid)[:, None]
    logp = -(np.log(grown).sum(axis=1)) - 0.5 * (energy / grown).sum(axis=1) + 0.5 * grid - 0.5 * np.exp(grid)
    p = np.exp(logp - logp.max())
    p /= p.sum()
    lb, draws = 1.0, []
    for _ in range(20000):
        lb = draw_lb(lb, R, Lambda, squares, rng)
        draws.append(np.log(lb))
    assert np.mean(draws) == pytest.approx(p @ grid, abs=0.06)
    assert np.std(draws) == pytest.approx(np.sqrt(p @ grid**2 - (p @ grid) ** 2), rel=0.04)


def test_slice_sampling_of_a_normal_number():
    rng, t, draws = np.random.default_rng(0), 0.0, []
    for _ in range(20000):
        t = slice_sample(t, lambda x: -((x - 3) ** 2) / 8, rng)
        draws.append(t)
    assert np.mean(draws) == pytest.approx(3, abs=0.15)
    assert np.std(draws) == pytest.approx(2, rel=0.05)


def test_wishart_moments():
    rng = np.random.default_rng(3)
    S = np.array([[2.0, 0.5], [0.5, 1.0]])
    draws = np.mean([wishart(S, 7.0, rng) for _ in range(20000)], axis=0)
    np.testing.assert_allclose(draws, 7 * np.linalg.inv(S), rtol=0.03)


def test_the_mean_is_drawn_where_it_is_free():
    rng = np.random.default_rng(0)
    Lambda, total, weight = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([3.0, 4.0]), 10.0
    draws = np.array([draw_mean(total, weight, Lambda, np.array([False, True]), rng) for _ in range(20000)])
    assert (draws[:, 0] == 0).all()
    assert draws[:, 1].mean() == pytest.approx((Lambda @ total)[1] / (weight * Lambda[1, 1]), abs=0.01)
    assert draws[:, 1].var() == pytest.approx(1 / (weight * Lambda[1, 1]), rel=0.05)


def test_weights_and_nu_are_recovered():
    rng = np.random.default_rng(5)
    truth, counts, nu, slope, nus, total = rng.gamma(3, 1 / 3, 3000), np.full(3000, 8), 20.0, 0.0, [], 0.0
    loss = rng.gamma(counts / 2) / truth
    for _ in range(300):
        c, nu, slope = draw_weights(loss, counts, 1.0, nu, slope, rng)
        nus.append(nu)
        total = total + c
    assert np.mean(nus[50:]) == pytest.approx(6, rel=0.15)
    np.testing.assert_allclose(total / 300, (3 + counts / 2) / (3 + loss), rtol=0.25)


def test_lines_of_few_entries_are_found_noisier():
    """The slope is known within its own standard deviation, and what lines have beside it stays in nu."""
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 40, 20_000)
    levels = levels_of(counts)
    assert counts @ levels == pytest.approx(0, abs=1e-8 * counts.sum())
    truth = rng.gamma(5, 1 / 5, counts.size) * np.exp(0.8 * levels)
    loss = rng.gamma(counts / 2) / truth
    nu, slope, drawn = 20.0, 0.0, []
    for _ in range(150):
        c, nu, slope = draw_weights(loss, counts, 1.0, nu, slope, rng)
        drawn.append((slope, nu, np.average(c[counts == 1]), np.average(c[counts == 30])))
    found, spread = np.mean(drawn[30:], axis=0), np.std(drawn[30:], axis=0)
    assert spread[0] < 0.1
    assert abs(found[0] - 0.8) < 3 * spread[0]
    assert found[1] == pytest.approx(10, rel=0.1)
    np.testing.assert_allclose(found[2:], [truth[counts == n].mean() for n in (1, 30)], rtol=0.1)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_chain_keeps_the_joint_distribution(weighted):
    """Geweke: sweeps alternating with new data from the model must leave the model's own distribution of everything."""
    m, n, k, alpha = 6, 5, 2, 1.0
    rng = np.random.default_rng(0)
    F = Features.of(rng.standard_normal((m, 3)))
    omega = rng.gamma(2, 0.5, (m, n)) if weighted else None
    # Rows and columns with few entries and with many.
    missing = np.add.outer(np.arange(m), np.arange(n)) > 6
    counts = (~missing).sum(axis=1), (~missing).sum(axis=0)

    def observed(values):
        return Observations.from_dense(np.where(missing, np.nan, values), weights=omega)

    seen = observed(rng.standard_normal((m, n)))
    problem = Problem(seen, None, k, 1.0, n_jobs=1, row_side=F)
    covariance = (F.matrix @ F.matrix.T, np.zeros((n, n)))

    def side(which):
        lines, prior = (m, n)[which], sampler.priors[which]
        inverse_a = rng.gamma(0.5, size=k + 1) * prior.A**2
        Lambda = wishart(2 * NU * np.diag(inverse_a), NU + k, rng)
        lb = rng.gamma(0.5) * 2
        root = np.linalg.cholesky(np.eye(lines) + covariance[which] / lb)
        lines_drawn = root @ rng.standard_normal((lines, k + 1)) @ np.linalg.inv(np.linalg.cholesky(Lambda))
        nu = LEAST + np.exp(MIDDLE + WIDTH * rng.standard_normal())
        slope = SLOPES * rng.standard_normal()
        weights = rng.gamma(nu / 2, 2 / nu, lines) * np.exp(slope * levels_of(counts[which]))
        return lines_drawn, Side(Hyper(np.zeros(k + 1), Lambda, inverse_a, lb), weights, nu, slope)

    def forward():
        (left, rows), (right, cols) = side(0), side(1)
        factors = Factors.of(left[:, :k], right[:, :k], left[:, k], right[:, k], 0.0)
        return replace(chain, factors=factors, rows=rows, cols=cols, precision=alpha)

    def statistics(state):
        X, lb, Lambda = state.factors.dense(), state.rows.hyper.lb, state.rows.hyper.Lambda
        return [
            np.mean(np.tanh(X) ** 2),
            np.mean(np.abs(X) < 0.5),
            np.mean(np.tanh(state.factors.row_bias) ** 2),
            np.mean(np.tanh(state.factors.H) ** 2),
            lb / (1 + lb),
            1 / (1 + Lambda[0, 0]),
            np.mean(state.rows.weights / (1 + state.rows.weights)),
            10 / (10 + state.cols.nu),
            state.rows.slope,
            abs(state.cols.slope),
        ]

    chain = first_chain(problem, None, 1, None, 7)
    chain = replace(chain, scale=1.0)
    sampler = Sampler(problem, None, chain)
    # A noise of which alpha is known, and offsets around 0.
    sampler.fixed = True
    sampler.priors = [Prior(k, True, 1.0, problem.directions(side), centred=True) for side in (False, True)]
    # Every chain starts in equilibrium and must still be there a few sweeps later.
    before, after = [], []
    for repeat in range(800):
        state = forward()
        while state.rows.hyper.lb < 1e-3 or np.abs(state.factors.dense()).max() > 1e3:
            state = forward()  # the prior's tails are heavy, and features are in single precision
        before.append(statistics(state))
        for t in range(4):
            noise = rng.standard_normal((m, n)) / np.sqrt(alpha * np.outer(state.rows.weights, state.cols.weights))
            values = state.factors.dense() + noise / np.sqrt(1 if omega is None else omega)
            sampler.problem = replace(problem, observations=observed(values))
            state = sampler.sweep(state, 100 + 4 * repeat + t)
        after.append(statistics(state))
    change = np.array(after) - before
    off = np.abs(change.mean(axis=0)) / (change.std(axis=0) / np.sqrt(len(change)))
    assert (off < 4).all(), off


def test_noise_next_to_its_bound_is_drawn():
    """nu that was rounded to its least value: the draw ends, and is finite."""
    weights, nu, _ = draw_weights(np.full(50, 3.0), np.full(50, 4), 1.0, LEAST, 0.0, np.random.default_rng(0))
    assert nu > LEAST
    assert np.isfinite(weights).all()


def test_densities_of_the_noises_weights_stay_exact_where_nu_is_large():
    """Gamma(h + n/2) / Gamma(h) h^h (h + e)^-(h + n/2), for even n by its product; the prior is the same for both."""
    rng = np.random.default_rng(0)
    counts = 2 * rng.integers(0, 40, 500)
    energy = rng.gamma(counts / 2 + 0.1)
    times, levels = np.bincount(counts), levels_of(counts)

    def exact(h):
        terms = [math.log1p(j / h) for n in counts for j in range(n // 2)]
        return math.fsum([*terms, *(-(h + counts / 2) * np.log1p(energy / h)).tolist()])

    for t in (-20.0, -2.0, 0.0, 2.0, 3.0, 5.0, 9.0, 14.0, 23.0, 30.0):
        found = weights_density(t, LEAST, 0.0, np.inf, times, energy, counts)
        assert found == pytest.approx(exact((LEAST + math.exp(t)) / 2), rel=1e-11, abs=1e-8)
    many = np.full(200_000, 1)
    found = [weights_density(t, LEAST, 0.0, np.inf, np.bincount(many), 0.4 * many, many) for t in (20.0, 23.0)]
    assert found[0] == pytest.approx(found[1], abs=1e-3)  # by sums of h log h they were thousands apart
    for h in (1.5, 1e3, 1e10):
        found = slope_density(0.7, h, levels, energy, counts) - slope_density(0.2, h, levels, energy, counts)
        logs = [np.log1p(energy * np.exp(b * levels) / h) for b in (0.7, 0.2)]
        assert found == pytest.approx(math.fsum((h + counts / 2) * (logs[1] - logs[0])), rel=1e-9, abs=1e-9)


def test_slice_sampling_ends_where_densities_are_so_large_that_a_logarithm_is_lost():
    """It once shrank its interval to nothing and went on for ever."""
    asked = []

    def density(t):
        asked.append(t)
        assert len(asked) < 1000
        return -2.8e16 - t * t

    slice_sample(-0.08, density, np.random.default_rng(0), 0.5)
    asked.clear()
    slice_sample(-0.08, lambda t: density(t) if t == -0.08 else -np.inf, np.random.default_rng(0), 0.5)
