"""Spectral methods with a graph: gamma/2 tr(X^T L X) beside every regularizer, against F written with dense arrays."""

import warnings

import numpy as np
import pytest

from lorank import MatrixCompletion, registry
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import LSP, MCP, NNFN, CappedL1, Nuclear, SchattenP, TruncatedL12
from lorank.side_information import GraphLaplacian
from lorank.solvers import DCA, ProximalGradient, Stopping, solve

CASES = [
    (ProximalGradient(), Nuclear(lam=0.5)),
    (ProximalGradient(), NNFN(lam=0.5, theta=1.0)),
    (ProximalGradient(), CappedL1(lam=0.5, theta=4.0)),
    (ProximalGradient(), LSP(lam=1.0, theta=1.0)),
    (ProximalGradient(), MCP(lam=0.5, theta=5.0)),
    (ProximalGradient(), SchattenP(lam=0.5, p=0.5)),
    (ProximalGradient("momentum"), LSP(lam=1.0, theta=1.0)),
    (DCA(), TruncatedL12(lam=0.5, t=0)),
    (DCA(), TruncatedL12(lam=0.5, t=2)),
]


def name_of(case):
    return f"{type(case[0]).__name__}-{case[1]}"


@pytest.fixture
def seen():
    """20 rows x 15 columns of rank 3, smooth along the rows; every fourth row never observed, a third of the rest."""
    rng = np.random.default_rng(0)
    at = np.linspace(0, 3, 20)
    X = np.column_stack([np.ones(20), np.sin(at), np.cos(2 * at)]) @ rng.standard_normal((3, 15))
    X += 0.05 * rng.standard_normal(X.shape)
    X[rng.random(X.shape) < 1 / 3] = np.nan
    X[::4] = np.nan
    return X


def chain(size, weight):
    return GraphLaplacian.from_adjacency(np.eye(size, k=1) + np.eye(size, k=-1), weight=weight)


@pytest.fixture(params=["rows", "both"])
def sides(request):
    return {"row_side": chain(20, 0.3), **({"col_side": chain(15, 0.1)} if request.param == "both" else {})}


def dense_objective(X, seen, regularizer, sides):
    value = 0.5 * np.nansum((X - seen) ** 2) + regularizer.value(np.linalg.svd(X, compute_uv=False))
    for side, Y in (("row_side", X), ("col_side", X.T)):
        if side in sides:
            value += 0.5 * sides[side].weight * np.trace(Y.T @ sides[side].matrix @ Y)
    return value


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_falls_to_a_point_where_no_direction_leads_down(case, seen, sides):
    solver, regularizer = case
    problem = Problem(Observations.from_dense(seen), regularizer, 8, n_jobs=1, **sides)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = solve(solver, problem, seed=0, stopping=Stopping(1e-13, 4000))
    objective = np.array(result.history.objective)
    assert (np.diff(objective) <= 1e-10 * np.abs(objective[:-1])).all()
    X = result.factors.dense()
    here = dense_objective(X, seen, regularizer, sides)
    assert result.objective == pytest.approx(here, rel=1e-6)
    sigma = result.factors.singular_values()
    U, _, Vt = np.linalg.svd(X)
    r = int(np.sum(sigma > 1e-6 * sigma[0]))
    assert 1 <= r < 8
    rng, length = np.random.default_rng(1), 1e-4
    for _ in range(10):
        # Along the matrices of rank r F is smooth, and its slope must vanish.
        D = U[:, :r] @ rng.standard_normal((r, 15)) + rng.standard_normal((20, r)) @ Vt[:r]
        D /= np.linalg.norm(D)
        up, down = (dense_objective(X + s * length * D, seen, regularizer, sides) for s in (1, -1))
        assert abs(up - down) / (2 * length) < 3e-3 * np.sqrt(here)
        # Away from them it must not fall.
        away = U[:, r:] @ rng.standard_normal((20 - r, 1)) @ rng.standard_normal((1, 15 - r)) @ Vt[r:]
        away *= length / np.linalg.norm(away)
        assert dense_objective(X + away, seen, regularizer, sides) > here - 1e-9


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_restart_threads_and_single_precision(case, seen, sides):
    solver, regularizer = case
    observations = Observations.from_dense(seen)
    stopping = Stopping(1e-7, 4000)
    problem = Problem(observations, regularizer, 8, n_jobs=1, **sides)
    first = solve(solver, problem, seed=0, stopping=stopping)
    assert first.success
    other = solve(solver, Problem(observations, regularizer, 8, n_jobs=2, **sides), seed=0, stopping=stopping)
    assert other.factors.left.tobytes() == first.factors.left.tobytes()
    again = solve(solver, problem, start=first.factors, stopping=Stopping(1e-5, 100))
    assert again.n_iter <= 2
    assert again.objective <= first.objective * (1 + 1e-9)
    single = Problem(observations.astype("float32"), regularizer, 8, n_jobs=1, **sides)
    assert solve(solver, single, seed=0, stopping=Stopping(1e-5, 4000)).objective == pytest.approx(
        first.objective, rel=2e-2
    )


def test_truncated_l12_without_truncation_is_nnfn(seen, sides):
    shared = {"rank": 8, "random_state": 0, "tol": 1e-12, "max_iter": 3000, "lam": 0.5, **sides}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truncated = MatrixCompletion(TruncatedL12(t=0), **shared).fit(seen)
        for other in ("nnfn-prox", "nnfn"):
            model = MatrixCompletion(other, theta=1.0, **shared).fit(seen)
            assert truncated.result_.objective == pytest.approx(model.result_.objective, rel=1e-4)
            assert np.abs(truncated.result_.factors.dense() - model.result_.factors.dense()).max() < 0.02


TABLE_6 = [
    "nuclear",
    "factored-nuclear",
    "bpmf",
    "grals",
    "truncated-l12",
    "capped-l1",
    "lsp",
    "mcp",
    "nnfn-prox",
    "nnfn",
]


@pytest.mark.parametrize("method", TABLE_6)
def test_every_method_of_table_6_fills_rows_that_were_never_observed(method, seen):
    rng = np.random.default_rng(0)
    at = np.linspace(0, 3, 20)
    truth = np.column_stack([np.ones(20), np.sin(at), np.cos(2 * at)]) @ rng.standard_normal((3, 15))
    found = registry.find(method)
    given = found.arguments(found.at(0.3, found.shapes[0]))
    limits = {"max_iter": 200} if found.samples else {}
    model = MatrixCompletion(**given, rank=4, row_side=chain(20, 0.3), random_state=0, **limits).fit(seen)
    miss = (model.result_.factors.dense() - truth)[::4]
    assert np.sqrt(np.mean(miss**2)) < 0.45 * np.sqrt(np.mean(truth[::4] ** 2))
