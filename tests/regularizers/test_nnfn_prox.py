"""The prox of NNFN, against exhaustive and random search and against the exact optimal value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorank.regularizers import NNFN, Nuclear

thetas = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.0, 1.0))
regularizers = st.builds(NNFN, lam=st.floats(1e-3, 1e3), theta=thetas)


@st.composite
def problems(draw, max_size):
    """A regularizer, sigma relative to its L = step * lam (every case of the prox, with ties), and a step."""
    regularizer = draw(regularizers)
    step = draw(st.floats(1e-3, 1e3))
    level = st.one_of(st.floats(0.0, 3.0), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0.0, 1e4))
    relative = draw(st.lists(level, min_size=1, max_size=max_size))
    sigma = np.sort(np.array(relative))[::-1] * (step * regularizer.lam)
    return regularizer, sigma, step


def objective(regularizer, x, sigma, step):
    """1/2 ||x - sigma||^2 + step * value(x) for every row of x, written out anew."""
    norms = np.abs(x).sum(axis=-1) - regularizer.theta * np.sqrt((x * x).sum(axis=-1))
    return 0.5 * ((x - sigma) ** 2).sum(axis=-1) + step * regularizer.lam * norms


@given(problems(max_size=3))
@settings(max_examples=150, deadline=None)
def test_prox_beats_every_point_of_a_grid_and_of_a_local_search(problem):
    regularizer, sigma, step = problem
    x = regularizer.prox(sigma, step)
    found = objective(regularizer, x, sigma, step)
    scale = sigma[0] + step * regularizer.lam
    axis = np.linspace(0, 1.2 * scale, {1: 4001, 2: 201, 3: 41}[sigma.size])
    points = [np.stack(np.meshgrid(*[axis] * sigma.size), axis=-1).reshape(-1, sigma.size)]
    random = np.random.default_rng(0)
    for radius in 10.0 ** -np.arange(1, 7):
        points.append(np.abs(x + radius * scale * random.standard_normal((300, sigma.size))))
    least = objective(regularizer, np.concatenate(points), sigma, step).min()
    assert found <= least + 1e-12 * scale**2


@given(problems(max_size=30))
@settings(max_examples=500, deadline=None)
def test_prox_reaches_the_exact_optimal_value(problem):
    """With x = r d, ||d|| = 1, the best r is (<d, sigma - L> + theta L)_+, which costs ||sigma||^2/2 - r^2/2.

    The largest <d, v> over unit d >= 0 is ||v_+||, or max v when v has no positive entry.
    """
    regularizer, sigma, step = problem
    weight = step * regularizer.lam
    v = sigma - weight
    reach = np.linalg.norm(v[v > 0]) if v.max() > 0 else v.max()
    radius = max(reach + regularizer.theta * weight, 0.0)
    least = 0.5 * (sigma @ sigma) - 0.5 * radius**2
    x = regularizer.prox(sigma, step)
    scale = sigma @ sigma + weight**2
    assert objective(regularizer, x, sigma, step) == pytest.approx(least, abs=1e-12 * scale)
    assert np.all(x >= 0)
    assert np.all(np.diff(x) <= 0)


@pytest.mark.parametrize(
    ("sigma", "theta", "expected"),
    [
        # L = 2. M > L: s = (4, 3, 0), ||s|| = 5, factor 1 + 2 theta / 5.
        ([6.0, 5.0, 1.0], 1.0, [5.6, 4.2, 0.0]),
        # M = L, alone and tied: one maximum gets theta L.
        ([2.0, 1.0], 0.5, [1.0, 0.0]),
        ([2.0, 2.0], 0.5, [1.0, 0.0]),
        # (1 - theta) L < M < L, alone and tied.
        ([1.5, 1.0], 0.5, [0.5, 0.0]),
        ([1.5, 1.5, 1.5], 0.5, [0.5, 0.0, 0.0]),
        # M <= (1 - theta) L.
        ([1.0, 1.0], 0.5, [0.0, 0.0]),
        ([0.0, 0.0], 1.0, [0.0, 0.0]),
    ],
)
def test_the_four_cases_by_hand(sigma, theta, expected):
    np.testing.assert_allclose(NNFN(lam=4.0, theta=theta).prox(np.array(sigma), 0.5), expected, rtol=1e-15)


@given(problems(max_size=10))
def test_at_or_below_the_threshold_only_the_largest_may_survive(problem):
    regularizer, sigma, step = problem
    x = regularizer.prox(sigma, step)
    cut = regularizer.threshold(step)
    np.testing.assert_array_equal(x[1:][sigma[1:] <= cut], 0.0)
    assert np.all(x[sigma > cut * (1 + 1e-9)] > 0)


@given(problems(max_size=10))
def test_theta_zero_is_the_nuclear_norm(problem):
    regularizer, sigma, step = problem
    nnfn, nuclear = NNFN(lam=regularizer.lam, theta=0.0), Nuclear(lam=regularizer.lam)
    np.testing.assert_allclose(nnfn.prox(sigma, step), nuclear.prox(sigma, step))
    assert nnfn.value(sigma) == pytest.approx(nuclear.value(sigma))


@given(st.floats(1e-200, 1e3), st.floats(1e-3, 1e6))
def test_at_theta_one_rank_one_is_free_and_never_lost(top, step):
    regularizer = NNFN(lam=1.0, theta=1.0)
    sigma = np.array([top, 0.0, 0.0])
    assert regularizer.value(sigma) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(regularizer.prox(sigma, step), sigma, rtol=1e-12)


def test_tiny_values_do_not_underflow_to_nan():
    sigma = np.array([3e-200, 2e-200])
    np.testing.assert_array_equal(NNFN(lam=0.0).prox(sigma, 1.0), sigma)
    x = NNFN(lam=1e-200).prox(sigma, 1.0)
    np.testing.assert_allclose(x / 1e-200, np.array([2.0, 1.0]) * (1 + 1 / np.sqrt(5)))


def test_empty_and_float32():
    assert NNFN(lam=1.0).prox(np.array([]), 1.0).size == 0
    assert NNFN(lam=1.0).prox(np.array([2.0, 1.0], dtype=np.float32), 1.0).dtype == np.float64
