"""Features in the factored methods: the objective against its definition, and its minimum against other solvers."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import approx_fprime

from lorank import InputError, MatrixCompletion
from lorank.linalg import Factors
from lorank.losses import Huber
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import NNFN, FactoredGSR, FactoredNNFN, FactoredNuclear
from lorank.side_information import Features
from lorank.solvers import PALM, Alternating, GradientDescent, Stopping, solve

CASES = [
    (Alternating(), FactoredNNFN(lam=0.7, theta=0.6)),
    (Alternating(), FactoredNNFN(lam=0.7)),
    (Alternating(), FactoredNuclear(lam=0.7)),
    (GradientDescent(), FactoredNNFN(lam=0.7, theta=0.6)),
    (GradientDescent(in_turn=True), FactoredNNFN(lam=0.7, theta=0.6)),
    (PALM(), FactoredGSR(lam=2.0)),
]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def small(m=20, n=14, q=4, seed=0, side="both", **more):
    """Entries of a matrix of rank 2 whose row factors follow features of the rows; some lines have no entries."""
    rng = np.random.default_rng(seed)
    F, G = rng.standard_normal((m, q)), rng.standard_normal((n, 3))
    X = (F[:, :2] + 0.3 * rng.standard_normal((m, 2))) @ rng.standard_normal((2, n)) + 2 + F[:, :1]
    X = np.where(rng.random(X.shape) < 0.5, X, np.nan)
    X[1], X[:, 3] = np.nan, np.nan
    sides = {"row_side": Features(F, ridge=0.7), "col_side": Features(G, ridge=3.0)}
    sides = sides if side == "both" else {side: sides[side]}
    given = {
        "regularizer": FactoredNuclear(lam=0.7),
        "rank": 3,
        "bias_ridges": (0.4, 0.6),
        "n_jobs": 1,
        **sides,
        **more,
    }
    return Problem(Observations.from_dense(X), **given)


def inverse_covariance(features, size):
    """C^-1 by its definition."""
    if features is None:
        return np.eye(size)
    return np.linalg.inv(np.eye(size) + features.matrix @ features.matrix.T / features.ridge)


def least_over_coefficients(W, features):
    """min over B of ||W - F B||^2 + lb ||B||^2, by least squares on stacked equations."""
    if features is None:
        return float(np.sum(W**2))
    F, root = features.matrix, np.sqrt(features.ridge)
    A, right = np.vstack([F, root * np.eye(F.shape[1])]), np.vstack([W, np.zeros((F.shape[1], W.shape[1]))])
    B = np.linalg.lstsq(A, right, rcond=None)[0]
    return float(np.sum((A @ B - right) ** 2))


@pytest.mark.parametrize("side", ["both", "row_side", "col_side"])
def test_the_objective_is_the_ridge_of_deviations_and_of_coefficients(side):
    problem = small(side=side)
    factors = solve(Alternating(), problem, seed=0, stopping=Stopping(max_iter=15)).factors
    regularized = sum(
        0.7 / 2 * least_over_coefficients(factor, features) + own / 2 * least_over_coefficients(bias[:, None], features)
        for factor, bias, own, features in (
            (factors.W, factors.row_bias, 0.4, problem.row_side),
            (factors.H, factors.col_bias, 0.6, problem.col_side),
        )
    )
    expected = problem.loss(factors) + regularized + 0.4 / 2 * (factors.offset - problem.mean) ** 2
    assert problem.objective(factors) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("regularizer", [FactoredNNFN(lam=0.7, theta=0.6), FactoredNuclear(lam=0.7)])
def test_nothing_is_left_to_gain_where_it_converged(regularizer):
    """The gradient of F by all unknowns, by finite differences of F written down with the dense C^-1."""
    problem = small(regularizer=regularizer)
    factors = solve(Alternating(), problem, seed=0, stopping=Stopping(tol=1e-13, max_iter=3000)).factors
    spectral = NNFN(lam=0.7, theta=getattr(regularizer, "theta", 0.0))
    m, n = factors.shape
    sides = [inverse_covariance(side, size) for side, size in ((problem.row_side, m), (problem.col_side, n))]
    roots = [np.real(scipy.linalg.sqrtm(C)) for C in sides]

    def F(x):
        W, H, a, b, offset = np.split(x, np.cumsum([3 * m, 3 * n, m, n]))
        W, H = W.reshape(m, 3), H.reshape(n, 3)
        sigma = np.linalg.svd(roots[0] @ W @ H.T @ roots[1], compute_uv=False)
        pays = 0.2 * (a @ sides[0] @ a + (offset[0] - problem.mean) ** 2) + 0.3 * b @ sides[1] @ b
        return problem.loss(Factors.of(W, H, a, b, offset[0])) + spectral.value(sigma) + pays

    at = np.concatenate([factors.W.ravel(), factors.H.ravel(), factors.row_bias, factors.col_bias, [factors.offset]])
    assert F(at) == pytest.approx(problem.objective(factors), rel=1e-6)
    assert np.abs(approx_fprime(at, F, 1e-6)).max() < 2e-3


def test_the_minimum_is_that_of_a_proximal_gradient_method_on_the_whitened_matrix():
    """Convex at theta = 0 and full rank: X = C^(1/2) Y D^(1/2), and the nuclear norm of Y."""
    problem = small(rank=14, bias_ridges=None)
    seen = problem.observations
    m, n = seen.shape
    left, right = (
        np.real(scipy.linalg.sqrtm(np.linalg.inv(inverse_covariance(side, size))))
        for side, size in ((problem.row_side, m), (problem.col_side, n))
    )
    target, mask = np.zeros((m, n)), np.zeros((m, n))
    target[seen.rows, seen.cols], mask[seen.rows, seen.cols] = seen.values, 1
    step = 1 / (np.linalg.norm(left, 2) * np.linalg.norm(right, 2)) ** 2
    Y = last = np.zeros((m, n))
    for t in range(3000):
        point = Y + t / (t + 3) * (Y - last)
        slope = left @ (mask * (left @ point @ right) - target) @ right
        U, sigma, Vt = np.linalg.svd(point - step * slope, full_matrices=False)
        last, Y = Y, (U * np.maximum(sigma - step * 0.7, 0)) @ Vt
    result = solve(Alternating(), problem, seed=0, stopping=Stopping(tol=1e-11, max_iter=3000))
    best = 0.5 * np.sum((mask * (left @ Y @ right) - target) ** 2) + 0.7 * np.linalg.norm(Y, "nuc")
    assert result.objective == pytest.approx(best, rel=3e-5)
    np.testing.assert_allclose(result.factors.dense(), left @ Y @ right, atol=0.1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{type(case[0]).__name__}-{case[1]}")
class TestConformance:
    """What holds without features holds with them."""

    @pytest.mark.parametrize("more", [{}, {"bias_ridges": None, "side": "row_side"}, {"pointwise": Huber(0.5)}])
    def test_decreases_monotonically_to_the_objective_of_its_factors(self, case, more):
        problem = small(regularizer=case[1], **more)
        result = solve(case[0], problem, seed=0, stopping=Stopping(tol=1e-9, max_iter=60))
        objective = np.array(result.history.objective)
        assert np.all(np.diff(objective) <= 1e-10 * np.abs(objective[:-1]))
        if not isinstance(case[0], GradientDescent):  # which does not balance
            assert result.objective == pytest.approx(problem.objective(result.factors), rel=1e-6)

    def test_same_seed_same_bits_on_any_threads(self, case):
        runs = [
            solve(case[0], small(60, 50, regularizer=case[1], n_jobs=jobs), seed=7, stopping=Stopping(max_iter=12))
            for jobs in (1, 2)
        ]
        assert len({run.factors.left.tobytes() + run.factors.right.tobytes() for run in runs}) == 1

    def test_warm_restart_is_quick_and_float32_is_close(self, case):
        problem, gradient = small(regularizer=case[1]), isinstance(case[0], GradientDescent)
        first = solve(case[0], problem, seed=0, stopping=Stopping(tol=1e-7, max_iter=5000))
        again = solve(case[0], problem, start=first.factors, stopping=Stopping(tol=1e-4 if gradient else 1e-5))
        assert again.n_iter <= (5 if gradient else 2)
        assert again.objective <= first.objective * (1 + 1e-9)
        single = replace(problem, observations=problem.observations.astype("float32"))
        result = solve(case[0], single, seed=0, stopping=Stopping(tol=1e-7, max_iter=5000))
        assert result.factors.dtype == np.float32
        assert result.objective == pytest.approx(first.objective, rel=2e-2)


def test_a_line_without_entries_is_where_features_expect_it():
    problem = small()
    factors = solve(Alternating(), problem, seed=0, stopping=Stopping(tol=1e-12, max_iter=2000)).factors
    F, own = problem.row_side.matrix, np.column_stack([factors.W, factors.row_bias])
    B = np.linalg.solve(F.T @ F + 0.7 * np.eye(F.shape[1]), F.T @ own)
    np.testing.assert_allclose(own[1], F[1] @ B, atol=1e-4)
    assert np.abs(own[1]).max() > 0.1


@pytest.mark.parametrize("method", ["nnfn", "factored-nuclear", "fgsr"])
def test_features_help_the_factored_methods(method):
    rng = np.random.default_rng(0)
    F = rng.standard_normal((200, 3))
    X = F @ rng.standard_normal((3, 2)) @ rng.standard_normal((2, 60))
    seen = np.where(rng.random(X.shape) < 0.06, X + 0.3 * rng.standard_normal(X.shape), np.nan)
    seen[:5] = np.nan
    fit = {"method": method, "rank": 2, "lam": "auto", "random_state": 0}
    fit |= {"theta": "auto"} if method == "nnfn" else {}
    plain, known = MatrixCompletion(**fit).fit(seen), MatrixCompletion(**fit, row_side=F).fit(seen)
    errors = [np.sqrt(np.mean((model.model_.factors.dense() - X) ** 2, axis=1)) for model in (plain, known)]
    assert errors[1].mean() < 0.7 * errors[0].mean()
    assert errors[1][:5].mean() < 0.5 * np.sqrt(np.mean(X**2))
    assert known.setting_.feature_ridge < 2  # features say nearly everything here
    assert "feature_ridge" in str(known.setting_)


def test_useless_features_are_given_little_weight_by_the_search():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 60)) + 0.5 * rng.standard_normal((150, 60))
    seen, noise = np.where(rng.random(X.shape) < 0.3, X, np.nan), rng.standard_normal((150, 40))
    fit = {"rank": 2, "lam": "auto", "random_state": 0}
    plain, known = MatrixCompletion(**fit).fit(seen), MatrixCompletion(**fit, row_side=noise).fit(seen)
    errors = [np.sqrt(np.mean((model.model_.factors.dense() - X) ** 2)) for model in (plain, known)]
    assert known.setting_.feature_ridge > 2
    assert errors[1] < 1.03 * errors[0]


def test_who_rated_what_helps_where_it_should():
    """Rows choose columns that they like, so that what they chose says what they like."""
    rng = np.random.default_rng(0)
    W, H = rng.standard_normal((300, 2)), rng.standard_normal((80, 2))
    X = W @ H.T
    chance = 0.25 / (1 + np.exp(-2 * X))
    seen = np.where(rng.random(X.shape) < chance, X + 0.7 * rng.standard_normal(X.shape), np.nan)
    fit = {"rank": 2, "lam": "auto", "biases": True, "random_state": 0}
    plain, known = (MatrixCompletion(**fit, features=which).fit(seen) for which in (None, "implicit"))
    errors = [np.sqrt(np.mean((model.model_.factors.dense() - X) ** 2)) for model in (plain, known)]
    assert errors[1] < 0.97 * errors[0]


def test_spectral_methods_refuse_features():
    with pytest.raises(InputError, match="cannot take a Features"):
        MatrixCompletion("nnfn-prox", 2, features="implicit").fit(np.arange(12.0).reshape(4, 3))
