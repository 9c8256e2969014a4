"""Which kind of model is chosen: paired differences on held-out entries, short chains, and data of all kinds."""

import math
import re

import numpy as np
import pytest
from scipy import stats

import lorank
from lorank import InputError, MatrixCompletion
from lorank.datasets import synthetic
from lorank.observations import Observations, observe
from lorank.problems import Problem
from lorank.solvers import BPMF, Stopping, solve
from lorank.tuning import choice
from lorank.tuning.choice import Kind, choose, enough, monte_carlo_variance, paired
from lorank.tuning.held_out import HeldOutJudge
from lorank.tuning.search import Judgement
from lorank.tuning.setting import noise_norm
from lorank.tuning.trial_log import TrialLog

RNG = np.random.default_rng(0)


def test_the_paired_difference_is_that_of_the_t_test():
    losses, others = RNG.exponential(size=50), RNG.exponential(size=50)
    gain, error = paired(losses, others)
    assert gain / error == pytest.approx(stats.ttest_rel(others, losses).statistic)
    # One that was judged on fewer parts has the first ones.
    assert paired(losses[:20], others) == paired(losses[:20], others[:20])


def kind(name, losses, tuned=True, rank=1):
    def judge(candidate):
        return Judgement(math.sqrt(np.mean(losses)), losses=losses)

    return Kind(name, judge, lambda search, best: search.attempt({"candidate": name, "rank": rank}), tuned=tuned)


def chosen(*kinds):
    found = choose(kinds, TrialLog())
    assert [trial.candidate for trial in found.trials] == [one.name for one in kinds]
    return found.trials.chosen.candidate


def test_the_simpler_kind_is_kept_unless_the_other_is_better_beyond_noise():
    simple = RNG.exponential(size=1000)
    noise = 0.1 * RNG.standard_normal(1000)
    error = noise.std(ddof=1) / math.sqrt(1000)
    noise -= noise.mean()
    for gain, winner in ((0.9, "simple"), (1.1, "costly"), (-1.1, "simple")):
        assert chosen(kind("simple", simple), kind("costly", simple + noise - gain * error)) == winner
    # One that was not tuned there need not be better by noise: the mean is what is expected of it.
    better = simple + noise - 0.5 * error
    assert chosen(kind("simple", simple), kind("costly", better, tuned=False)) == "costly"
    assert chosen(kind("simple", simple, tuned=False), kind("costly", better, tuned=False)) == "costly"
    assert chosen(kind("simple", simple, tuned=False), kind("costly", better)) == "simple"


def test_differences_of_nothing_are_none():
    """Both have all that there is to learn: a thousandth of the spread is left."""
    spread = np.ones(100)
    assert chosen(kind("offsets", spread), kind("exact", 1e-8 * spread), kind("more exact", 1e-12 * spread)) == "exact"


def test_a_kind_that_fails_is_not_chosen():
    def judge(candidate):
        return Judgement(math.inf)

    failing = Kind("failing", judge, lambda search, best: search.attempt({"candidate": "failing"}))
    assert chosen(kind("simple", np.ones(10)), failing) == "simple"


def test_a_few_parts_are_enough():
    parts = tuple((None, observe(np.ones((30, 100)))) for _ in range(4))
    assert len(enough(parts)) == 2
    assert len(enough(parts[:1])) == 1


def test_the_monte_carlo_variance_of_a_short_chain_is_that_over_many():
    seen = synthetic(m=60, rank=2, seed=0).train
    solver, sweeps = BPMF().for_trial(50_000)
    fits = [
        solve(solver, Problem(seen, None, 3, (1.0, 1.0)), stopping=Stopping(max_iter=sweeps), seed=seed).posterior
        for seed in range(12)
    ]
    truth = np.var([fit.predict(seen.rows, seen.cols) for fit in fits], axis=0, ddof=1).mean()
    estimate = np.mean([monte_carlo_variance(fit, seen).mean() for fit in fits])
    assert 0.3 * truth < estimate < 1.5 * truth
    first, whole = fits[0].part(0, 3), fits[0]
    each = [whole.part(s, s + 1).predict(seen.rows, seen.cols) for s in range(3)]
    np.testing.assert_allclose(first.predict(seen.rows, seen.cols), np.mean(each, axis=0), atol=1e-5)


@pytest.fixture(scope="module")
def ratings():
    """Rows rate the columns that they like: who rated what says something."""
    rng = np.random.default_rng(0)
    X = 0.7 * rng.standard_normal((150, 2)) @ rng.standard_normal((2, 60)) + 0.5 * rng.standard_normal(60)
    seen = rng.random(X.shape) < 1 / (1 + np.exp(3 - 2 * X))
    return np.where(seen, np.round(2 * (X + 0.7 * rng.standard_normal(X.shape))) / 2 + 3, np.nan)


@pytest.fixture(scope="module")
def fitted(ratings):
    return MatrixCompletion(random_state=0).fit(ratings)


def test_no_argument_is_needed(ratings, fitted):
    kinds = fitted.tuning_.candidates
    names = ["offsets alone", "NNFN", "NNFN + who rated what", "sampler", "sampler + who rated what"]
    assert kinds["candidate"] == names
    assert kinds["chosen"].count("<- chosen") == 1
    assert fitted.model_.params["method"] in ("nnfn", "bpmf")
    assert fitted.get_params()["method"] == "auto"
    assert fitted.observations_.nnz == np.count_nonzero(~np.isnan(ratings))
    # Errors say what the reasons say, also of kinds that were judged on fewer entries.
    errors = dict(zip(kinds["candidate"], kinds["error"]))
    for name, reason in zip(names[2:], kinds["reason"][2:]):
        much, sign, other = re.fullmatch(r"([\d.]+)% \+- [\d.]+% (better|worse) than (.*)", reason).groups()
        ratio = 1 + float(much) / 100 * (1 if sign == "worse" else -1)
        assert errors[name] == pytest.approx(ratio * errors[other], rel=1e-4)
    assert fitted.model_.held_out_error() == ("search", errors[fitted.tuning_.chosen.name])
    offsets = kinds["error"][0]
    assert fitted.tuning_.chosen.error < 1.02 * offsets
    middle, low, high = fitted.predict([0, 1], [2, 3], interval=0.9)
    assert (low < middle).all()
    assert (middle < high).all()


def test_the_table_goes_with_the_model(fitted, tmp_path):
    fitted.save(tmp_path / "model.lorank")
    model = lorank.load(tmp_path / "model.lorank")
    again = MatrixCompletion.from_model(model)
    assert repr(again.tuning_.candidates) == repr(fitted.tuning_.candidates)
    assert model.method == fitted.model_.method
    np.testing.assert_array_equal(model.predict([0], [1]), fitted.predict([0], [1]))


@pytest.mark.parametrize(("factor", "shift"), [(8.0, 0.0), (1.0, 64.0)])
def test_scale_and_shift_do_not_matter(ratings, fitted, factor, shift):
    other = MatrixCompletion(random_state=0).fit(factor * ratings + shift)
    assert other.tuning_.chosen.candidate == fitted.tuning_.chosen.candidate
    rows, cols = np.nonzero(np.isnan(ratings))
    expected = factor * fitted.predict(rows, cols) + shift
    assert np.abs(other.predict(rows, cols) - expected).mean() < 0.1 * factor * np.nanstd(ratings)


def test_effort_says_what_is_tried(ratings):
    fast = MatrixCompletion(effort="fast", random_state=0).fit(ratings)
    assert fast.tuning_.candidates["candidate"] == ["offsets alone", "NNFN", "NNFN + who rated what"]
    assert fast.model_.method == "nnfn"
    with pytest.raises(InputError, match="effort must be one of fast, balanced, best; got 'much'"):
        MatrixCompletion(effort="much").fit(ratings)


def test_what_is_given_narrows_the_candidates(ratings):
    def names(**given):
        return MatrixCompletion(random_state=0, **given).fit(ratings).tuning_.candidates["candidate"]

    assert names(method="bpmf") == ["sampler", "sampler + who rated what"]
    assert names(method="bpmf", features=None) == ["sampler"]
    assert names(theta=0.5, rank=3, features=None) == ["NNFN"]
    one = MatrixCompletion("bpmf", rank=2, max_iter=20, random_state=0).fit(ratings)
    assert not hasattr(one, "tuning_")


def test_more_data_goes_to_the_model_that_was_chosen(ratings, fitted):
    model = MatrixCompletion.from_model(fitted.model_)
    rows, cols = np.nonzero(np.isnan(ratings))
    model.partial_fit((rows[:3], cols[:3], np.full(3, 3.0)))
    assert model.model_.method == fitted.model_.method
    assert model.observations_.nnz == fitted.observations_.nnz + 3


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0, np.nan], [2.0, 3.0]]),
        np.array([[1.0, np.nan]]),
        np.array([[3.0]]),
        np.array([[1.0, np.nan], [np.nan, 2.0]]),
        RNG.standard_normal((1, 8)),
        RNG.standard_normal((8, 1)),
        np.full((5, 5), 2.0),
        np.where(np.arange(10)[:, None] == 3, np.nan, RNG.standard_normal((10, 6))),
    ],
    ids=["2 x 2", "one entry", "1 x 1", "two entries", "one row", "one column", "constant", "an empty row"],
)
def test_small_and_odd_data(X):
    model = MatrixCompletion(random_state=0).fit(X)
    filled = model.complete()
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_a_rank_above_the_matrix_is_that_of_the_matrix(ratings):
    assert MatrixCompletion(rank=1000, lam=1.0, random_state=0).fit(ratings[:20]).setting_.rank == 20


def test_large_data_is_compared_on_some_rows_and_searched_on_all_in_single_precision(monkeypatch):
    """Rank 3 and offsets: the answer is as good as by a search on all of the data in double precision."""
    rng = np.random.default_rng(0)
    m, n, entries = 200, 100, 8000
    cells = rng.permutation(m * n)[: 2 * entries]
    rows, cols = cells // n, cells % n
    values = 3 + rng.standard_normal(m)[rows] + 0.3 * rng.standard_normal(cells.size)
    values += np.sum(rng.standard_normal((m, 3))[rows] * rng.standard_normal((n, 3))[cols], axis=1)
    train, test = (
        Observations.from_coo(rows[half], cols[half], values[half], (m, n))
        for half in (slice(0, entries), slice(entries, None))
    )
    errors, precisions = [], set()
    judge = HeldOutJudge.__call__

    def watched(self, candidate):
        precisions.add(self.parts[0][0].dtype.name)
        return judge(self, candidate)

    monkeypatch.setattr(HeldOutJudge, "__call__", watched)
    for large in (choice.LARGE, 3000):
        monkeypatch.setattr(choice, "LARGE", large)
        model = MatrixCompletion(effort="fast", random_state=0).fit(train)
        errors.append(np.sqrt(np.mean((model.predict(test.rows, test.cols) - test.values) ** 2)))
        assert precisions == {"float64" if large > 3000 else "float32"}
        assert model.result_.factors.dtype == np.float64
        precisions.clear()
    assert any(trial.name.endswith(", all rows") for trial in model.tuning_)
    assert model.tuning_.chosen.name.endswith(", all rows")
    assert errors[1] < 1.03 * errors[0]


def test_values_that_single_precision_cannot_tell_apart_stay_in_double(monkeypatch):
    monkeypatch.setattr(choice, "LARGE", 10)
    rng = np.random.default_rng(0)
    for values, dtype in ((rng.random((8, 8)), "float32"), (1e6 + rng.random((8, 8)), "float64")):
        seen = Observations.from_dense(values)
        assert choice.in_single_precision(((seen, seen),))[0][0].dtype == dtype
    huge = Observations.from_dense(1e60 * rng.random((8, 8)))
    assert choice.in_single_precision(((huge, huge),))[0][0].dtype == np.float64


def test_a_sampler_must_be_better_than_offsets_alone_by_noise():
    """Of offsets alone nothing was tuned: they do not look better on the held-out entries than they are."""
    rng = np.random.default_rng(0)
    losses = rng.exponential(size=400)
    slightly = losses - 0.01 + 0.5 * stats.zscore(rng.standard_normal(400))  # by less than its standard error of 0.025
    sampler = kind("sampler", slightly, tuned=False)
    assert chosen(kind("NNFN", losses), sampler) == "sampler"
    assert chosen(kind("offsets", losses, rank=0), sampler) == "offsets"
    assert chosen(kind("offsets", losses, rank=0), kind("sampler", slightly - 0.05, tuned=False)) == "sampler"


def test_who_rated_what_is_found_where_it_says_most_and_entries_little():
    """Rows rate columns that they like, ten each; offsets alone are as good as NNFN there."""
    rng = np.random.default_rng(2)
    W, H = rng.standard_normal((300, 2)), rng.standard_normal((200, 2))
    X = W @ H.T
    seen = rng.random(X.shape) < 0.12 / (1 + np.exp(-3 * X))
    rows, cols = np.nonzero(seen)
    values = X[seen] + 0.7 * rng.standard_normal(rows.size)
    train, test = Observations.from_coo(rows, cols, values, X.shape).split(0.2, 0)
    model = MatrixCompletion(random_state=0).fit(train)
    assert model.setting_.rank > 0
    assert model.model_.params["features"] == "implicit"
    # 0.81; NNFN with who rated what has 0.86, and either method without it 0.97 or more.
    assert np.sqrt(np.mean((model.predict(test.rows, test.cols) - test.values) ** 2)) < 0.88
    # Where offsets alone are what came before, features are tried at a theta between 0 and 1, from the top of lam.
    errors = [trial["error"] for trial in model.model_.trials if trial["candidate"] == "NNFN + who rated what"]
    assert max(errors) < 1.5


def test_the_norm_of_noise_is_its_spectral_norm():
    rng = np.random.default_rng(0)
    for m, n, density in ((400, 300, 0.3), (600, 100, 0.5)):
        noise = np.where(rng.random((m, n)) < density, rng.standard_normal((m, n)), np.nan)
        expected = np.linalg.norm(np.nan_to_num(noise), 2)
        assert noise_norm(Observations.from_dense(noise)) == pytest.approx(expected, rel=0.05)
