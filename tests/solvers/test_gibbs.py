"""The Gibbs sampler: each conditional against its formula, the posterior against the truth."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from threadpoolctl import threadpool_limits

from lorank import InputError, MatrixCompletion, kernels
from lorank.datasets import synthetic
from lorank.kernels import parallel
from lorank.linalg import Factors
from lorank.observations import Observations, observe
from lorank.problems import Problem
from lorank.solvers import BPMF, Status
from lorank.solvers.gibbs.chain import Prior, Sampler, first_chain
from lorank.solvers.posterior import Draws


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
    problem = Problem(Observations.from_dense(rng.standard_normal((m, n))), None, k, bias_weight=1.0, n_jobs=1)
    sampler = Sampler(problem, noise, 7, 1.0)
    sampler.narrow = prior = Prior(np.eye(k + 1) * 8.0, 12.0)

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
    chain, visited = first_chain(problem, forward(), 1, noise, 7), []
    for t in range(6000):
        values = chain.factors.dense() + noise * rng.standard_normal((m, n))
        sampler.problem = replace(problem, observations=Observations.from_dense(values))
        chain = sampler.sweep(chain, t)
        visited.append(statistics(chain.factors))
    batches = np.array(visited).reshape(40, 150, -1).mean(axis=1)
    error = np.sqrt(direct.var(axis=0) / len(direct) + batches.var(axis=0, ddof=1) / len(batches))
    assert (np.abs(direct.mean(axis=0) - batches.mean(axis=0)) < 4 * error).all()


class TestDraws:
    def test_kept_draws_are_spread_evenly_over_the_chain(self):
        start = Factors.of(np.zeros((2, 1)), np.zeros((3, 1)))
        for room, expected in ((4, [0, 8, 16]), (5, [0, 4, 8, 12, 16])):
            draws = Draws.empty(start, room)
            for number in range(20):
                draw = Factors.of(np.zeros((2, 1)), np.full((3, 1), float(number)))
                draws = draws.offer(draw, draw.left)
            np.testing.assert_array_equal(draws.right[0, : draws.count], expected)
            assert draws.offered == 20

    @pytest.mark.parametrize("biased", [False, True])
    def test_posterior_is_the_average_of_its_draws(self, biased):
        rng = np.random.default_rng(0)
        m, n, k, count, offset = 9, 7, 2, 5, 1.5 * biased
        draws, means, offs = None, [], []
        for _ in range(count):
            W, E, H = (rng.standard_normal(size) for size in ((m, k), (m, k), (n, k)))
            a, e, b = (rng.standard_normal(lines) for lines in (m, m, n))
            sides = (H, a, b, offset) if biased else (H,)
            expected = Factors.of(W, *sides)
            draw = Factors.of(W + E, H, a + e, b, offset) if biased else Factors.of(W + E, H)
            draws = (draws or Draws.empty(draw, 8)).offer(draw, expected.left)
            means.append(expected.dense())
            offs.append(draw.dense() - expected.dense())
        posterior = draws.finish(noise_variance=0.25)
        rows, cols = (part.ravel() for part in np.indices((m, n)))
        mean = np.mean(means, axis=0)
        variance = np.var(means, axis=0, ddof=1) + np.mean(np.square(offs), axis=0)
        np.testing.assert_allclose(posterior.mean.dense(), mean)
        np.testing.assert_allclose(posterior.mean.predict(rows, cols), mean.ravel())
        np.testing.assert_allclose(posterior.std(rows, cols), np.sqrt(variance).ravel())
        np.testing.assert_allclose(posterior.std(rows, cols, noise=True), np.sqrt(variance + 0.25).ravel())
        summary = posterior.summary
        biases = offset + summary.row_bias[:, None] + summary.col_bias if biased else 0.0
        U, sigma, Vt = np.linalg.svd(mean - biases)
        best = (U[:, :k] * sigma[:k]) @ Vt[:k] + biases
        assert np.linalg.norm(summary.dense() - mean) <= 1.01 * np.linalg.norm(best - mean)


class TestPosterior:
    def test_intervals_cover_what_they_promise(self):
        covered, observed, errors = [], [], []
        for seed in range(3):
            problem = synthetic(m=500, seed=seed)
            model = MatrixCompletion(method="bpmf", rank=5, max_iter=80, random_state=seed).fit(problem.train)
            unseen = problem.validation
            rows, cols = unseen.rows, unseen.cols
            mean, truth = model.predict(rows, cols), np.einsum("ek,ek->e", problem.W[rows], problem.H[cols])
            covered.append(np.mean(np.abs(mean - truth) < LEVEL * model.predict_std(rows, cols)))
            observed.append(np.mean(np.abs(mean - unseen.values) < LEVEL * model.predict_std(rows, cols, noise=True)))
            errors.append(np.sqrt(np.mean((mean - truth) ** 2)))
        assert abs(np.mean(covered) - 0.9) < 0.02
        assert abs(np.mean(observed) - 0.9) < 0.02
        d, n = 2 * 500 * 5 - 25, problem.train.nnz
        assert np.mean(errors) < 1.06 * 0.1 * np.sqrt(d / (n - d))

    def test_directions_that_are_not_needed_vanish(self):
        problem = synthetic(m=300, seed=0)
        errors = []
        for rank in (5, 12):
            model = MatrixCompletion(method="bpmf", rank=rank, max_iter=100, random_state=0).fit(problem.train)
            W, H = model.factors_
            errors.append(problem.nmse(W, H))
        assert errors[1] < 1.05 * errors[0]
        sigma = model.singular_values_
        assert sigma[5] < 0.03 * sigma[4]

    def test_small_table_with_an_offset(self):
        for seed in range(3):
            X, G = small_table(seed)
            model = MatrixCompletion(method="bpmf", rank=5, biases=True, max_iter=150, random_state=seed).fit(X + 4.0)
            missing = np.isnan(X)
            assert np.sqrt(np.mean((model.complete() - 4.0 - G)[missing] ** 2)) < 0.15

    def test_scaled_data_scales_every_draw(self):
        X, _ = small_table()
        one, eight = (
            MatrixCompletion(method="bpmf", rank=3, biases=True, max_iter=30, random_state=0).fit(factor * X)
            for factor in (1.0, 8.0)
        )
        np.testing.assert_allclose(eight.complete(), 8 * one.complete(), rtol=1e-6, atol=1e-8)

    def test_noise_free_and_constant_data(self):
        X, G = small_table(noise=0.0)
        model = MatrixCompletion(method="bpmf", rank=3, max_iter=200, random_state=0).fit(X)
        assert np.sqrt(np.mean((model.complete() - G)[np.isnan(X)] ** 2)) < 0.05
        X[~np.isnan(X)] = 2.0
        model = MatrixCompletion(method="bpmf", rank=2, biases=True, max_iter=60, random_state=0).fit(X)
        np.testing.assert_allclose(model.complete(), 2.0, atol=0.05)


class TestEstimator:
    def fit(self, X=None, **params):
        X = small_table()[0] if X is None else X
        return MatrixCompletion(**{"method": "bpmf", "rank": 3, "max_iter": 30, "random_state": 0, **params}).fit(X)

    def test_same_bits_on_any_number_of_threads(self, monkeypatch):
        monkeypatch.setattr(parallel, "WORTH_A_THREAD", 0)
        one, two = (self.fit(n_jobs=jobs, biases=True) for jobs in (1, 2))
        np.testing.assert_array_equal(one.complete(), two.complete())
        rows, cols = np.arange(25), np.arange(25)
        np.testing.assert_array_equal(one.predict_std(rows, cols), two.predict_std(rows, cols))

    def test_seeds(self):
        np.testing.assert_array_equal(self.fit().complete(), self.fit().complete())
        assert not np.array_equal(self.fit().complete(), self.fit(random_state=1).complete())

    def test_history_status_and_validation(self):
        X, _ = small_table()
        model = MatrixCompletion(method="bpmf", rank=3, max_iter=30, random_state=0).fit(X, validation=0.2)
        assert model.result_.status is Status.SAMPLED
        assert model.result_.success
        assert model.n_iter_ == 30
        history = model.history_
        assert np.isfinite(history["objective"]).all()
        assert np.isnan(history["validation"][:15]).all()
        assert np.isfinite(history["validation"][15:]).all()
        assert history["validation"][-1] < 0.5

    def test_float32(self):
        model = self.fit(dtype="float32")
        assert model.complete().dtype == np.float32
        assert np.abs(model.complete() - self.fit().complete()).max() < 1.0

    def test_given_noise_and_settings(self):
        model = self.fit(solver=BPMF(noise=0.5, kept=4, burn_in=3))
        assert model.result_.posterior.noise_variance == pytest.approx(0.25)
        assert 2 <= model.result_.posterior.draws <= 4

    def test_start_from_another_fit(self):
        X, _ = small_table()
        start = MatrixCompletion(rank=3, lam=0.3, random_state=0).fit(X)
        model = MatrixCompletion(method="bpmf", rank=3, max_iter=10, random_state=0).fit(X, start=start)
        assert model.history_["objective"][0] < 0.3
        again = MatrixCompletion(method="bpmf", rank=3, max_iter=10, random_state=0).fit(X, start=model)
        assert again.history_["objective"][0] < 0.3

    def test_callbacks_interruption_and_time_limit(self):
        X, _ = small_table()

        def interrupt(progress):
            if progress.iteration == 25:
                raise KeyboardInterrupt

        for callback, status in (
            (lambda progress: progress.iteration == 25, Status.EARLY_STOPPED),
            (interrupt, Status.INTERRUPTED),
        ):
            model = MatrixCompletion(method="bpmf", rank=3, random_state=0).fit(X, callbacks=[callback])
            assert model.result_.status is status
            assert model.n_iter_ == 25
            assert model.result_.posterior.draws == 5
        with pytest.warns(UserWarning, match="within the burn-in"):
            model = self.fit(max_seconds=1e-9)
        assert model.result_.status is Status.TIME_LIMIT
        assert np.isfinite(model.complete()).all()

    def test_a_chain_that_was_cut_off_ends_as_if_it_had_not_been(self, tmp_path):
        X, _ = small_table()
        whole = self.fit(biases=True)
        path = tmp_path / "chain.npz"
        model = MatrixCompletion(method="bpmf", rank=3, max_iter=30, random_state=0, biases=True)
        model.fit(X, checkpoint=path, callbacks=[lambda progress: progress.iteration == 20])
        assert path.exists()
        model.fit(X, checkpoint=path)
        np.testing.assert_array_equal(model.complete(), whole.complete())
        assert len(model.history_["seconds"]) == 30
        assert not path.exists()

    def test_errors(self):
        X, _ = small_table()
        for wrong in ({"burn_in": -1}, {"kept": 0}, {"noise": 0.0}, {"burn_in": 2.5}):
            with pytest.raises(InputError, match=next(iter(wrong))):
                BPMF(**wrong)
        with pytest.raises(InputError, match="leave no draw"):
            self.fit(max_iter=5, solver=BPMF(burn_in=5))
        with pytest.raises(InputError, match="method='bpmf'"):
            MatrixCompletion(rank=2, lam=0.3).fit(X).predict_std([0], [0])
        with pytest.raises(InputError, match="cannot be fitted by a BPMF"):
            MatrixCompletion(rank=2, solver=BPMF()).fit(X)
        start = MatrixCompletion(rank=2, lam=0.3).fit(X)
        with pytest.raises(InputError, match="start has rank"):
            MatrixCompletion(method="bpmf", rank=3).fit(X, start=start)
