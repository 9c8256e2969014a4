"""Matrix sensing, and Theorem 4: the error grows linearly with the norm of the noise."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.exceptions import ConvergenceWarning

import lorank
from lorank.errors import InputError
from lorank.solvers import Status


@pytest.fixture(scope="module")
def sensing():
    """Gaussian measurements of a 20 x 15 matrix of rank 2."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 15))
    A = rng.standard_normal((280, 20, 15)) / np.sqrt(280)
    noise = rng.standard_normal(280)
    return A, X, noise / np.linalg.norm(noise)


@pytest.mark.parametrize("method", ["nnfn", "nnfn-prox", "mcp", "schatten-p"])
def test_error_grows_linearly_with_the_noise(sensing, method):
    A, X, noise = sensing
    levels = np.array([0.1, 0.2, 0.4, 0.8, 1.6])
    errors = []
    for level in levels:
        result = lorank.sense(A, np.tensordot(A, X) + level * noise, X.shape, method=method, rank=4, lam=0.3 * level)
        errors.append(np.linalg.norm(result.factors.dense() - X))
    slope = np.polyfit(np.log(levels), np.log(errors), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)
    assert np.all(errors < 2 * levels)


def test_no_noise_is_recovered_exactly_from_an_array_or_an_operator(sensing):
    A, X, _ = sensing
    b = np.tensordot(A, X)
    found = lorank.sense(A, b, X.shape, rank=2, lam=1e-4, tol=1e-12)
    np.testing.assert_allclose(found.factors.dense(), X, atol=1e-2)
    flat = aslinearoperator(A.reshape(280, -1))
    assert isinstance(flat, LinearOperator)
    again = lorank.sense(flat, b, X.shape, rank=2, lam=1e-4, tol=1e-12)
    np.testing.assert_allclose(again.factors.dense(), found.factors.dense(), atol=1e-10)


@pytest.mark.parametrize("method", ["nnfn", "nuclear", "lsp"])
def test_within_the_noise_the_error_is_bounded_by_it(sensing, method):
    """||A(X - X*)|| <= 2 ||e||, and an isometry constant of at most 1/3 makes that a bound of the error."""
    A, X, noise = sensing
    for level in (0.1, 0.4, 1.6):
        b = np.tensordot(A, X) + level * noise
        found = lorank.sense(A, b, X.shape, method=method, rank=4, noise=level).factors.dense()
        residual = np.linalg.norm(np.tensordot(A, found) - b)
        assert 0.99 * level < residual <= level  # the least regularizer uses all that the noise allows
        assert np.linalg.norm(found - X) <= 2 * level / np.sqrt(1 - 1 / 3)


def test_exact_measurements_are_met_and_the_matrix_is_recovered(sensing):
    A, X, _ = sensing
    found = lorank.sense(A, np.tensordot(A, X), X.shape, rank=4, noise=0).factors
    np.testing.assert_allclose(found.dense(), X, atol=1e-4)
    assert found.singular_values().size == 2


@pytest.mark.parametrize("regularizer", [lorank.regularizers.NNFN(lam=1.0), lorank.regularizers.Nuclear(lam=1.0)])
def test_the_bound_on_the_regularizer_holds_and_is_used(sensing, regularizer):
    A, X, noise = sensing
    bound = regularizer.value(np.linalg.svd(X, compute_uv=False))
    found = lorank.sense(A, np.tensordot(A, X) + 0.4 * noise, X.shape, method=regularizer, rank=4, bound=bound).factors
    assert 0.99 * bound < regularizer.value(found.singular_values()) <= bound
    assert np.linalg.norm(found.dense() - X) < 0.4 * 2 / np.sqrt(1 - 1 / 3)


def test_measuring_every_entry_gives_the_proximal_point():
    Z = np.random.default_rng(0).standard_normal((9, 7))
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    for method, regularizer in (
        ("nuclear", lorank.regularizers.Nuclear(lam=1.0)),
        ("nnfn", lorank.regularizers.NNFN(lam=1.0)),
    ):
        found = lorank.sense(aslinearoperator(np.eye(63)), Z.ravel(), (9, 7), method=method, rank=7, tol=1e-13)
        np.testing.assert_allclose(found.factors.dense(), (U * regularizer.prox(sigma, 1.0)) @ Vt, atol=1e-4)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("lam", [0.7, 3.0])
def test_measuring_every_entry_gives_the_best_point_of_the_rank(rank, lam):
    """NNFN is no sum over singular values: its prox of the strongest ones depends on those that the rank cuts off."""
    Z = 2 * np.random.default_rng(2).standard_normal((9, 7))
    z, nnfn = np.linalg.svd(Z, compute_uv=False), lorank.regularizers.NNFN(lam=lam)
    x = nnfn.prox(z[:rank], 1.0)
    best = 0.5 * np.sum((x - z[:rank]) ** 2) + nnfn.value(x) + 0.5 * np.sum(z[rank:] ** 2)
    found = lorank.sense(aslinearoperator(np.eye(63)), Z.ravel(), (9, 7), rank=rank, lam=lam, tol=1e-13)
    assert found.objective == pytest.approx(best, rel=1e-9)
    if (rank, lam) == (1, 0.7):
        assert found.objective == pytest.approx(80.8675, abs=1e-4)


def test_decreases_and_warns(sensing):
    A, X, noise = sensing
    b = np.tensordot(A, X) + noise
    result = lorank.sense(A, b, X.shape, method="lsp", rank=4, lam=0.3)
    assert result.status is Status.CONVERGED
    assert np.all(np.diff(result.history.objective) <= 0)
    with pytest.warns(ConvergenceWarning, match="limit of 3 iterations"):
        assert lorank.sense(A, b, X.shape, max_iter=3).n_iter == 3
    with pytest.warns(ConvergenceWarning, match="limit of 1e-06 s"):
        lorank.sense(A, b, X.shape, max_seconds=1e-6)


def test_what_sensing_refuses(sensing):
    A, X, _ = sensing
    b = np.tensordot(A, X)
    with pytest.raises(InputError, match="q x 15 x 20; this one is 280 x 20 x 15"):
        lorank.sense(A, b, (15, 20))
    with pytest.raises(InputError, match="takes vectors of length 300; this one takes 299"):
        lorank.sense(aslinearoperator(np.ones((280, 299))), b, X.shape)
    with pytest.raises(InputError, match="280 measurements and b has 279"):
        lorank.sense(A, b[1:], X.shape)
    with pytest.raises(InputError, match="rank must be between 1 and 15"):
        lorank.sense(A, b, X.shape, rank=16)
    with pytest.raises(InputError, match="NaN"):
        lorank.sense(A, np.full(280, np.nan), X.shape)
    with pytest.raises(InputError, match="noise must be a number, not negative"):
        lorank.sense(A, b, X.shape, noise=-1)
    with pytest.raises(InputError, match="give one of them"):
        lorank.sense(A, b, X.shape, noise=1, bound=1)
    with pytest.raises(InputError, match="no proximal map"):
        lorank.sense(A, b, X.shape, method="truncated-l12")
