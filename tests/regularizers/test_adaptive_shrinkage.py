"""Proposition 1 and Corollary 3 of the NNFN paper: larger singular values are shrunk less.

Read literally, adaptivity sigma_i - x_i <= sigma_{i+1} - x_{i+1} fails for values that were set to 0: both of
(1, 1/2) go to 0 under a large weight, and 1 > 1/2. Its proof uses stationarity at x > 0; so does the test.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorank.regularizers import LSP, MCP, NNFN, CappedL1, Nuclear, SchattenP

weights = st.floats(1e-2, 1e2)
scales = st.floats(1e-2, 1e2)
adaptive = st.one_of(
    st.builds(CappedL1, lam=weights, theta=scales),
    st.builds(LSP, lam=weights, theta=scales),
    st.builds(MCP, lam=weights, theta=scales),
    st.builds(SchattenP, lam=weights, p=st.floats(0.05, 0.95)),
    st.builds(NNFN, lam=weights, theta=st.floats(0.0, 1.0)),
)
spectra = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=12).map(lambda v: np.sort(np.array(v))[::-1])


@given(adaptive, spectra, st.floats(1e-2, 1e2))
@settings(max_examples=1000, deadline=None)
def test_shrinkage_and_adaptivity(regularizer, sigma, step):
    x = regularizer.prox(sigma, step)
    shrunk_by = sigma - x
    assert np.all(shrunk_by >= 0)
    assert np.all(np.diff(shrunk_by[x > 0]) >= -1e-10 * (1 + sigma[0]))


# Every one of these spectra survives whole, and sees more than one slope of its penalty.
spread = np.array([8.0, 4.0, 2.0])


@pytest.mark.parametrize(
    "regularizer",
    [
        CappedL1(lam=1.0, theta=3.0),
        LSP(lam=1.0, theta=1.0),
        MCP(lam=1.0, theta=5.0),
        SchattenP(lam=0.5, p=0.5),
        SchattenP(lam=0.5, p=2 / 3),
        SchattenP(lam=0.5, p=0.4),
        NNFN(lam=1.0, theta=1.0),
        NNFN(lam=1.0, theta=0.3),
    ],
    ids=repr,
)
def test_somewhere_the_inequality_is_strict(regularizer):
    x = regularizer.prox(spread, 1.0)
    assert np.all(x > 0)
    assert np.any(np.diff(spread - x) > 1e-3)


@pytest.mark.parametrize("regularizer", [LSP(lam=1.0, theta=1.0), NNFN(lam=1.0, theta=0.5)], ids=repr)
def test_strictly_concave_ones_are_strict_between_any_two(regularizer):
    assert np.all(np.diff(spread - regularizer.prox(spread, 1.0)) > 1e-3)


def test_the_nuclear_norm_is_not_adaptive():
    x = Nuclear(lam=1.0).prox(spread, 1.0)
    assert np.all(x > 0)
    np.testing.assert_array_equal(np.diff(spread - x), 0.0)


def test_adaptivity_as_printed_fails_for_values_that_were_set_to_zero():
    sigma = np.array([1.0, 0.5])
    x = MCP(lam=10.0, theta=5.0).prox(sigma, 1.0)
    np.testing.assert_array_equal(x, 0.0)
    assert sigma[0] - x[0] > sigma[1] - x[1]
