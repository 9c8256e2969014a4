"""The Gibbs sampler: each conditional against its formula, the posterior against the truth."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from threadpoolctl import threadpool_limits

from lorank import InputError, MatrixCompletion, kernels
from lorank.bayes import BPMF, Draws
from lorank.bayes.chain import Prior, Sampler
from lorank.datasets import synthetic
from lorank.kernels import parallel
from lorank.linalg import Factors
from lorank.observations import Observations, observe
from lorank.solvers import Status


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Thousands of 3 x 3 products: on many threads they would take minutes."""
    with threadpool_limits(1, user_api="blas"):
        yield


LEVEL = scipy.stats.norm.ppf(0.95)


def small_table(seed=0, m=40, n=25, rank=3, missing=0.4, noise=0.1):
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((m, rank)) @ rng.standard_normal((n, rank)).T
    X = G + noise * rng.standard_normal((m, n))
    X[rng.random((m, n)) < missing] = np.nan
    return X, G


def draw_lines(observations, factors, ridge, pull, noise):
    lines = observations.by_row
    mean, out, loss = np.zeros_like(factors.left), np.zeros_like(factors.left), np.empty(len(factors.left))
    data = (lines.pointers, lines.indices, lines.values, factors.right, factors.k, factors.biased, factors.offset)
    kernels.sample_lines(*data, ridge, pull, noise, mean, out, loss, 0, len(loss))
    return mean, out, loss


class TestLines:
    """kernels.sample_lines draws every row from N(A^-1 b, A^-1)."""

    @pytest.mark.parametrize("biased", [False, True])
    def test_mean_draw_and_loss_are_those_of_the_formula(self, biased):
        X, _ = small_table(m=19)
        rng = np.random.default_rng(1)
        k, p, offset = 3, 3 + biased, 0.7 if biased else 0.0
        H, b = rng.standard_normal((25, k)), rng.standard_normal(25)
        biases = (np.zeros(19), b) if biased else (None, None)
        factors = Factors.of(np.zeros((19, k)), H, *biases, offset)
        root = rng.standard_normal((p, p))
        ridge, pull, noise = root @ root.T + np.eye(p), rng.standard_normal(p), rng.standard_normal((19, p))
        mean, out, loss = draw_lines(observe(X), factors, ridge, pull, noise)
        for i in range(19):
            seen = ~np.isnan(X[i])
            F = np.column_stack([H, np.ones(25)])[seen, :p]
            target = X[i, seen] - (offset + b[seen] if biased else 0.0)
            A = F.T @ F + ridge
            expected = np.linalg.solve(A, F.T @ target + pull)
            drawn = expected + np.linalg.solve(np.linalg.cholesky(A).T, noise[i])
            np.testing.assert_allclose(mean[i, :p], expected, rtol=1e-10)
            np.testing.assert_allclose(out[i, :p], drawn, rtol=1e-10)
            np.testing.assert_allclose(loss[i], 0.5 * np.sum((F @ drawn - target) ** 2), rtol=1e-9)

    def test_moments_of_many_draws(self):
        rng = np.random.default_rng(0)
        lines, n, k = 20_000, 6, 2
        H, o = rng.standard_normal((n, k)), rng.standard_normal(n)
        precision, Lambda, mu = 4.0, np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.3, -0.2])
        observations = Observations.from_dense(np.tile(o, (lines, 1)))
        factors = Factors.of(np.zeros((lines, k)), H)
        noise = rng.standard_normal((lines, k)) / np.sqrt(precision)
        _, out, _ = draw_lines(observations, factors, Lambda / precision, Lambda @ mu / precision, noise)
        covariance = np.linalg.inv(precision * H.T @ H + Lambda)
        mean = covariance @ (precision * H.T @ o + Lambda @ mu)
        drawn = out[:, :k]
        error = np.sqrt(np.diag(covariance) / lines)
        assert (np.abs(drawn.mean(axis=0) - mean) < 4 * error).all()
        np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=4 * covariance.max() * np.sqrt(2 / lines))


def test_gaussian_wishart_conditional_has_the_moments_of_the_formula():
    rng = np.random.default_rng(0)
    n, p, draws = 12, 3, 6000
    factor = rng.standard_normal((n, p)) @ np.diag([1.0, 2.0, 0.5]) + [0.5, 0.0, -1.0]
    prior = Prior(np.diag([1.0, 2.0, 3.0]), 5.0, 2.0)
    mean, rows, dof = factor.mean(axis=0), prior.rows + n, prior.dof + n
    centred = factor - mean
    scatter = prior.scatter + centred.T @ centred + prior.rows * n / rows * np.outer(mean, mean)
    mus, Lambdas = map(np.array, zip(*(prior.draw(factor, rng) for _ in range(draws))))
    wishart = scipy.stats.wishart(dof, np.linalg.inv(scatter))
    error = np.sqrt(wishart.var() / draws)
    assert (np.abs(Lambdas.mean(axis=0) - wishart.mean()) < 4.5 * error).all()
    np.testing.assert_allclose(Lambdas.var(axis=0), wishart.var(), rtol=0.15)
    # Marginally mu is Student's t around n mean / rows, with this covariance.
    covariance = scatter / (rows * (dof - p - 1))
    assert (np.abs(mus.mean(axis=0) - n * mean / rows) < 4.5 * np.sqrt(np.diag(covariance) / draws)).all()
    np.testing.assert_allclose(np.cov(mus.T), covariance, atol=0.15 * covariance.max())


def test_the_chain_keeps_the_joint_distribution():
    """Geweke: sweeps alternating with new data from the model must leave the model's own distribution of entries."""
    m, n, k, noise = 6, 5, 2, 1.0
    rng = np.random.default_rng(0)
    sampler = Sampler(Observations.from_dense(rng.standard_normal((m, n))), k, True, noise, 7, kernels.Workers(1))
    prior = Prior(np.eye(k + 1) * 8.0, 12.0)
    sampler.narrow, sampler.offset = prior, 0.0

    def side(lines):
        Lambda = scipy.stats.wishart(prior.dof, np.linalg.inv(prior.scatter)).rvs(random_state=rng)
        mu = rng.multivariate_normal(np.zeros(k + 1), np.linalg.inv(prior.rows * Lambda))
        return rng.multivariate_normal(mu, np.linalg.inv(Lambda), size=lines)

    def forward():
        left, right = side(m), side(n)
        return Factors.of(left[:, :k], right[:, :k], left[:, k], right[:, k], 0.0)

    def statistics(factors):
        X = factors.dense()
        return [np.mean(X**2), np.mean(np.abs(X)), np.abs(X.mean()), np.mean(factors.row_bias**2)]

    direct = np.array([statistics(forward()) for _ in range(2000)])
    chain, visited = sampler.start(forward(), 1, 0), []
    for t in range(6000):
        values = chain.factors.dense() + noise * rng.standard_normal((m, n))
        sampler.observations = Observations.from_dense(values)
        chain, _ = sampler.sweep(chain, t)
        visited.append(statistics(chain.factors))
    batches = np.array(visited).reshape(40, 150, -1).mean(axis=1)
    error = np.sqrt(direct.var(axis=0) / len(direct) + batches.var(axis=0, ddof=1) / len(batches))
    assert (np.abs(direct.mean(axis=0) - batches.mean(axis=0)) < 4 * error).all()
