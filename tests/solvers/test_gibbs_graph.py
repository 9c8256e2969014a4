"""The Gibbs sampler with a graph: draws against the Gaussian written with dense arrays."""

import numpy as np
import pytest
import scipy.sparse as sp

from lorank import InputError, MatrixCompletion
from lorank.kernels import Workers
from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.solvers.gibbs.chain import Sampler, first_chain
from lorank.solvers.gibbs.hyper import Hyper, Prior
from lorank.solvers.gibbs.tied import draw_tied


def path(size, weight=0.4, sparse=False):
    A = np.eye(size, k=1) + np.eye(size, k=-1)
    return GraphLaplacian.from_adjacency(sp.csr_array(A) if sparse else A, weight)


@pytest.mark.parametrize("sparse", [False, True])
def test_root_of_a_laplacian(sparse):
    graph = path(7, sparse=sparse)
    root = graph.root.toarray() if sparse else graph.root
    np.testing.assert_allclose(root @ root.T, graph.dot(np.eye(7)), atol=1e-12)


def test_root_of_a_sparse_matrix_with_positive_entries_beside_the_diagonal():
    matrix = sp.csr_array(np.array([[2.0, 0.5, 0], [0.5, 1.0, -0.25], [0, -0.25, 0.5]]))
    graph = GraphLaplacian(matrix, 2.0)
    np.testing.assert_allclose((graph.root @ graph.root.T).toarray(), 2 * matrix.toarray(), atol=1e-12)
    with pytest.raises(InputError, match="diagonally dominant"):
        _ = GraphLaplacian(sp.csr_array(np.array([[1.0, 0.9, 0.9], [0.9, 1, 0.9], [0.9, 0.9, 1]]))).root


@pytest.mark.parametrize("sparse", [False, True])
def test_mean_and_covariance_of_tied_rows(sparse):
    rng = np.random.default_rng(0)
    m, n, k, alpha = 5, 6, 2, 3.0
    graph = path(m, sparse=sparse)
    X = rng.standard_normal((m, n))
    X[rng.random((m, n)) < 0.3] = np.nan
    X[2] = np.nan
    H, mu = rng.standard_normal((n, k)), np.array([0.5, -0.3])
    Lambda = np.array([[2.0, 0.4], [0.4, 1.0]])
    precision, right = np.zeros((m * k, m * k)), np.zeros(m * k)
    for i in range(m):
        seen, here = ~np.isnan(X[i]), slice(i * k, (i + 1) * k)
        precision[here, here] = alpha * H[seen].T @ H[seen] + Lambda
        right[here] = alpha * H[seen].T @ X[i, seen] + Lambda @ mu
    precision += alpha * np.kron(graph.dot(np.eye(m)), H.T @ H)
    covariance = np.linalg.inv(precision)
    observations, factors = Observations.from_dense(X), Factors.of(np.zeros((m, k)), H)
    given = (graph, observations.by_row, factors, H.T @ H, Lambda / alpha, Lambda @ mu / alpha, alpha, rng, Workers(1))
    draws = []
    for _ in range(4000):
        mean, draw, loss = draw_tied(*given)
        draws.append(draw[:, :k].ravel())
    np.testing.assert_allclose(mean[:, :k].ravel(), covariance @ right, atol=1e-5)
    assert loss == pytest.approx(0.5 * np.nansum((draw[:, :k] @ H.T - X) ** 2))
    off = np.cov(np.array(draws).T) - covariance
    assert np.abs(off).max() < 5 * np.diagonal(covariance).max() / np.sqrt(2000)
    np.testing.assert_allclose(np.mean(draws, axis=0), covariance @ right, atol=5 * np.sqrt(covariance.max() / 4000))


def test_columns_feel_the_graph_of_the_rows_as_a_ridge():
    """Given the rows, the columns have the precision alpha (W_j^T W_j + gamma W^T L W) + Lambda."""
    rng = np.random.default_rng(0)
    m, k, alpha, graph = 8, 2, 2.0, path(8)
    column, W = rng.standard_normal((m, 1)), rng.standard_normal((m, k))
    observations = Observations.from_dense(np.tile(column, (1, 4000)))
    problem = Problem(observations, None, k, n_jobs=1, row_side=graph)
    factors = Factors.of(W, np.zeros((4000, k)))
    chain = first_chain(problem, factors, 1, alpha**-0.5, 0)
    sampler = Sampler(problem, alpha**-0.5, chain)
    Lambda, mu = np.array([[1.0, 0.2], [0.2, 2.0]]), np.array([0.4, 0.1])

    class Fixed(Prior):
        def draw(self, last, factor, rng):
            return Hyper(mu, Lambda, np.ones(k))

    sampler.priors[1] = Fixed(k, False, 1.0)
    _, _, drawn, _ = sampler._draw_side(factors.transposed(), chain, True, 100, rng)
    precision = alpha * (W.T @ W + W.T @ graph.dot(W)) + Lambda
    expected = np.linalg.solve(precision, alpha * W.T @ column[:, 0] + Lambda @ mu)
    np.testing.assert_allclose(drawn[:, :k].mean(axis=0), expected, atol=0.05)
    np.testing.assert_allclose(np.cov(drawn[:, :k].T), np.linalg.inv(precision), atol=0.02)


def test_same_seed_same_bits_and_what_is_refused():
    rng = np.random.default_rng(0)
    X = np.outer(np.linspace(1, 2, 12), rng.standard_normal(9))
    X[3] = np.nan
    fits = [MatrixCompletion("bpmf", 2, row_side=path(12), random_state=0, max_iter=40, n_jobs=n) for n in (1, 2)]
    first, second = (fit.fit(X).result_.factors.dense() for fit in fits)
    np.testing.assert_array_equal(first, second)
    assert np.abs(first[3] - (X[2] + X[4]) / 2).max() < 0.2
    with pytest.raises(InputError, match="cannot take a KernelPrior"):
        MatrixCompletion("bpmf", 2, row_side=KernelPrior.on_time(np.arange(12))).fit(X)
    with pytest.raises(InputError, match="draws no biases beside a graph"):
        MatrixCompletion("bpmf", 2, biases=True, row_side=path(12)).fit(X)
