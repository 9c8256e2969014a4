"""Factored regularizers, by finite differences, random points and the singular values of the product."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorank.regularizers import (
    NNFN,
    FactoredGSR,
    FactoredGSRTwoThirds,
    FactoredNNFN,
    FactoredNuclear,
    Nuclear,
    SchattenP,
)

regularizers = [
    FactoredNuclear(lam=1.3),
    FactoredNuclear(lam=0.0),
    FactoredNNFN(lam=1.3, theta=1.0),
    FactoredNNFN(lam=1.3, theta=0.4),
    FactoredNNFN(lam=1.3, theta=0.0),
    FactoredGSR(lam=1.3),
    FactoredGSRTwoThirds(lam=1.3),
]
every = pytest.mark.parametrize("regularizer", regularizers, ids=repr)


def factors(seed, rows=7, cols=5, rank=3):
    random = np.random.default_rng(seed)
    return random.standard_normal((rows, rank)), random.standard_normal((cols, rank))


def at(regularizer, W, H):
    return regularizer.value(W.T @ W, H.T @ H)


def numerical_gradient(function, A, width=1e-6):
    gradient = np.zeros_like(A)
    for index in np.ndindex(A.shape):
        shift = np.zeros_like(A)
        shift[index] = width
        gradient[index] = (function(A + shift) - function(A - shift)) / (2 * width)
    return gradient


def written_out(regularizer, W, H):
    """The definitions, on the factors themselves."""
    if isinstance(regularizer, FactoredGSR):
        columns = np.linalg.norm(W, axis=0).sum() + np.linalg.norm(H, axis=0).sum()
        return regularizer.lam / 2 * columns
    if isinstance(regularizer, FactoredGSRTwoThirds):
        # The published sum, at the best scale between the two columns of each pair.
        norms = np.linalg.norm(W, axis=0), np.linalg.norm(H, axis=0)
        scale = (norms[1] ** 2 / norms[0]) ** (1 / 3)
        return regularizer.lam * 2 / 3 * np.sum(norms[0] * scale + (norms[1] / scale) ** 2 / 2)
    theta = getattr(regularizer, "theta", 0.0)
    ridge = (np.linalg.norm(W) ** 2 + np.linalg.norm(H) ** 2) / 2
    return regularizer.lam * (ridge - theta * np.linalg.norm(W @ H.T))


@every
@pytest.mark.parametrize("seed", range(5))
def test_value_from_grams_is_the_definition(regularizer, seed):
    W, H = factors(seed)
    assert at(regularizer, W, H) == pytest.approx(written_out(regularizer, W, H), rel=1e-12)


@every
@pytest.mark.parametrize("seed", range(5))
def test_multipliers_give_the_gradient(regularizer, seed):
    W, H = factors(seed)
    MW, MH = regularizer.multipliers(W.T @ W, H.T @ H)
    np.testing.assert_allclose(W @ MW, numerical_gradient(lambda A: at(regularizer, A, H), W), atol=1e-7)
    np.testing.assert_allclose(H @ MH, numerical_gradient(lambda A: at(regularizer, W, A), H), atol=1e-7)


def bound_above(regularizer, W_old, H, W):
    """The majorizer at W, its constant set by equality at W_old."""
    ridge, pull = regularizer.majorizer(W_old.T @ W_old, H.T @ H)

    def quadratic(A):
        return 0.5 * np.sum((A @ ridge) * A) - np.sum(A * (W_old @ pull))

    return quadratic(W) - quadratic(W_old) + at(regularizer, W_old, H)


@every
@pytest.mark.parametrize("seed", range(3))
def test_majorizer_bounds_above_in_either_factor(regularizer, seed):
    random = np.random.default_rng(100 + seed)
    W, H = factors(seed)
    for _ in range(200):
        size = 10 ** random.uniform(-3, 1)
        W_new = random.choice([0.0, 1.0]) * W + size * random.standard_normal(W.shape)
        H_new = random.choice([0.0, 1.0]) * H + size * random.standard_normal(H.shape)
        assert at(regularizer, W_new, H) <= bound_above(regularizer, W, H, W_new) + 1e-10
        # Swapped, for the half-step in H; the value does not mind which factor comes first.
        assert at(regularizer, H_new, W) <= bound_above(regularizer, H, W, H_new) + 1e-10


@every
def test_majorizer_has_the_gradient_of_the_regularizer_where_it_touches(regularizer):
    W, H = factors(3)
    ridge, pull = regularizer.majorizer(W.T @ W, H.T @ H)
    MW, MH = regularizer.multipliers(W.T @ W, H.T @ H)
    np.testing.assert_allclose(ridge - pull, MW)
    ridge, pull = regularizer.majorizer(H.T @ H, W.T @ W)
    np.testing.assert_allclose(ridge - pull, MH)


@every
@given(spectrum=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=4), seed=st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_at_balanced_factors_it_is_the_spectral_value(regularizer, spectrum, seed):
    random = np.random.default_rng(seed)
    sigma = np.sort(np.array(spectrum))[::-1]
    U = np.linalg.qr(random.standard_normal((6, sigma.size)))[0]
    V = np.linalg.qr(random.standard_normal((5, sigma.size)))[0]
    value = at(regularizer, U * np.sqrt(sigma), V * np.sqrt(sigma))
    assert value == pytest.approx(regularizer.spectral().value(sigma), rel=1e-9, abs=1e-9)


@every
@pytest.mark.parametrize("seed", range(20))
def test_no_other_factors_of_the_same_product_cost_less(regularizer, seed):
    """Why the factored form may stand in for the spectral one: it is never below it."""
    W, H = factors(seed)
    sigma = np.linalg.svd(W @ H.T, compute_uv=False)[: W.shape[1]]
    assert at(regularizer, W, H) >= regularizer.spectral().value(sigma) - 1e-10


def test_spectral_counterparts():
    assert FactoredNuclear(lam=2.0).spectral() == Nuclear(lam=2.0)
    assert FactoredNNFN(lam=2.0, theta=0.5).spectral() == NNFN(lam=2.0, theta=0.5)
    assert FactoredGSR(lam=2.0).spectral() == SchattenP(lam=2.0, p=0.5)


@every
@pytest.mark.parametrize("zero", ["both", "W", "orthogonal"])
def test_a_product_of_zero_is_no_division_by_zero(regularizer, zero):
    W, H = factors(0)
    W = np.zeros_like(W)
    if zero == "both":
        H = np.zeros_like(H)
    if zero == "orthogonal":
        # Neither factor is 0, but no column is alive in both.
        W[:, 0] = 1.0
        H[:, 0] = 0.0
    with np.errstate(all="raise"):
        MW, MH = regularizer.multipliers(W.T @ W, H.T @ H)
        ridge, pull = regularizer.majorizer(W.T @ W, H.T @ H)
    for matrix in (MW, MH, ridge, pull):
        assert np.all(np.isfinite(matrix))
    np.testing.assert_array_equal(pull, 0.0)
    # Still a bound, short of it by no more than the floor under a dead column of GSR allows.
    slack = 1e-6 if isinstance(regularizer, FactoredGSRTwoThirds) else 1e-9
    random = np.random.default_rng(1)
    for _ in range(200):
        W_new = 10 ** random.uniform(-12, 1) * random.standard_normal(W.shape)
        assert at(regularizer, W_new, H) <= bound_above(regularizer, W, H, W_new) + slack


def test_gsr_holds_a_dead_column_at_zero():
    W, H = factors(0)
    W[:, 1] = 0.0
    ridge, _ = FactoredGSR(lam=1.0).majorizer(W.T @ W, H.T @ H)
    assert ridge[1, 1] > 1e9 * ridge[0, 0] > 0
    MW, _ = FactoredGSR(lam=1.0).multipliers(W.T @ W, H.T @ H)
    assert MW[1, 1] == 0


@every
def test_multipliers_and_majorizer_keep_single_precision(regularizer):
    W, H = (factor.astype(np.float32) for factor in factors(0))
    grams = W.T @ W, H.T @ H
    for matrix in (*regularizer.multipliers(*grams), *regularizer.majorizer(*grams)):
        assert matrix.dtype == np.float32
        assert matrix.shape == (3, 3)
