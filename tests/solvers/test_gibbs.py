"""The Gibbs sampler as users meet it: the posterior against the truth, kept draws, the end of a chain."""

import numpy as np
import pytest
import scipy.stats
from threadpoolctl import threadpool_limits

from lorank import InputError, MatrixCompletion
from lorank.datasets import synthetic
from lorank.kernels import parallel
from lorank.linalg import Factors
from lorank.solvers import BPMF, Status
from lorank.solvers.gibbs.convergence import Probes
from lorank.solvers.posterior import Draws, joined


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


class TestDraws:
    def test_kept_draws_are_spread_evenly_over_the_chain(self):
        start = Factors.of(np.zeros((2, 1)), np.zeros((3, 1)))
        for room, expected in ((4, [0, 8, 16]), (5, [0, 4, 8, 12, 16])):
            draws = Draws.empty(start, room, 1)
            for number in range(20):
                draw = Factors.of(np.zeros((2, 1)), np.full((3, 1), float(number)))
                noise, cuts = (np.full(2, float(number)), np.ones(3)), np.full(1, float(number))
                draws = draws.offer(draw, draw.left, noise, cuts)
            np.testing.assert_array_equal(draws.right[0, : draws.count], expected)
            np.testing.assert_array_equal(draws.noise_rows[0, : draws.count], expected)
            np.testing.assert_array_equal(draws.cuts[: draws.count, 0], expected)
            assert draws.offered == 20

    @pytest.mark.parametrize("biased", [False, True])
    def test_posterior_is_the_average_of_its_draws(self, biased):
        rng = np.random.default_rng(0)
        m, n, k, count, offset = 9, 7, 2, 5, 1.5 * biased
        draws, means, offs, variances = None, [], [], []
        for _ in range(count):
            W, E, H = (rng.standard_normal(size) for size in ((m, k), (m, k), (n, k)))
            a, e, b = (rng.standard_normal(lines) for lines in (m, m, n))
            sides = (H, a, b, offset) if biased else (H,)
            expected = Factors.of(W, *sides)
            draw = Factors.of(W + E, H, a + e, b, offset) if biased else Factors.of(W + E, H)
            noise = rng.gamma(3, size=m), rng.gamma(3, size=n)
            variances.append(np.outer(*noise))
            draws = (draws or Draws.empty(draw, 8)).offer(draw, expected.left, noise)
            means.append(expected.dense())
            offs.append(draw.dense() - expected.dense())
        posterior = draws.finish()
        rows, cols = (part.ravel() for part in np.indices((m, n)))
        mean = np.mean(means, axis=0)
        variance = np.var(means, axis=0, ddof=1) + np.mean(np.square(offs), axis=0)
        close = {"rtol": 1e-5, "atol": 1e-5}
        np.testing.assert_allclose(posterior.mean.dense(), mean, **close)
        np.testing.assert_allclose(posterior.mean.predict(rows, cols), mean.ravel(), **close)
        np.testing.assert_allclose(posterior.std(rows, cols), np.sqrt(variance).ravel(), **close)
        observed = np.sqrt(variance + np.mean(variances, axis=0)).ravel()
        np.testing.assert_allclose(posterior.std(rows, cols, noise=True), observed, **close)
        twice = joined([posterior, posterior])
        np.testing.assert_allclose(twice.mean.dense(), mean, **close)
        np.testing.assert_allclose(twice.noise.dense(), posterior.noise.dense(), **close)
        assert twice.draws == 2 * count
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
        np.testing.assert_allclose(eight.complete(), 8 * one.complete(), rtol=1e-4, atol=1e-5)

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
