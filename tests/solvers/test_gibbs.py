"""The Gibbs sampler as users meet it: the posterior against the truth, kept draws, the end of a chain."""

import warnings

import numpy as np
import pytest
import scipy.stats
from threadpoolctl import threadpool_limits

import lorank
from lorank import InputError, MatrixCompletion
from lorank.datasets import synthetic
from lorank.kernels import parallel
from lorank.linalg import Factors
from lorank.solvers import BPMF, Status
from lorank.solvers.gibbs.convergence import Probes, split_rhat
from lorank.solvers.gibbs.noise import slice_sample
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
        np.testing.assert_allclose(posterior.samples(rows, cols), np.reshape(means, (count, -1)), **close)
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


def cut_of_low_rank(m=300, n=200, rank=3, seen=0.04, seed=2):
    """Few entries of noisy values: train and the truth elsewhere."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) / np.sqrt(rank) + rng.standard_normal((m, 1))
    train = np.where(rng.random((m, n)) < seen, X + 0.7 * rng.standard_normal((m, n)), np.nan)
    return train, X


def test_a_rank_too_high_does_no_harm_where_entries_are_few():
    train, X = cut_of_low_rank()
    errors = np.empty((2, 4))
    for (at, seed), _ in np.ndenumerate(errors):
        model = MatrixCompletion("bpmf", (10, 40)[at], biases=True, max_iter=250, random_state=seed).fit(train)
        errors[at, seed] = np.sqrt(np.mean((model.model_.factors.dense() - X)[np.isnan(train)] ** 2))
    # One chain of either rank is off by up to three per cent.
    assert errors[1].mean() < 1.02 * errors[0].mean()


def test_no_direction_is_lost_at_the_start():
    """At the true rank all directions are needed; one that vanished early would take hundreds of sweeps to return."""
    train, X = cut_of_low_rank(seen=0.08)
    errors = []
    for seed in range(6):
        model = MatrixCompletion("bpmf", 3, biases=True, max_iter=80, random_state=seed).fit(train)
        errors.append(np.sqrt(np.mean((model.complete() - X)[np.isnan(train)] ** 2)))
    assert max(errors) < 1.08 * min(errors)


@pytest.mark.parametrize("features", [None, "implicit"])
@pytest.mark.parametrize("loss", ["squared", "ordinal"])
def test_everything_is_the_same_at_any_scale(features, loss):
    train, _ = cut_of_low_rank(60, 50, seen=0.3)
    train = np.round(train) if loss == "ordinal" else train
    one, many = (
        MatrixCompletion("bpmf", 3, biases=True, max_iter=40, random_state=0, features=features, loss=loss).fit(
            c * train
        )
        for c in (1.0, 1000.0)
    )
    everywhere = [part.ravel() for part in np.indices(train.shape)]
    np.testing.assert_allclose(many.predict(*everywhere), 1000 * one.predict(*everywhere), rtol=0.01, atol=5)


@pytest.mark.parametrize("scale", [1e50, 1e-50])
def test_what_cannot_be_kept_in_single_precision_is_refused(scale):
    """It hung, or intervals were infinite; the default goes on without the sampler, and says so."""
    train, _ = cut_of_low_rank(20, 10, seen=0.8)
    with pytest.raises(InputError, match=r"draws in single precision, which values of about \de[+-]\d\d do not fit in"):
        MatrixCompletion("bpmf", 2, biases=True, features="implicit").fit(scale * train)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MatrixCompletion(random_state=0).fit(scale * train)
    assert np.isfinite(model.complete()).all()
    assert "single precision" in str(model.tuning_)


def test_a_density_that_overflows_does_not_hang():
    assert slice_sample(0.3, lambda t: np.nan, np.random.default_rng(0)) == 0.3


@pytest.mark.parametrize("shape", [(20, 10), (1, 30), (30, 1), (1, 1), (2, 2)])
@pytest.mark.parametrize("loss", ["squared", "ordinal"])
@pytest.mark.parametrize("features", [None, "implicit"])
def test_tiny_and_constant_data(shape, loss, features):
    rank = min(*shape, 5)
    for values in (np.ones(shape), np.arange(np.prod(shape)).reshape(shape) % 3.0):
        fit = {"biases": True, "max_iter": 60, "random_state": 0, "loss": loss, "features": features}
        model = MatrixCompletion("bpmf", rank, **fit).fit(values)
        p = model.predict(*(i.ravel() for i in np.indices(shape)))
        assert np.isfinite(p).all()
        assert values.min() - 1.5 < p.min()
        assert p.max() < values.max() + 1.5


class TestLevels:
    def fit(self, **params):
        train, X = cut_of_low_rank(120, 80, seen=0.4)
        cuts = np.array([-1.0, 0.0, 0.7])
        levels = np.where(np.isnan(train), np.nan, 1.0 + np.searchsorted(cuts, np.nan_to_num(train)))
        fit = {"biases": True, "max_iter": 100, "random_state": 0, "loss": "ordinal", **params}
        return MatrixCompletion("bpmf", 3, **fit).fit(levels), levels, X, cuts

    def test_probabilities_are_those_of_the_truth(self, tmp_path):
        model, levels, X, cuts = self.fit()
        rows, cols = np.nonzero(np.isnan(levels))
        chances = model.predict_proba(rows, cols)
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        assert (chances >= -1e-12).all()
        ends = np.r_[-np.inf, cuts, np.inf]
        truth = np.diff(scipy.stats.norm.cdf((ends - X[rows, cols][:, None]) / 0.7), axis=1)
        assert np.sqrt(np.mean((chances - truth) ** 2)) < 0.125  # seeds: 0.118 to 0.121
        assert np.abs(chances.mean(axis=0) - truth.mean(axis=0)).max() < 0.02
        np.testing.assert_allclose(model.predict(rows, cols), chances @ [1, 2, 3, 4], rtol=1e-5)
        np.testing.assert_allclose(model.complete()[rows, cols], chances @ [1, 2, 3, 4], rtol=1e-5)
        _, lower, upper = model.predict(rows, cols, interval=0.9)
        sampled = 1 + (np.random.default_rng(0).random((rows.size, 1)) > np.cumsum(truth, axis=1)).sum(axis=1)
        assert abs(np.mean((lower <= sampled) & (sampled <= upper)) - 0.9) < 0.02
        model.save(tmp_path / "levels.lorank")
        np.testing.assert_array_equal(lorank.load(tmp_path / "levels.lorank").predict_proba(rows, cols), chances)

    def test_same_bits_on_any_number_of_threads(self, monkeypatch):
        monkeypatch.setattr(parallel, "WORTH_A_THREAD", 0)
        one, two = (self.fit(n_jobs=jobs, max_iter=20, features="implicit")[0] for jobs in (1, 2))
        np.testing.assert_array_equal(one.complete(), two.complete())

    def test_the_validation_error_is_that_of_expected_levels(self):
        levels = self.fit(max_iter=20)[1]
        model = MatrixCompletion("bpmf", 3, biases=True, loss="ordinal", random_state=0, max_iter=30)
        model.fit(levels, validation=0.1)
        off = -model.score(levels)
        assert 0.8 * off < model.history_["validation"][-1] < 1.6 * off

    def test_what_is_refused(self):
        levels = self.fit(max_iter=20)[1]
        with pytest.raises(InputError, match="at most 50 levels"):
            MatrixCompletion("bpmf", 2, loss="ordinal").fit(small_table()[0])
        with pytest.raises(InputError, match="Ordinal needs a factored method such as 'nnfn'"):
            MatrixCompletion("nuclear", 2, lam=1.0, loss="ordinal").fit(levels)
        with pytest.raises(InputError, match="squared loss and the ordinal one"):
            MatrixCompletion("bpmf", 2, loss="huber").fit(levels)
        with pytest.raises(InputError, match="loss='ordinal'"):
            MatrixCompletion("bpmf", 2, max_iter=20).fit(levels).predict_proba([0], [0])


def test_batch_means_tell_the_variance_of_a_mean():
    rng = np.random.default_rng(0)
    probes = Probes(np.zeros(400, int), np.zeros(400, int), np.zeros((10, 400)))
    x = np.zeros(400)
    for _ in range(200):
        x = 0.5 * x + rng.standard_normal(400)
        probes = probes.add(x)
    # An autoregression of 0.5 has a mean of variance 1 / (1 - 0.5)^2 / count.
    early, variance = probes.burn_in()
    assert early == 0
    assert variance == pytest.approx(4 / 200, rel=0.2)
    assert probes.sums.shape == (10, 400)


def test_draws_on_the_way_to_the_posterior_belong_to_the_burn_in():
    rng = np.random.default_rng(0)
    probes = Probes(np.zeros(400, int), np.zeros(400, int), np.zeros((10, 400)))
    for t in range(160):
        probes = probes.add(5 * np.exp(-t / 10) + rng.standard_normal(400))
    early, variance = probes.burn_in()
    assert 16 < early < 80
    assert variance == pytest.approx(1 / (160 - early), rel=0.2)


def test_draws_of_the_burn_in_are_left_out():
    """The posterior without the first draws is that of a chain whose burn-in was longer."""
    start = Factors.of(np.zeros((3, 1)), np.zeros((2, 1)))
    rng, whole, rest = np.random.default_rng(0), Draws.empty(start, 8), Draws.empty(start, 8)
    for t in range(6):
        draw = Factors.of(rng.standard_normal((3, 1)), rng.standard_normal((2, 1)))
        noise = rng.random(3), rng.random(2)
        whole = whole.offer(draw, draw.left, noise)
        rest = rest.offer(draw, draw.left, noise) if t >= 2 else rest
    rows, cols = np.array([0, 1, 2]), np.array([1, 0, 1])
    one, other = whole.finish(early=2), rest.finish()
    assert one.draws == other.draws == 4
    np.testing.assert_array_equal(one.predict(rows, cols), other.predict(rows, cols))
    np.testing.assert_array_equal(one.std(rows, cols, noise=True), other.std(rows, cols, noise=True))


def test_chains_agree_or_not():
    rng = np.random.default_rng(0)
    chains = rng.standard_normal((4, 40, 300))
    assert split_rhat(chains) == pytest.approx(1, abs=0.02)
    assert split_rhat([*chains[:3], chains[3] + 3]) > 1.5
    drifting = chains + np.linspace(0, 3, 40)[:, None]
    assert split_rhat(drifting) > 1.2


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

    def test_a_chain_ends_when_its_mean_is_known_well_enough(self):
        model = self.fit(max_iter=500)
        assert model.result_.status is Status.SAMPLED
        assert model.n_iter_ < 300
        longer = self.fit(max_iter=500, solver=BPMF(tolerance=2e-4))
        assert longer.n_iter_ > model.n_iter_
        assert self.fit(max_iter=60, solver=BPMF(tolerance=0.0)).n_iter_ == 60

    def test_several_chains_are_one_posterior(self):
        one, three = self.fit(), self.fit(n_fits=3)
        assert three.result_.posterior.draws == 3 * one.result_.posterior.draws
        assert np.isfinite(three.predict([0], [1], interval=0.9)).all()

    def test_chains_side_by_side_have_the_same_bits(self):
        one, two = (self.fit(n_fits=3, n_jobs=jobs) for jobs in (1, 2))
        np.testing.assert_array_equal(one.complete(), two.complete())
        alone = [self.fit(n_fits=1, random_state=0).complete(), one.complete()]
        assert not np.array_equal(*alone)
        assert "Draws of 3 chains. Split R-hat of predictions: 1." in two.result_.message

    def test_a_callback_stops_all_chains(self):
        X = small_table()[0]
        model = MatrixCompletion("bpmf", 3, n_fits=3, max_iter=2000, random_state=0, solver=BPMF(tolerance=0.0))
        model.fit(X, callbacks=[lambda progress: progress.iteration >= 30])
        assert model.n_iter_ == 30
        assert model.result_.posterior.draws < 3 * 64

    def test_memory_is_as_estimated(self):
        draws = self.fit(max_iter=90, biases=True, rank=5).result_.posterior.nbytes
        assert draws == pytest.approx(4 * 64 * ((2 * 40 + 25) * 7 + 65), rel=0.1)
        shape, few = (160_000, 160_000), BPMF().memory((160_000, 160_000), 0, 5, 4, True)
        assert few - BPMF(kept=1).memory(shape, 0, 5, 4, True) < 0.52e9
        assert BPMF().room((1000, 1000), 10, True) == 64
        assert BPMF().room((10**7, 10**6), 10, True) == 8
        assert BPMF(kept=3).room((10**7, 10**6), 10, True) == 3

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
        for wrong in ({"burn_in": -1}, {"kept": 0}, {"noise": 0.0}, {"burn_in": 2.5}, {"tolerance": -1.0}):
            with pytest.raises(InputError, match=next(iter(wrong))):
                BPMF(**wrong)
        with pytest.raises(InputError, match="leave no draw"):
            self.fit(max_iter=5, solver=BPMF(burn_in=5))
        with pytest.raises(InputError, match="method='bpmf'"):
            MatrixCompletion(rank=2, lam=0.3).fit(X).predict_std([0], [0])
        with pytest.raises(InputError, match="cannot be fitted by a BPMF"):
            MatrixCompletion("nnfn", rank=2, lam=10.0, solver=BPMF()).fit(X)
        start = MatrixCompletion(rank=2, lam=0.3).fit(X)
        with pytest.raises(InputError, match="start has rank"):
            MatrixCompletion(method="bpmf", rank=3).fit(X, start=start)
