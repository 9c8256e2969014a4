"""The prox of every separable penalty, against a search over a fine grid that knows nothing but ``value``."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorank.regularizers import LSP, MCP, CappedL1, Nuclear, SchattenP, Separable

# Ranges far wider than any sensible use: L = step * lam spans sixteen decades.
weights = st.floats(1e-4, 1e4)
scales = st.floats(1e-3, 1e3)
steps = st.floats(1e-4, 1e4)
values = st.floats(0.0, 1e3)

penalties = st.one_of(
    st.builds(Nuclear, lam=weights),
    st.builds(CappedL1, lam=weights, theta=scales),
    st.builds(LSP, lam=weights, theta=scales),
    st.builds(MCP, lam=weights, theta=scales),
    st.builds(SchattenP, lam=weights, p=st.one_of(st.just(1 / 2), st.just(2 / 3), st.floats(0.02, 0.98))),
)

examples = [
    Nuclear(lam=0.7),
    CappedL1(lam=0.7, theta=0.9),
    LSP(lam=0.7, theta=0.9),
    MCP(lam=0.7, theta=0.9),
    SchattenP(lam=0.7, p=0.5),
    SchattenP(lam=0.7, p=2 / 3),
    SchattenP(lam=0.7, p=0.3),
]


def objective(penalty: Separable, x, z, step):
    return 0.5 * (x - z) ** 2 + step * penalty.penalty(np.asarray(x, dtype=float))


def least_by_search(penalty: Separable, z: float, step: float) -> float:
    """The least objective on a grid from 0 to beyond z, linear and logarithmic, zoomed in four times."""
    grid = np.concatenate([np.linspace(0, 1.5 * z, 2001), np.geomspace(1e-9, 1.5, 500) * z])
    for _ in range(4):
        grid = np.sort(grid)
        best = int(np.argmin(objective(penalty, grid, z, step)))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
        grid = np.append(np.linspace(low, high, 301), [0.0, z])
    return float(np.min(objective(penalty, grid, z, step)))


@given(penalties, values, steps)
@settings(max_examples=1000, deadline=None)
def test_prox_is_a_global_minimiser(penalty, z, step):
    (x,) = penalty.prox(np.array([z]), step)
    found = objective(penalty, x, z, step)
    least = least_by_search(penalty, z, step)
    assert found <= least + 1e-12 * max(z * z, least)


@given(penalties, steps, st.floats(1e-3, 10.0))
@settings(max_examples=500, deadline=None)
def test_prox_is_a_global_minimiser_around_the_threshold(penalty, step, ratio):
    """Random z seldom fall where the answer changes its form, so draw them relative to the threshold."""
    z = ratio * penalty.threshold(step)
    (x,) = penalty.prox(np.array([z]), step)
    least = least_by_search(penalty, z, step)
    assert objective(penalty, x, z, step) <= least + 1e-12 * max(z * z, least)


@given(penalties, steps)
@settings(max_examples=300, deadline=None)
def test_threshold_is_exactly_where_values_start_to_survive(penalty, step):
    cut = penalty.threshold(step)
    below = np.array([cut, cut * (1 - 1e-9), cut / 2, 0.0])
    np.testing.assert_array_equal(penalty.prox(below, step), 0.0)
    assert penalty.prox(np.array([cut * (1 + 1e-6)]), step)[0] > 0
    # And 0 is no longer optimal there: a threshold that is too low would cost more than 0.
    z = cut * (1 + 1e-6)
    x = penalty.prox(np.array([z]), step)[0]
    assert objective(penalty, x, z, step) <= 0.5 * z * z * (1 + 1e-12)


@given(penalties, st.lists(values, max_size=20), steps)
@settings(max_examples=300, deadline=None)
def test_prox_of_a_vector_is_the_prox_of_each_in_order(penalty, sigma, step):
    z = np.sort(np.array(sigma, dtype=float))[::-1]
    x = penalty.prox(z, step)
    assert x.dtype == np.float64
    assert x.shape == z.shape
    one_by_one = [penalty.prox(np.array([v]), step)[0] for v in z]
    np.testing.assert_allclose(x, one_by_one, rtol=1e-13)
    assert np.all(np.diff(x) <= 1e-13 * z[:1].sum())


@pytest.mark.parametrize("penalty", examples, ids=repr)
def test_value_is_the_sum_and_grows_concavely_from_zero(penalty):
    x = np.linspace(0, 5, 201)
    curve = np.array([penalty.value(np.array([v])) for v in x])
    assert curve[0] == 0
    assert np.all(np.diff(curve) >= 0)
    assert np.all(np.diff(curve, 2) <= 1e-12)
    assert penalty.value(x[::-1]) == pytest.approx(curve.sum())


@pytest.mark.parametrize("penalty", examples, ids=repr)
def test_prox_leaves_its_argument_alone_and_takes_float32(penalty):
    z = np.array([3.0, 2.0, 0.1], dtype=np.float32)
    x = penalty.prox(z, 1.0)
    np.testing.assert_array_equal(z, np.array([3.0, 2.0, 0.1], dtype=np.float32))
    assert x.dtype == np.float64
    assert penalty.prox(np.array([]), 1.0).size == 0


@pytest.mark.parametrize("penalty", examples, ids=repr)
def test_rounding_never_lifts_a_value(penalty):
    """Far out almost nothing is taken off, and the last bit of a closed form may exceed z."""
    z = np.geomspace(1e15, 1.0, 2000)
    assert np.all(penalty.prox(z, 0.5) <= z)


@pytest.mark.parametrize("penalty", [type(p)(**{**vars(p), "lam": 0.0}) for p in examples], ids=repr)
def test_without_weight_prox_is_the_identity(penalty):
    z = np.array([1e3, 1.0, 1e-6, 0.0])
    np.testing.assert_allclose(penalty.prox(z, 10.0), z, rtol=1e-12)
    assert penalty.threshold(10.0) == 0


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        (Nuclear(lam=2.0), 2.5),
        (CappedL1(lam=2.0, theta=1.0), 3.5),
        (LSP(lam=2.0, theta=1.0), (2.5 + math.sqrt(16.25)) / 2),
        (MCP(lam=2.0, theta=4.0), (3.5 - 1.0) / (1 - 0.5 / 4.0)),
        (MCP(lam=1.0, theta=0.25), 3.5),
    ],
    ids=repr,
)
def test_prox_by_hand(penalty, expected):
    """z = 3.5, step = 1/2."""
    assert penalty.prox(np.array([3.5]), 0.5)[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("penalty", "step", "expected"),
    [
        (MCP(lam=1.0, theta=2.0), 0.5, 0.5),
        (MCP(lam=1.0, theta=2.0), 8.0, 4.0),
        (CappedL1(lam=1.0, theta=2.0), 3.0, 3.0),
        (CappedL1(lam=1.0, theta=2.0), 9.0, 6.0),
        (LSP(lam=1.0, theta=2.0), 3.0, 1.5),
        (SchattenP(lam=1.0, p=0.5), 8.0, 6.0),
    ],
    ids=repr,
)
def test_threshold_by_hand(penalty, step, expected):
    assert penalty.threshold(step) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("p", [1 / 2, 2 / 3])
@given(z=st.floats(1e-3, 1e6), step=steps)
@settings(deadline=None)
def test_closed_schatten_prox_agrees_with_newton(p, z, step):
    closed = SchattenP(lam=1.0, p=p)
    newton = SchattenP(lam=1.0, p=math.nextafter(p, 1.0))
    z = max(z, 1.001 * closed.threshold(step))
    assert closed.prox(np.array([z]), step)[0] == pytest.approx(newton.prox(np.array([z]), step)[0], rel=1e-12)
