"""Weighted fits: what weights mean to each method, and where they go."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import lorank
from lorank import LowRankImputer, MatrixCompletion
from lorank.distributed.engines import LocalEngine
from lorank.distributed.parts import PartFile, parts_of
from lorank.distributed.problem import COLS, ROWS, Elsewhere, FolderProblem
from lorank.estimators import EntryRegressor
from lorank.observations import Observations, observe
from lorank.problems import Problem
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Stopping, solve
from lorank.solvers.alternating import Alternating

M, N = 30, 22


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((M, 3)) @ rng.standard_normal((3, N)) + rng.standard_normal((M, 1))
    X += 0.3 * rng.standard_normal((M, N))
    X[rng.random((M, N)) < 0.5] = np.nan
    return X, rng.integers(1, 4, (M, N)).astype(float)


def dense(model):
    return model.model_.predictor.dense()


# Samplers get their weights elsewhere; sparse methods have no lam of the loss's unit to be doubled.
METHODS = [name for name, method in lorank.registry.CATALOGUE.items() if not method.samples]
DOUBLED = [name for name in METHODS if name not in ("mcp", "fgsr")]


@pytest.mark.parametrize("method", DOUBLED)
@pytest.mark.parametrize("biases", [False, True])
def test_twice_the_weight_of_all_and_of_the_regularizer_is_the_same_problem(method, biases):
    X, _ = data()
    found = lorank.registry.find(method)
    own = {"theta": 5.0} if method in ("capped-l1", "lsp") else {}  # theirs would follow lam
    objectives = []
    for weight in (1.0, 2.0):
        seen = observe(X, np.full(X.shape, weight))
        ridges = (0.5 * weight, 1.5 * weight) if biases else None
        problem = Problem(seen, found.build_regularizer(weight, **own), 3, ridges)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = solve(found.build_solver("auto", ()), problem, stopping=Stopping(1e-9, 2000), seed=0)
        objectives.append(fitted.objective)
    assert objectives[1] == pytest.approx(2 * objectives[0], rel=1e-4)


@pytest.mark.parametrize("solver", ["softimpute", "proximal"])
def test_the_weighted_nuclear_norm_has_one_minimum(solver):
    """Every solver ends where the convex problem's subgradient is: P(c (X - O)) = -lam U V^T - lam W, ||W|| <= 1."""
    X, C = data()
    model = MatrixCompletion(
        method="nuclear", solver=solver, rank=min(M, N), lam=4.0, tol=1e-12, max_iter=5000, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sample_weight=C)
    fitted = dense(model)
    slope = np.where(np.isnan(X), 0, C * (fitted - np.nan_to_num(X)))
    U, sigma, Vt = np.linalg.svd(fitted)
    alive = int(np.sum(sigma > 1e-6))
    inner = U[:, :alive].T @ slope @ Vt[:alive].T
    np.testing.assert_allclose(inner, -4.0 * np.eye(alive), atol=2e-2)
    rest = slope + 4.0 * U[:, :alive] @ Vt[:alive]
    assert np.linalg.norm(rest, 2) < 4.0 * (1 + 1e-3)
    value = 0.5 * np.nansum(C * (fitted - X) ** 2) + 4.0 * sigma.sum()
    assert model.result_.objective == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("solver", ["alternating", "gradient", "alternating-gradient"])
@pytest.mark.parametrize("biases", [False, True])
def test_a_weighted_factored_fit_is_stationary(solver, biases):
    X, C = data()
    seen = observe(X, C)
    model = MatrixCompletion(rank=3, lam=2.0, solver=solver, biases=biases, tol=1e-13, max_iter=20000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(seen)
    problem = Problem(seen, FactoredNNFN(lam=2.0), 3, model.setting_.bias_ridges)
    factors = model.result_.factors
    slopes = problem.gradients(factors)
    grams = problem.gram(factors.left, 3), problem.gram(factors.right, 3)
    for slope, factor, multiplier in zip(slopes, (factors.W, factors.H), problem.factored.multipliers(*grams)):
        assert np.abs(slope[:, :3] + factor @ multiplier).max() < 2e-2
    biased = zip(slopes, (factors.row_bias, factors.col_bias), problem.bias_ridges or ())
    for slope, bias, ridge in biased:
        assert np.abs(slope[:, 3] + ridge * bias).max() < 2e-2


def test_offsets_of_weighted_entries_are_those_of_entries_given_so_often():
    X, C = data()
    found = empirical_bayes_offsets(observe(X, C), tolerance=1e-12, rounds=400)
    i, j = np.nonzero(~np.isnan(X))
    often = C[i, j].astype(int)
    i, j = np.repeat(i, often), np.repeat(j, often)
    v = X[i, j]
    mu, a, b, va, vb, s2 = v.mean(), np.zeros(M), np.zeros(N), 1.0, 1.0, 1.0
    for _ in range(400):
        spread_a = 1 / (np.bincount(i, minlength=M) / s2 + 1 / va)
        a = spread_a / s2 * np.bincount(i, v - mu - b[j], M)
        va = np.mean(a**2 + spread_a)
        spread_b = 1 / (np.bincount(j, minlength=N) / s2 + 1 / vb)
        b = spread_b / s2 * np.bincount(j, v - mu - a[i], N)
        vb = np.mean(b**2 + spread_b)
        s2 = np.mean((v - mu - a[i] - b[j]) ** 2 + spread_a[i] + spread_b[j])
        mu, a, b = mu + a.mean() + b.mean(), a - a.mean(), b - b.mean()
    np.testing.assert_allclose(found.a, a, atol=1e-5)
    np.testing.assert_allclose(found.b, b, atol=1e-5)
    assert (found.va, found.vb, found.s2) == pytest.approx((va, vb, s2), rel=1e-5)


def test_errors_are_weighted():
    X, C = data()
    model = MatrixCompletion(rank=2, lam=2.0, random_state=0).fit(X)
    expected = np.sqrt(np.nansum(C * (dense(model) - X) ** 2) / C[~np.isnan(X)].sum())
    assert model.score(observe(X, C)) == pytest.approx(-expected)
    assert model.fit(X, sample_weight=C).model_.mean == pytest.approx(np.nansum(C * X) / C[~np.isnan(X)].sum())


def test_weights_are_kept_in_files_and_used_again(tmp_path):
    X, C = data()
    model = MatrixCompletion(rank=2, lam=2.0, random_state=0).fit(X, sample_weight=C)
    model.save(tmp_path / "model.lorank")
    model.model_.save(tmp_path / "shards", shards=True)
    more = Observations.from_coo([0], [0], [1.5], (M, N), weights=[7.0])
    for path in (tmp_path / "model.lorank", tmp_path / "shards"):
        loaded = lorank.load(path)
        np.testing.assert_array_equal(np.asarray(loaded.loaded().observations.weights), model.observations_.weights)
        again = MatrixCompletion.from_model(loaded).partial_fit(more)
        kept = again.observations_
        assert kept.weights[0] == 7.0
        rest = (kept.rows > 0) | (kept.cols > 0)
        np.testing.assert_array_equal(kept.weights[rest], C[kept.rows[rest], kept.cols[rest]])


def test_fold_in_with_weights_gives_a_training_row_back():
    X, C = data()
    model = MatrixCompletion(rank=2, lam=2.0, tol=1e-12, max_iter=5000, random_state=0).fit(X, sample_weight=C)
    new = model.model_.fold_in(observe(X[:4], C[:4]))
    np.testing.assert_allclose(new.factors.W, model.factors_[0][:4], atol=1e-3)
    assert not np.allclose(model.model_.fold_in(X[:4]).factors.W, model.factors_[0][:4], atol=1e-2)


@pytest.mark.parametrize("in_files", [False, True])
def test_an_engine_gives_the_same_fit(tmp_path, in_files):
    X, C = data()
    seen = observe(X, C)
    sides = {ROWS: parts_of(seen.by_row), COLS: parts_of(seen.by_col)}
    if in_files:
        for side, width in ((ROWS, N), (COLS, M)):
            sides[side] = [
                replace(part, source=PartFile.write(tmp_path / f"{side}-{part.number}", part.source, width))
                for part in sides[side]
            ]
    given = FactoredNNFN(lam=2.0), 3, (2.0, 1.0)
    plain = Problem(seen, *given)
    spread = FolderProblem(Elsewhere(seen.shape, seen.dtype), *given, engine=LocalEngine(sides))
    one, other = (solve(Alternating(), p, stopping=Stopping(1e-4, 20), seed=0) for p in (plain, spread))
    owner, factor = spread.engine.owner, other.factors.left
    left = np.concatenate([owner.shard(factor, number) for number in sorted(owner.sides[ROWS])])
    # Sums are taken part by part, so that the last bits differ.
    np.testing.assert_allclose(left, one.factors.left, rtol=1e-8, atol=1e-10)
    assert spread.total == seen.weights.sum()
    assert spread.mean == pytest.approx(plain.mean)
    spread.engine.close()


def test_imputer_and_regressor_take_weights():
    X, _ = data()
    heavy = np.ones(M)
    heavy[:5] = 0
    without = LowRankImputer(rank=2).fit(X[5:])
    weighted = LowRankImputer(rank=2).fit(X, sample_weight=heavy)
    np.testing.assert_allclose(weighted.center_, without.center_)
    np.testing.assert_allclose(weighted.scale_, without.scale_)
    rows, cols = np.nonzero(~np.isnan(X))
    pairs, y = np.column_stack([rows, cols]), X[rows, cols]
    weights = np.linspace(0.5, 2, y.size)
    fitted = EntryRegressor(rank=2, random_state=0).fit(pairs, y, sample_weight=weights)
    np.testing.assert_array_equal(fitted.model_.observations_.weights, weights)


def test_the_sampler_is_a_candidate_with_weights_and_uses_them():
    """Every other entry is noise, and its weight says so."""
    rng = np.random.default_rng(0)
    m, n, deviations = 80, 60, np.array([0.3, 3.0])
    X = rng.standard_normal((m, 2)) @ rng.standard_normal((2, n))
    seen, noisy = rng.random((m, n)) < 0.3, rng.integers(0, 2, (m, n))
    table = np.where(seen, X + deviations[noisy] * rng.standard_normal((m, n)), np.nan)
    model = MatrixCompletion(random_state=0, features=None).fit(table, sample_weight=deviations[noisy] ** -2)
    assert "sampler" in model.tuning_.candidates["candidate"]
    assert np.sqrt(np.mean((model.predict(*np.nonzero(~seen)) - X[~seen]) ** 2)) < 0.4  # 1.0 without the weights
