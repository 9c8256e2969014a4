"""Truncated l1-2: its value, and the subgradient that DCA needs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorank.regularizers import NNFN, TruncatedL12

spectra = st.lists(st.floats(0.0, 100.0), max_size=10).map(lambda v: np.sort(np.array(v, dtype=float))[::-1])


def test_value_by_hand():
    assert TruncatedL12(lam=2.0, t=1).value(np.array([4.0, 9.0, 3.0])) == pytest.approx(2 * (7 - 5))
    assert TruncatedL12(lam=2.0, t=3).value(np.array([4.0, 9.0, 3.0])) == 0


@given(spectra)
def test_t_zero_is_nnfn(sigma):
    assert TruncatedL12(lam=0.7, t=0).value(sigma) == pytest.approx(NNFN(lam=0.7).value(sigma))


@given(spectra, st.integers(0, 12))
def test_matrices_of_rank_t_plus_one_cost_nothing(sigma, t):
    assert TruncatedL12(lam=3.0, t=t).value(sigma[: t + 1]) == pytest.approx(0.0, abs=1e-9)
    assert TruncatedL12(lam=3.0, t=t).value(sigma) >= -1e-9


def test_weights_by_hand():
    weights = TruncatedL12(lam=2.0, t=1).subgradient_weights(np.array([9.0, 4.0, 3.0, 0.0]))
    np.testing.assert_allclose(weights, [1.0, 0.8, 0.6, 0.0])


@given(spectra, st.integers(0, 12))
def test_a_zero_tail_has_zero_weights(sigma, t):
    sigma = sigma.copy()
    sigma[t:] = 0
    weights = TruncatedL12(lam=1.0, t=t).subgradient_weights(sigma)
    np.testing.assert_array_equal(weights, np.arange(sigma.size) < t)


@pytest.mark.parametrize("t", [0, 1, 3])
def test_the_linearisation_touches_and_bounds_the_regularizer_above(t):
    """At 200 random matrices Y: value(Y) <= lam ||Y||_* - lam <U diag(w) V^T, Y>, with equality at Y = X."""
    random = np.random.default_rng(t)
    regularizer = TruncatedL12(lam=1.7, t=t)
    X = random.standard_normal((6, 5))
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    G = U * regularizer.subgradient_weights(sigma) @ Vt

    def bound(Y):
        spectrum = np.linalg.svd(Y, compute_uv=False)
        return regularizer.convex_part().value(spectrum) - regularizer.lam * np.sum(G * Y)

    assert bound(X) == pytest.approx(regularizer.value(sigma))
    for _ in range(200):
        Y = X + random.uniform(0, 3) * random.standard_normal(X.shape)
        assert regularizer.value(np.linalg.svd(Y, compute_uv=False)) <= bound(Y) + 1e-10


def test_it_promises_no_prox():
    assert not hasattr(TruncatedL12(lam=1.0, t=2), "prox")
