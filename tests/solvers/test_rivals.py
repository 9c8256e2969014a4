"""Solvers of the rivals against each other and against known optima."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lorank.datasets import synthetic
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import (
    LSP,
    MCP,
    NNFN,
    CappedL1,
    FactoredGSR,
    FactoredGSRTwoThirds,
    FactoredNuclear,
    Nuclear,
    SchattenP,
    TruncatedL12,
)
from lorank.solvers import DCA, PALM, Alternating, ProximalGradient, SoftImputeALS, Status, Stopping, solve
from lorank.solvers.alternating import AlternatingState

EXACT = Stopping(tol=1e-10, max_iter=3000)
SPECTRAL = [
    NNFN(lam=2.0),
    Nuclear(lam=2.0),
    CappedL1(lam=2.0, theta=20.0),
    LSP(lam=20.0, theta=10.0),
    MCP(lam=2.0, theta=5.0),
]


@pytest.mark.parametrize("regularizer", [*SPECTRAL, SchattenP(lam=2.0, p=0.5)], ids=repr)
def test_with_every_entry_seen_it_is_the_proximal_point(regularizer):
    Z = np.random.default_rng(0).standard_normal((30, 20))
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    best = (U * regularizer.prox(sigma, 1.0)) @ Vt
    for way in ("sweeps", "momentum"):
        problem = Problem(Observations.from_dense(Z), regularizer, 20, n_jobs=1)
        result = solve(ProximalGradient(way), problem, seed=0, stopping=EXACT)
        assert result.objective <= 1.0001 * (
            0.5 * np.sum((Z - best) ** 2) + regularizer.value(regularizer.prox(sigma, 1.0))
        )


def test_softimpute_reaches_the_optimum_of_the_nuclear_norm(small_problem):
    problem = Problem(small_problem.train, Nuclear(lam=3.0), 20, n_jobs=1)
    ours = solve(SoftImputeALS(), problem, seed=0, stopping=EXACT)
    other = solve(ProximalGradient("momentum"), problem, seed=0, stopping=EXACT)
    assert ours.objective == pytest.approx(other.objective, rel=1e-5)
    np.testing.assert_allclose(ours.factors.dense(), other.factors.dense(), atol=2e-2)


def test_truncated_l12_without_truncation_is_nnfn(small_problem):
    ours = solve(DCA(), Problem(small_problem.train, TruncatedL12(lam=1.0, t=0), 5), seed=0, stopping=EXACT)
    other = solve(ProximalGradient(), Problem(small_problem.train, NNFN(lam=1.0), 5), seed=0, stopping=EXACT)
    assert ours.objective == pytest.approx(other.objective, rel=1e-4)
    np.testing.assert_allclose(ours.factors.dense(), other.factors.dense(), atol=2e-2)


def test_truncated_l12_leaves_the_strongest_alone(small_problem):
    """With t at the true rank nothing of the signal is shrunk, whatever the weight."""
    result = solve(DCA(), Problem(small_problem.train, TruncatedL12(lam=20.0, t=3), 5), seed=0)
    nuclear = solve(SoftImputeALS(), Problem(small_problem.train, Nuclear(lam=20.0), 5), seed=0)
    assert small_problem.nmse(result.factors.W, result.factors.H) < 0.04
    assert small_problem.nmse(nuclear.factors.W, nuclear.factors.H) > 0.3


@pytest.mark.parametrize(("factored", "p"), [(FactoredGSR(lam=5.0), 0.5), (FactoredGSRTwoThirds(lam=5.0), 2 / 3)])
def test_group_sparse_factors_find_what_schatten_p_finds(small_problem, factored, p):
    """Both published variants: the factored regularizer's least value is Schatten-p's, and dead columns are dropped."""
    ours = solve(PALM(), Problem(small_problem.train, factored, 12), seed=0, stopping=EXACT)
    other = solve(ProximalGradient(), Problem(small_problem.train, SchattenP(lam=5.0, p=p), 12), seed=0, stopping=EXACT)
    assert ours.factors.k == other.factors.k == 3
    assert ours.objective == pytest.approx(other.objective, rel=1e-5)


@pytest.mark.parametrize(
    "regularizer", [MCP(lam=5.0, theta=5.0), CappedL1(lam=5.0, theta=20.0), NNFN(lam=5.0)], ids=repr
)
def test_the_rank_is_found_although_twenty_are_allowed(regularizer):
    truth = synthetic(m=300, rank=4, seed=0)
    result = solve(ProximalGradient(), Problem(truth.train, regularizer, 20), seed=0)
    assert np.count_nonzero(result.factors.singular_values() > 1.0) == 4


@pytest.mark.parametrize("regularizer", SPECTRAL, ids=repr)
def test_sweeps_end_no_higher_than_momentum(small_problem, regularizer):
    problem = Problem(small_problem.train, regularizer, 5)
    ends = {way: solve(ProximalGradient(way), problem, seed=0) for way in ("sweeps", "momentum")}
    assert ends["sweeps"].objective <= ends["momentum"].objective * (1 + 1e-3)
    assert ends["sweeps"].n_iter < ends["momentum"].n_iter


def test_factors_that_overflow_end_as_diverged(small_problem):
    problem = Problem(small_problem.train, FactoredNuclear(lam=0.1), 3)
    start = problem.random_start(0)
    wrong = replace(start, left=np.full_like(start.left, 1e200))
    with pytest.warns(ConvergenceWarning, match="Diverged"), np.errstate(all="ignore"):
        result = solve(_From(wrong), problem, seed=0)
    assert result.status is Status.DIVERGED


class _From(Alternating):
    """A solver that begins where it is told, without asking for F there."""

    def __init__(self, factors):
        self.factors = factors

    def init(self, problem, start, seed):
        return AlternatingState(self.factors, self.factors, np.inf, 3)

    def finish(self, problem, state):
        return state.factors


@pytest.mark.parametrize("way", ["sweeps", "momentum", "none"])
def test_a_weight_just_below_the_strongest_value_leaves_something(way):
    """X = 0 is the solution only from the largest singular value of the observed matrix on."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 20)) + 2 * np.outer(rng.standard_normal(30), rng.standard_normal(20))
    X[rng.random(X.shape) < 0.4] = np.nan
    strongest = np.linalg.norm(np.nan_to_num(X), 2)
    for part, rank in ((0.98, 1), (1.02, 0)):
        problem = Problem(Observations.from_dense(X), Nuclear(lam=part * strongest), rank=5, n_jobs=1)
        result = solve(ProximalGradient(way), problem, seed=0)
        assert np.count_nonzero(result.factors.singular_values() > 1e-9) == rank
