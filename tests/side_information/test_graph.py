"""Graphs and kernels: built right, refused when wrong, and their values against the definitions."""

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import haversine_distances

from lorank.errors import InputError
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.side_information import kernel as prior_module
from lorank.side_information.coordinates import EARTH_RADIUS, haversine


@pytest.fixture
def places():
    rng = np.random.default_rng(0)
    return rng.uniform(25, 50, 40), rng.uniform(-125, -65, 40)


def test_distances_are_haversine(places):
    radians = np.radians(np.column_stack(places))
    np.testing.assert_allclose(haversine(*places), EARTH_RADIUS * haversine_distances(radians), atol=1e-9)


@pytest.mark.parametrize(("kernel", "power"), [("exponential", 1), ("gaussian", 2)])
def test_laplacian_from_coordinates(places, kernel, power):
    A = np.exp(-2 * haversine(*places) ** power)
    np.fill_diagonal(A, 0)
    graph = GraphLaplacian.from_coordinates(*places, kernel=kernel)
    np.testing.assert_allclose(graph.matrix, np.diag(A.sum(axis=0)) - A, atol=1e-12)


def test_nearest_neighbours_are_joined_with_the_same_weights(places):
    graph = GraphLaplacian.from_coordinates(*places, neighbours=3)
    assert graph.sparse
    apart = haversine(*places)
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, axis=1)[:, :3]
    joined = np.zeros((40, 40), bool)
    joined[np.arange(40)[:, None], near] = True
    A = np.where(joined | joined.T, np.exp(-2 * apart), 0)
    np.testing.assert_allclose(graph.matrix.toarray(), np.diag(A.sum(axis=0)) - A, atol=1e-9)


def test_large_graphs_are_sparse():
    rng = np.random.default_rng(0)
    graph = GraphLaplacian.from_coordinates(rng.uniform(-80, 80, 2100), rng.uniform(0, 360, 2100))
    assert graph.sparse
    assert graph.matrix.nnz < 2100 * 22


def test_energy_is_the_trace(places):
    rng = np.random.default_rng(1)
    graph = GraphLaplacian.from_coordinates(*places, weight=0.3)
    W, H = rng.standard_normal((40, 3)), rng.standard_normal((7, 3))
    X, A = W @ H.T, -graph.matrix.copy()
    np.fill_diagonal(A, 0)
    pairs = 0.3 / 4 * sum(A[i, j] * np.sum((X[i] - X[j]) ** 2) for i in range(40) for j in range(40))
    assert graph.energy(W, H.T @ H) == pytest.approx(pairs)
    assert graph.norm >= np.linalg.eigvalsh(graph.matrix)[-1]


def test_adjacency_of_any_kind_gives_the_same_graph():
    edges = networkx.karate_club_graph()
    A = networkx.to_numpy_array(edges)
    L = np.diag(A.sum(axis=0)) - A
    for given in (edges, A, sp.coo_matrix(A), sp.csr_array(A)):
        matrix = GraphLaplacian.from_adjacency(given).matrix
        np.testing.assert_allclose(matrix.toarray() if sp.issparse(matrix) else matrix, L)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GraphLaplacian.from_adjacency(np.array([[0, 1], [2, 0]])), "symmetric"),
        (lambda: GraphLaplacian.from_adjacency(np.array([[0, -1], [-1, 0]])), "negative"),
        (lambda: GraphLaplacian.from_adjacency(np.array([[0, np.nan], [np.nan, 0]])), "finite"),
        (lambda: GraphLaplacian.from_adjacency(np.ones((2, 3))), "square"),
        (lambda: GraphLaplacian(-np.eye(3)), "sign"),
        (lambda: GraphLaplacian(np.ones((3, 3)) - np.eye(3)), "from_adjacency"),
        (lambda: GraphLaplacian(np.eye(3), weight=-1), "weight"),
        (lambda: GraphLaplacian.from_coordinates([10, 20], [5, 5], kernel="square"), "exponential, gaussian"),
        (lambda: GraphLaplacian.from_coordinates([10, np.nan], [5, 6]), "no coordinates"),
        (lambda: GraphLaplacian.from_coordinates([-120, -110], [40, 50]), "swapped"),
        (lambda: GraphLaplacian.from_coordinates([95, 10], [40, 170]), "beyond 90 degrees\\."),
        (lambda: GraphLaplacian.from_coordinates([9, 10], [40, 400]), "outside"),
        (lambda: GraphLaplacian.from_coordinates([9, 10], [40]), "2 and 1"),
        (lambda: GraphLaplacian.from_coordinates([9, 10, 9], [-40, 50, 320]), "Places 0 and 2"),
        (lambda: KernelPrior.on_earth([9, 10, 9], [40, 50, 40]), "same coordinates"),
        (lambda: KernelPrior.on_earth([9, 10], [40, 50], kernel="cubic"), "matern32"),
        (lambda: KernelPrior.on_earth([9, 10], [40, 50], length=0), "length"),
        (lambda: KernelPrior.on_earth([9, 10], [40, 50], nugget=-1), "nugget"),
        (lambda: KernelPrior.on_time([1.0, 1.0]), "given once"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_parts_without_observations_are_counted():
    A = sp.block_diag([np.ones((3, 3)), np.ones((2, 2))])
    graph = GraphLaplacian.from_adjacency(A)
    with pytest.warns(UserWarning, match="2 rows lie in parts"):
        graph.bind(np.array([1.0, 0, 0, 0, 0]))


@pytest.mark.parametrize(
    ("kernel", "nu"), [("exponential", 0.5), ("matern12", 0.5), ("matern32", 1.5), ("matern52", 2.5)]
)
def test_kernels_are_those_of_scikit_learn(places, kernel, nu):
    prior = KernelPrior.on_earth(*places, kernel=kernel, length=0.7)
    np.testing.assert_allclose(
        prior.covariance(prior.points, prior.points), Matern(0.7, nu=nu)(prior.points), atol=1e-12
    )


def test_whitening_factors_the_covariance(places):
    rng = np.random.default_rng(2)
    share = rng.uniform(0.1, 1, 40)
    share[30:] = 0
    prior = KernelPrior.on_earth(*places, length=1.0, nugget=0.1, weight=2.0)
    bound = prior.bind(share)
    K = (Matern(1.0, nu=0.5)(prior.points) + 0.1 * np.eye(40)) / 2
    np.testing.assert_allclose(bound.root @ bound.root.T, K[:30, :30], atol=1e-10)
    np.testing.assert_allclose(bound.root.T @ (share[:30, None] * bound.root), np.diag(bound.values), atol=1e-10)
    U = rng.standard_normal((30, 4))
    W = bound.expand(U)
    np.testing.assert_allclose(bound.latent(W), U, atol=1e-8)
    np.testing.assert_allclose(bound.gram(W), W[:30].T @ np.linalg.solve(K[:30, :30], W[:30]))
    kriged = K[30:, :30] @ np.linalg.solve(K[:30, :30], W[:30])
    np.testing.assert_allclose(W[30:], kriged, atol=1e-9)
    np.testing.assert_allclose(bound.at(prior.points[30:], U), kriged, atol=1e-9)


def test_inducing_points_come_near_the_exact_covariance(monkeypatch):
    rng = np.random.default_rng(3)
    prior = KernelPrior.on_earth(rng.uniform(30, 40, 300), rng.uniform(-110, -95, 300), length=2.0, kernel="matern52")
    share = np.r_[np.ones(250), np.zeros(50)]
    exact = prior.bind(share)
    monkeypatch.setattr(prior_module, "EXACT_LIMIT", 100)
    monkeypatch.setattr(prior_module, "INDUCING", 80)
    bound = prior.bind(share)
    assert bound.root.shape[1] <= 80
    np.testing.assert_allclose(bound.root @ bound.root.T, exact.root @ exact.root.T, atol=1e-3)
    U = rng.standard_normal((bound.root.shape[1], 2))
    np.testing.assert_allclose(bound.gram(bound.expand(U)), U.T @ U, rtol=1e-4)


def test_dates_are_counted_in_years():
    months = np.arange("1990-01", "1992-01", dtype="datetime64[M]")
    prior = KernelPrior.on_time(months, length=1.0)
    assert prior.covariance(prior.points[:1], prior.points[12:13]) == pytest.approx(np.exp(-1), rel=1e-2)
