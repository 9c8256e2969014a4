"""Solvers with graphs and kernels, against dense solves, L-BFGS, kriging and each other."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from lorank import MatrixCompletion
from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import NNFN, FactoredNNFN, FactoredNuclear, Nuclear
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.solvers import GRALS, Alternating, GradientDescent, ProximalGradient, Status, Stopping, solve
from lorank.solvers.half_steps import half_step

TIGHT = Stopping(1e-10, 2000)


@pytest.fixture
def field():
    """25 places x 18 times of rank 3, smooth over the map; 8 places never measured, a third of the rest missing."""
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(30, 45, 25), rng.uniform(-110, -80, 25)
    smooth = np.column_stack([np.ones(25), np.sin(lat / 5), np.cos(lon / 8)])
    X = smooth @ rng.standard_normal((3, 18)) + 0.05 * rng.standard_normal((25, 18))
    seen = np.where(rng.random(X.shape) < 1 / 3, np.nan, X)
    seen[17:] = np.nan
    return X, seen, lat, lon


def graphs(lat, lon):
    return {
        "dense": GraphLaplacian.from_coordinates(lat, lon, weight=0.1),
        "sparse": GraphLaplacian.from_coordinates(lat, lon, neighbours=5, weight=0.1),
        "kernel": KernelPrior.on_earth(lat, lon, length=1.0, nugget=0.05),
        "time": KernelPrior.on_time(np.arange(18), length=2.0, nugget=0.1),
    }


def problem_of(field, kind, regularizer=None, rank=4):
    _, seen, lat, lon = field
    graph = graphs(lat, lon)[kind if kind != "both" else "dense"]
    sides = {"col_side": graph} if kind == "time" else {"row_side": graph}
    if kind == "both":
        sides["col_side"] = GraphLaplacian.from_adjacency(np.eye(18, k=1) + np.eye(18, k=-1), weight=0.2)
    return Problem(Observations.from_dense(seen), regularizer or FactoredNNFN(lam=0.3, theta=0.5), rank, **sides)


def lbfgs(problem, solution, balanced):
    """The objective, written down anew with dense arrays, minimised from a point near the solution.

    balanced: the graph's term is a(W H^T), else a(W) + a(H).
    """
    seen = np.zeros(problem.observations.shape, bool)
    seen[problem.observations.rows, problem.observations.cols] = True
    target = np.zeros(seen.shape)
    target[seen] = problem.observations.values
    terms = [problem.added(side) or problem.whitened(side) for side in (False, True)]
    roots = [t.expand(np.eye(len(t.values))) if hasattr(t, "expand") else np.eye(n) for t, n in zip(terms, seen.shape)]
    L = [
        t.weight * (t.matrix @ np.eye(t.size)) if hasattr(t, "modes") else np.zeros((n, n))
        for t, n in zip(terms, seen.shape)
    ]
    k = solution.k

    def objective(x):
        U, V = np.split(x.reshape(-1, k), [roots[0].shape[1]])
        W, H = roots[0] @ U, roots[1] @ V
        R = np.where(seen, W @ H.T - target, 0)
        GU, GV = U.T @ U, V.T @ V
        MU, MV = problem.regularizer.multipliers(GU, GV)
        GW, GH = (W.T @ W, H.T @ H) if balanced else (np.eye(k), np.eye(k))
        EW, EH = W.T @ L[0] @ W, H.T @ L[1] @ H
        value = 0.5 * np.sum(R**2) + problem.regularizer.value(GU, GV) + 0.5 * np.sum(EW * GH) + 0.5 * np.sum(EH * GW)
        gW, gH = R @ H + L[0] @ W @ GH, R.T @ W + L[1] @ H @ GW
        if balanced:
            gW, gH = gW + W @ EH, gH + H @ EW
        return value, np.vstack([roots[0].T @ gW + U @ MU, roots[1].T @ gH + V @ MV]).ravel()

    latents = [t.latent(f) if hasattr(t, "latent") else f for t, f in zip(terms, (solution.W, solution.H))]
    x = np.vstack(latents).ravel()
    x = x + 0.05 * np.random.default_rng(1).standard_normal(x.size)
    return minimize(objective, x, jac=True, method="L-BFGS-B", options={"maxiter": 20000, "ftol": 1e-14}).fun


KINDS = ["dense", "sparse", "kernel", "time", "both"]


@pytest.mark.parametrize("kind", KINDS)
def test_half_step_minimises_its_quadratic(field, kind, monkeypatch):
    """Against finite differences of loss + quadratic: the gradient by the free factor vanishes."""
    monkeypatch.setattr("lorank.solvers.half_steps.TOLERANCE", 1e-13)
    monkeypatch.setattr("lorank.solvers.half_steps.MAX_ITER", 500)
    transposed = kind == "time"
    problem = problem_of(field, kind)
    factors = problem.random_start(1)
    factors = factors.transposed() if transposed else factors
    ridge = np.diag([0.3, 0.5, 0.7, 0.9])
    left, loss = half_step(problem, factors, ridge, None, transposed)
    solved = replace(factors, left=left)

    def value(W):
        point = replace(factors, left=Factors.of(W, factors.H).left)
        whole = point.transposed() if transposed else point
        quadratic = 0.5 * np.sum(problem.prior_gram(point, transposed) * ridge)
        return problem.loss(whole) + quadratic + problem.graph_penalty(whole)

    assert loss == pytest.approx(problem.loss(solved.transposed() if transposed else solved))
    best = value(solved.W)
    rng = np.random.default_rng(0)
    term = problem.added(transposed) or problem.whitened(transposed)
    for _ in range(5):
        if kind in ("kernel", "time"):
            direction = term.expand(rng.standard_normal((len(term.values), 4)))
        else:
            direction = rng.standard_normal(solved.W.shape)
        up, down = (value(solved.W + sign * 1e-4 * direction) for sign in (1, -1))
        assert abs(up - down) / 2e-4 < 1e-5 * abs(best)
        assert min(up, down) > best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theta", [0.0, 0.7])
def test_alternating_finds_what_lbfgs_finds(field, kind, theta):
    regularizer = FactoredNNFN(lam=0.3, theta=theta)
    problem = problem_of(field, kind, regularizer)
    result = solve(Alternating(), problem, seed=0, stopping=TIGHT)
    assert result.success
    assert problem.objective(result.factors) == pytest.approx(result.objective)
    assert (np.diff(result.history.objective) <= 1e-9 * result.objective).all()
    again = lbfgs(problem, result.factors, balanced=True)
    assert result.objective <= again * (1 + 1e-6)


def test_warm_start_is_done_at_once(field):
    for kind in KINDS:
        problem = problem_of(field, kind)
        first = solve(Alternating(), problem, seed=0, stopping=Stopping(1e-9, 2000))
        again = solve(Alternating(), problem, start=first.factors, stopping=Stopping(1e-6, 100))
        assert again.n_iter <= 2, kind
        assert again.objective <= first.objective * (1 + 1e-9)


def test_complete_rows_take_one_iteration(field, monkeypatch):
    """The preconditioner is the solution where observed rows are complete."""
    X, _, lat, lon = field
    whole = X.copy()
    whole[17:] = np.nan
    monkeypatch.setattr("lorank.solvers.half_steps.MAX_ITER", 1)
    for graph in (graphs(lat, lon)["kernel"], graphs(lat, lon)["dense"]):
        problem = Problem(Observations.from_dense(whole), FactoredNuclear(lam=0.3), 4, row_side=graph)
        factors = problem.random_start(0)
        once, loss = half_step(problem, factors, np.eye(4))
        twice, again = half_step(problem, replace(factors, left=once), np.eye(4))
        # The graph's is in single precision.
        np.testing.assert_allclose(once, twice, atol=1e-5)
        assert loss == pytest.approx(again)


@pytest.mark.parametrize("kernel", ["exponential", "matern32"])
def test_full_rank_and_little_shrinking_is_kriging(field, kernel):
    X, _, lat, lon = field
    prior = KernelPrior.on_earth(lat, lon, kernel=kernel, length=1.5, nugget=0.02)
    seen = X.copy()
    seen[17:] = np.nan
    model = MatrixCompletion("factored-nuclear", rank=18, lam=1e-5, row_side=prior, random_state=0, tol=1e-10)
    model.fit(seen)
    K = prior.covariance(prior.points, prior.points)
    kriged = K[17:, :17] @ np.linalg.solve(K[:17, :17] + 0.02 * np.eye(17), X[:17])
    np.testing.assert_allclose(model.result_.factors.dense()[17:], kriged, atol=2e-3)


def test_graph_without_weight_changes_nothing_and_a_heavy_one_makes_rows_equal(field):
    _, seen, lat, lon = field
    graph = GraphLaplacian.from_coordinates(lat, lon)
    plain, none, heavy = (
        MatrixCompletion(rank=3, lam=0.2, theta=0.5, random_state=0, tol=1e-10, max_iter=2000, **sides).fit(seen)
        for sides in ({}, {"row_side": graph, "graph_weight": 0.0}, {"row_side": graph, "graph_weight": 1e5})
    )
    np.testing.assert_allclose(none.complete()[:17], plain.complete()[:17], atol=1e-3)
    X = heavy.result_.factors.dense()
    np.testing.assert_allclose(X, np.broadcast_to(X.mean(axis=0), X.shape), atol=1e-2)


@pytest.mark.parametrize("kind", ["dense", "sparse", "both"])
@pytest.mark.parametrize(
    ("spectral", "factored"),
    [(Nuclear(lam=0.5), FactoredNuclear(lam=0.5)), (NNFN(lam=0.5, theta=0.5), FactoredNNFN(lam=0.5, theta=0.5))],
)
def test_proximal_gradient_with_a_graph_agrees_with_alternating(field, kind, spectral, factored):
    by_factors = solve(Alternating(), problem_of(field, kind, factored, 10), seed=0, stopping=TIGHT)
    by_values = solve(ProximalGradient(), problem_of(field, kind, spectral, 10), seed=0, stopping=Stopping(1e-10, 5000))
    assert (np.diff(by_values.history.objective) <= 1e-9 * by_values.objective).all()
    assert by_values.objective == pytest.approx(by_factors.objective, rel=1e-4)
    np.testing.assert_allclose(by_values.factors.dense(), by_factors.factors.dense(), atol=2e-2)


@pytest.mark.parametrize("kind", ["dense", "sparse", "both"])
def test_grals_minimises_its_own_objective(field, kind):
    problem = problem_of(field, kind, FactoredNuclear(lam=0.3))
    result = solve(GRALS(), problem, seed=0, stopping=TIGHT)
    assert result.success
    assert (np.diff(result.history.objective) <= 1e-9 * result.objective).all()

    again = lbfgs(problem, result.factors, balanced=False)
    assert result.objective <= again * (1 + 1e-6)


def test_single_precision_comes_near(field):
    _, seen, lat, lon = field
    for graph in (graphs(lat, lon)["kernel"], graphs(lat, lon)["sparse"]):
        double, single = (
            MatrixCompletion(rank=3, lam=0.3, theta=0.5, row_side=graph, random_state=0, dtype=dtype, tol=1e-6).fit(
                seen
            )
            for dtype in ("float64", "float32")
        )
        np.testing.assert_allclose(single.complete(), double.complete(), atol=2e-2)


def test_a_part_of_the_graph_without_observations_falls_back_to_zero(field):
    _, seen, *_ = field
    A = np.zeros((25, 25))
    A[:20, :20] = A[20:, 20:] = 1
    with pytest.warns(UserWarning, match="5 rows lie in parts"):
        model = MatrixCompletion(rank=3, lam=0.3, row_side=GraphLaplacian.from_adjacency(A), random_state=0).fit(seen)
    np.testing.assert_allclose(model.complete()[20:], 0, atol=1e-12)


def test_what_does_not_go_together_is_refused(field):
    _, seen, lat, lon = field
    found = graphs(lat, lon)
    with pytest.raises(InputError, match="cannot take a KernelPrior"):
        MatrixCompletion("nuclear", rank=2, lam=10.0, row_side=found["kernel"]).fit(seen)
    with pytest.raises(InputError, match="GradientDescent cannot take a GraphLaplacian"):
        solve(GradientDescent(), problem_of(field, "dense"))
    with pytest.raises(InputError, match="25 nodes, and the matrix 18"):
        MatrixCompletion(rank=2, lam=10.0, col_side=found["dense"]).fit(seen)
    with pytest.raises(InputError, match="25 points, and the matrix 18"):
        MatrixCompletion(rank=2, lam=10.0, col_side=found["kernel"]).fit(seen)


def test_never_measured_places_are_predicted(field):
    X, seen, lat, lon = field
    prior = KernelPrior.on_earth(lat, lon, length=3.0, kernel="matern32", nugget=0.01)
    model = MatrixCompletion(rank=3, lam=0.05, row_side=prior, random_state=0).fit(seen)
    assert model.result_.status is Status.CONVERGED
    error = np.sqrt(np.mean((model.complete()[17:] - X[17:]) ** 2)) / X.std()
    assert error < 0.25


def test_grals_without_a_graph_has_the_optimum_of_the_nuclear_norm_biases_included(small_problem):
    """F counts what the biases cost: the same least value as in the balanced frame."""
    problem = Problem(small_problem.train, FactoredNuclear(lam=2.0), 5, bias_ridges=(0.5, 0.7), n_jobs=1)
    ends = [solve(solver, problem, seed=0, stopping=TIGHT) for solver in (GRALS(), Alternating())]
    assert ends[0].objective == pytest.approx(ends[1].objective, rel=1e-6)
