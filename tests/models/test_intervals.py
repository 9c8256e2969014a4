"""Intervals hold what they promise."""

import math

import numpy as np
import pytest

from lorank import InputError, MatrixCompletion, Observations
from lorank.linalg import Factors
from lorank.models.intervals import KEPT, Calibration, _log_variance, calibrate

M, N, PER_ROW = 400, 300, 60


def noisy(seed, entries=M * PER_ROW):
    """Rank 2 and noise whose size differs tenfold between rows: who has it is known."""
    rng = np.random.default_rng(seed)
    W, H = rng.standard_normal((M, 2)), rng.standard_normal((N, 2))
    noise = np.exp(rng.uniform(-1.2, 1.2, M))
    cells = rng.permutation(M * N)[: 2 * entries]
    rows, cols = cells // N, cells % N
    values = np.sum(W[rows] * H[cols], axis=1) + noise[rows] * rng.standard_normal(2 * entries)
    parts = [Observations.from_coo(rows[s], cols[s], values[s], (M, N)) for s in np.split(np.arange(2 * entries), 2)]
    return *parts, noise


@pytest.fixture(scope="module")
def fitted():
    train, test, noise = noisy(0)
    model = MatrixCompletion(rank=2, lam=3.0, random_state=0).fit(train, validation=0.2)
    return model, test, noise


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_coverage(fitted, level):
    model, test, _ = fitted
    predicted, lower, upper = model.predict(test.rows, test.cols, interval=level)
    np.testing.assert_array_equal(predicted, model.predict(test.rows, test.cols))
    np.testing.assert_allclose(upper - predicted, predicted - lower)
    inside = (lower <= test.values) & (test.values <= upper)
    # The calibration set has 2,400 entries: its own quantile has a standard error of sqrt(p (1 - p) / 2400) <= 0.01.
    assert inside.mean() == pytest.approx(level, abs=0.03 if level < 0.6 else 0.02)


def test_wide_where_it_is_hard(fitted):
    model, test, noise = fitted
    _, lower, upper = model.predict(test.rows, test.cols, interval=0.9)
    inside = (lower <= test.values) & (test.values <= upper)
    quiet, loud = noise[test.rows] < np.quantile(noise, 0.2), noise[test.rows] > np.quantile(noise, 0.8)
    width = upper - lower
    assert width[loud].mean() > 3 * width[quiet].mean()
    for part in (quiet, loud):
        assert inside[part].mean() == pytest.approx(0.9, abs=0.05)
    # One width for all, as right on average, would be wrong for each.
    flat = np.quantile(np.abs(model.predict(test.rows, test.cols) - test.values), 0.9)
    errors = np.abs(model.predict(test.rows, test.cols) - test.values)
    assert (errors[quiet] <= flat).mean() > 0.98
    assert (errors[loud] <= flat).mean() < 0.8


def test_coverage_of_lines_with_few_entries():
    """What is not known of a row falls as 1 / (n + 1): rows of every count have the coverage that was asked for."""
    rng = np.random.default_rng(0)
    m, n, held = 2000, 400, 20
    counts = np.exp(rng.uniform(0, np.log(300), m)).astype(int)
    cells = [rng.permutation(n)[: count + 2 * held] for count in counts]
    rows = [np.repeat(np.arange(m), size) for size in (counts, 2 * held)]
    cols = [np.concatenate([cell[:count] for cell, count in zip(cells, counts)])]
    cols.append(np.concatenate([cell[count:] for cell, count in zip(cells, counts)]))
    values = rng.standard_normal(rows[1].size) * np.sqrt(1 + 10 / (counts + 1))[rows[1]]
    train = Observations.from_coo(rows[0], cols[0], rng.standard_normal(rows[0].size), (m, n))
    order = rng.permutation(rows[1].size)
    first, second = order[: order.size // 2], order[order.size // 2 :]
    held_out = Observations.from_coo(rows[1][first], cols[1][first], values[first], (m, n))
    calibration = calibrate([(Factors.of(np.zeros((m, 1)), np.zeros((n, 1))), train, held_out)], seed=0)
    half = calibration.quantile(0.9) * calibration.scale(rows[1][second], cols[1][second])
    inside, own = np.abs(values[second]) <= half, counts[rows[1][second]]
    for least, most in ((1, 2), (3, 9), (10, 29), (30, 99), (100, 300)):
        chosen = (own >= least) & (own <= most)
        assert inside[chosen].mean() == pytest.approx(0.9, abs=0.02), (least, most)


def test_guarantee_of_small_calibration_sets():
    """On average over calibration sets of 40, half of them for the quantile, coverage is at least what was asked."""
    rng = np.random.default_rng(0)
    factors = Factors.of(np.zeros((50, 1)), np.zeros((50, 1)))
    train = Observations.from_coo([0], [0], [1.0], (50, 50))
    covered = []
    for _ in range(400):
        cells = rng.permutation(2500)[:140]
        values = rng.standard_normal(140)
        held_out = Observations.from_coo(cells[:40] // 50, cells[:40] % 50, values[:40], (50, 50))
        calibration = calibrate([(factors, train, held_out)], seed=0)
        half = calibration.quantile(0.8) * calibration.scale(cells[40:] // 50, cells[40:] % 50)
        covered.append(np.mean(np.abs(values[40:]) <= half))
    # Exact: ceil(21 * 0.8) / 21 = 17 / 21.
    assert np.mean(covered) == pytest.approx(17 / 21, abs=0.02)


def test_too_few_for_the_promise_gives_infinite_intervals():
    calibration = Calibration(np.ones(3), np.ones(3), np.array([1.0, 2.0, 3.0]), 3)
    assert calibration.quantile(0.5) == 2.0
    assert calibration.quantile(0.75) == 3.0
    assert calibration.quantile(0.9) == math.inf


def test_thinned_quantiles_are_not_below_the_exact_ones():
    rng = np.random.default_rng(0)
    ratios = np.sort(rng.exponential(size=12_345))
    kept = ratios[np.ceil(np.linspace(0, ratios.size - 1, KEPT)).astype(int)]
    thinned = Calibration(np.ones(1), np.ones(1), kept, ratios.size)
    for level in (0.01, 0.3, 0.9, 0.99, 0.999):
        exact = ratios[math.ceil((ratios.size + 1) * level) - 1]
        assert exact <= thinned.quantile(level) <= ratios[min(ratios.size - 1, math.ceil(ratios.size * (level + 2e-3)))]


def test_the_variance_regression_finds_its_coefficients():
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(50_000), rng.standard_normal((50_000, 4))])
    beta = np.array([0.5, 1.0, -0.7, 0.2, 0.0])
    squares = np.exp(features @ beta) * rng.standard_normal(50_000) ** 2
    found = _log_variance(features, squares)
    np.testing.assert_allclose(found, beta, atol=0.03)
    # It is a stationary point of sum of eta + squares exp(-eta), up to the ridge.
    gradient = features.T @ (1 - squares * np.exp(-features @ found))
    assert np.abs(gradient).max() < 2.0


def test_auto_brings_intervals(table):
    train, test, _ = noisy(1)
    model = MatrixCompletion(rank=2, lam="auto", random_state=0).fit(train)
    _, lower, upper = model.predict(test.rows, test.cols, interval=0.9)
    assert ((lower <= test.values) & (test.values <= upper)).mean() == pytest.approx(0.9, abs=0.025)


def test_folded_and_unseen_rows_have_intervals_too(fitted):
    model, test, _ = fitted
    folded = model.fold_in(test)
    assert np.isfinite(folded.predict(3, np.arange(N), interval=0.9)[2]).all()
    unseen = MatrixCompletion(rank=2, lam=3.0, biases=True, random_state=0)
    unseen.fit(noisy(0)[0], validation=0.2)
    predicted, _, upper = unseen.predict([M + 5], [0], interval=0.9, unseen="bias")
    assert upper[0] > predicted[0]


def test_without_held_out_entries_they_are_refused(table):
    holes, _ = table
    model = MatrixCompletion(rank=2, lam=10.0).fit(holes)
    with pytest.raises(InputError, match=r"fit it with validation=0\.1"):
        model.predict(0, 0, interval=0.9)
    model = MatrixCompletion(rank=2, lam=10.0).fit(holes, validation=0.2)
    for level in (0, 1, 90):
        with pytest.raises(InputError, match="level lies between 0 and 1"):
            model.predict(0, 0, interval=level)
