"""One class of tests that every solver passes, on every problem that it can take."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.registry import CATALOGUE
from lorank.regularizers import (
    LSP,
    MCP,
    NNFN,
    CappedL1,
    FactoredGSR,
    FactoredGSRTwoThirds,
    FactoredNNFN,
    FactoredNuclear,
    Nuclear,
    SchattenP,
    TruncatedL12,
)
from lorank.solvers import (
    BPMF,
    DCA,
    GRALS,
    PALM,
    Alternating,
    Checkpoint,
    GradientDescent,
    ProximalGradient,
    SoftImputeALS,
    Status,
    Stopping,
    solve,
)

FACTORED = [FactoredNNFN(lam=0.5), FactoredNNFN(lam=0.5, theta=0.4), FactoredNuclear(lam=0.5), FactoredNuclear(lam=0.0)]
SPECTRAL = [
    NNFN(lam=0.5),
    NNFN(lam=0.5, theta=0.4),
    Nuclear(lam=0.5),
    CappedL1(lam=3.0, theta=20.0),
    LSP(lam=30.0, theta=10.0),
    MCP(lam=3.0, theta=5.0),
    SchattenP(lam=5.0, p=0.5),
    SchattenP(lam=3.0, p=0.8),
]
GROUP_SPARSE = [FactoredGSR(lam=5.0), FactoredGSRTwoThirds(lam=3.0)]
CASES = [
    *[(Alternating(), regularizer) for regularizer in FACTORED],
    *[(GradientDescent(in_turn), regularizer) for in_turn in (False, True) for regularizer in FACTORED],
    *[(ProximalGradient(), regularizer) for regularizer in SPECTRAL],
    *[(ProximalGradient(way), NNFN(lam=0.5)) for way in ("momentum", "none")],
    (ProximalGradient("momentum"), LSP(lam=30.0, theta=10.0)),
    (SoftImputeALS(), Nuclear(lam=0.5)),
    (GRALS(), FactoredNuclear(lam=0.5)),
    *[(PALM(), regularizer) for regularizer in GROUP_SPARSE],
    *[(DCA(), TruncatedL12(lam=0.5, t=t)) for t in (0, 1)],
]
SAMPLER = BPMF(kept=8)


def name_of(case):
    return f"{type(case[0]).__name__}{list(vars(case[0]).values())}-{case[1]}"


def quiet_solve(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(*args, **kwargs)


@dataclass
class PoisonedSolver:
    """A solver one of whose steps, the fourth, gives NaN."""

    solver: object
    steps: int = 0
    poisoned: int = 4

    def __getattr__(self, name):
        return getattr(self.solver, name)

    def planned(self, max_iter):
        return self

    def step(self, problem, state):
        self.steps += 1
        following = self.solver.step(problem, state)
        return replace(following, objective=np.nan) if self.steps == self.poisoned else following


@pytest.mark.parametrize("case", CASES, ids=name_of)
class TestConformance:
    """`case` is a solver and a regularizer."""

    @pytest.fixture
    def problem(self, case, small_problem):
        return Problem(small_problem.train, case[1], rank=5, n_jobs=1)

    def test_decreases_monotonically(self, case, problem):
        result = quiet_solve(case[0], problem, seed=0, stopping=Stopping(tol=1e-9, max_iter=60))
        objective = np.array(result.history.objective)
        assert np.all(np.diff(objective) <= 1e-10 * np.abs(objective[:-1]))

    def test_decreases_monotonically_with_biases(self, case, problem):
        problem = replace(problem, bias_ridges=(0.3, 0.7))
        result = quiet_solve(case[0], problem, seed=0, stopping=Stopping(tol=1e-9, max_iter=60))
        objective = np.array(result.history.objective)
        assert np.all(np.diff(objective) <= 1e-10 * np.abs(objective[:-1]))
        assert result.factors.biased

    def test_objective_is_that_of_the_factors(self, case, problem):
        result = quiet_solve(case[0], problem, seed=0, stopping=Stopping(max_iter=30))
        self.check_objective(case, problem, result)

    def test_objective_is_that_of_the_factors_and_biases(self, case, problem):
        problem = replace(problem, bias_ridges=(0.3, 0.7))
        self.check_objective(case, problem, quiet_solve(case[0], problem, seed=0, stopping=Stopping(max_iter=30)))

    def check_objective(self, case, problem, result):
        factors = result.factors
        if isinstance(case[0], (GradientDescent, GRALS)):  # they do not balance: their F is that of the factors as is
            penalty = case[1].value(factors.W.T @ factors.W, factors.H.T @ factors.H)
        else:
            spectral = case[1].spectral() if hasattr(case[1], "spectral") else case[1]
            penalty = spectral.value(factors.singular_values())
        assert result.objective == pytest.approx(
            problem.loss(factors) + penalty + problem.bias_penalty(factors), rel=1e-6
        )

    def test_converged_means_stationary(self, case, problem):
        """Theorem 5: the limit is a fixed point of the proximal step of the spectral problem."""
        if isinstance(case[1], FactoredNuclear) and case[1].lam == 0:
            pytest.skip("without a regularizer the factors may run away from rows with few entries")
        tol = 1e-9 if not isinstance(case[0], GradientDescent) else 1e-8
        result = quiet_solve(case[0], problem, seed=0, stopping=Stopping(tol=tol, max_iter=6000))
        assert result.success
        X, seen = result.factors.dense(), problem.observations
        Z = X.copy()
        Z[seen.rows, seen.cols] = seen.values
        spectral = case[1].spectral() if hasattr(case[1], "spectral") else case[1]
        if isinstance(spectral, TruncatedL12):  # its tangent is fixed, and the nuclear norm is left
            U, sigma, Vt = np.linalg.svd(X)
            Z += spectral.lam * (U * spectral.subgradient_weights(sigma)) @ Vt
            spectral = spectral.convex_part()
        U, sigma, Vt = np.linalg.svd(Z)
        # The best point of a rank is the prox of that many values: see `lorank.solvers.sensing`.
        k = problem.rank
        residual = np.linalg.norm((U[:, :k] * spectral.prox(sigma[:k], 1.0)) @ Vt[:k] - X) / np.linalg.norm(X)
        assert residual < (2e-3 if not isinstance(case[0], GradientDescent) else 1e-2)

    def test_recovers_the_matrix(self, case, problem, small_problem):
        weak = replace(case[1], lam=min(case[1].lam, 0.05))
        problem = replace(problem, rank=3, regularizer=weak)
        result = quiet_solve(case[0], problem, seed=0, stopping=Stopping(tol=1e-6, max_iter=3000))
        assert small_problem.nmse(result.factors.W, result.factors.H) < 0.035

    def test_warns_when_it_did_not_converge(self, case, problem):
        with pytest.warns(ConvergenceWarning, match="limit of 2 iterations"):
            result = solve(case[0], problem, seed=0, stopping=Stopping(max_iter=2))
        assert result.status is Status.MAX_ITER
        assert not result.success

    def test_warm_restart_is_quick(self, case, problem):
        first = quiet_solve(case[0], problem, seed=0, stopping=Stopping(tol=1e-6, max_iter=3000))
        gradient = isinstance(case[0], GradientDescent)  # which has to find its step length anew
        tol, most = (1e-4, 5) if gradient else (1e-5, 2)
        again = quiet_solve(case[0], problem, start=first.factors, stopping=Stopping(tol=tol))
        assert again.n_iter <= most
        assert again.objective <= first.objective * (1 + 1e-9)

    def test_same_seed_same_bits_on_any_threads(self, case, problem):
        runs = [
            quiet_solve(case[0], replace(problem, n_jobs=jobs), seed=7, stopping=Stopping(max_iter=12))
            for jobs in (1, 2, 2)
        ]
        assert len({run.factors.left.tobytes() + run.factors.right.tobytes() for run in runs}) == 1

    def test_float32_is_close(self, case, problem):
        stopping = Stopping(tol=1e-5, max_iter=2000)
        double = quiet_solve(case[0], problem, seed=0, stopping=stopping)
        single = quiet_solve(
            case[0], replace(problem, observations=problem.observations.astype("float32")), seed=0, stopping=stopping
        )
        assert single.factors.dtype == np.float32
        assert single.objective == pytest.approx(double.objective, rel=2e-2)

    def test_a_nan_ends_as_diverged_with_the_last_finite_point(self, case, problem):
        with pytest.warns(ConvergenceWarning, match="iteration 4"):
            result = solve(PoisonedSolver(case[0]), problem, seed=0, stopping=Stopping(tol=0, max_iter=20))
        assert result.status is Status.DIVERGED
        assert np.isfinite(result.objective)
        assert result.factors.is_finite()
        assert len(result.history) == 3

    def test_rows_and_columns_that_were_never_seen(self, case):
        X = np.outer(np.arange(1.0, 9.0), np.arange(1.0, 7.0))
        X[3], X[:, 2] = np.nan, np.nan
        seen = Observations.from_dense(X)
        plain = quiet_solve(case[0], Problem(seen, case[1], 2, n_jobs=1), seed=0, stopping=Stopping(max_iter=300))
        assert np.abs(plain.factors.dense()[3]).max() < 1e-8
        assert np.abs(plain.factors.dense()[:, 2]).max() < 1e-8
        biased = quiet_solve(
            case[0], Problem(seen, case[1], 2, (0.1, 0.2), n_jobs=1), seed=0, stopping=Stopping(max_iter=300)
        ).factors
        assert np.isfinite(biased.dense()).all()
        expected = biased.offset + biased.row_bias[3] + biased.col_bias
        np.testing.assert_allclose(biased.dense()[3], expected, atol=1e-8)


class TestSampler:
    """What of this holds for a solver that samples."""

    @pytest.fixture
    def problem(self, small_problem):
        return Problem(small_problem.train, None, rank=5, n_jobs=1)

    def test_all_sweeps_are_made_whatever_tol_and_validation_say(self, problem, small_problem):
        stopping = Stopping(tol=1.0, max_iter=12, patience=1)
        result = solve(SAMPLER, problem, seed=0, stopping=stopping, validation=small_problem.validation)
        assert result.status is Status.SAMPLED
        assert result.n_iter == len(result.history) == 12
        assert result.objective == result.history.objective[-1]
        assert result.factors is result.posterior.mean
        assert result.summary is result.posterior.summary

    def test_the_validation_error_is_that_of_the_running_mean(self, problem, small_problem):
        held_out, keep_all = small_problem.validation, replace(SAMPLER, kept=20)
        result = solve(keep_all, problem, seed=0, stopping=Stopping(max_iter=12), validation=held_out)
        # Draws are kept in float32.
        assert result.history.validation[-1] == pytest.approx(problem.error(result.factors, held_out), rel=1e-6)
        assert np.isnan(result.history.validation[:6]).all()

    def test_same_seed_same_bits_on_any_threads(self, problem):
        stopping = Stopping(max_iter=12)
        runs = [solve(SAMPLER, replace(problem, n_jobs=jobs), seed=7, stopping=stopping) for jobs in (1, 2)]
        assert len({run.factors.left.tobytes() + run.factors.right.tobytes() for run in runs}) == 1

    def test_float32_is_close(self, problem):
        double = solve(SAMPLER, problem, seed=0, stopping=Stopping(max_iter=60))
        single = replace(problem, observations=problem.observations.astype("float32"))
        result = solve(SAMPLER, single, seed=0, stopping=Stopping(max_iter=60))
        assert result.factors.dtype == np.float32
        assert result.objective == pytest.approx(double.objective, rel=2e-2)

    @pytest.mark.parametrize("max_iter", [5, 40])  # within the burn-in and after it
    def test_a_nan_ends_as_diverged_with_the_draws_before(self, problem, max_iter):
        poisoned = PoisonedSolver(SAMPLER.planned(max_iter), poisoned=max_iter - 1)
        with pytest.warns(ConvergenceWarning, match=f"iteration {max_iter - 1}"):
            result = solve(poisoned, problem, seed=0, stopping=Stopping(max_iter=max_iter))
        assert result.status is Status.DIVERGED
        assert result.factors.is_finite()
        assert len(result.history) == max_iter - 2

    def test_resuming_gives_the_same_bits(self, problem, small_problem, tmp_path):
        shared = {"stopping": Stopping(max_iter=20), "validation": small_problem.validation}
        whole = solve(SAMPLER, problem, seed=0, **shared)
        path = tmp_path / "chain.npz"
        stop = [lambda progress: progress.iteration == 14]
        cut = solve(SAMPLER, problem, seed=0, callbacks=stop, checkpoint=Checkpoint(path), **shared)
        assert cut.status is Status.EARLY_STOPPED
        resumed = solve(SAMPLER, problem, seed=99, checkpoint=Checkpoint(path), **shared)
        assert resumed.factors.left.tobytes() == whole.factors.left.tobytes()
        np.testing.assert_array_equal(resumed.history.validation, whole.history.validation)
        assert not path.exists()


def test_every_method_of_the_catalogue_is_tested():
    tested = {(type(solver), type(regularizer)) for solver, regularizer in [*CASES, (SAMPLER, None)]}
    for method in CATALOGUE.values():
        solver = type(method.build_solver("auto"))
        assert (solver, type(method.build_regularizer(1.0))) in tested, method.name
        assert {type(build()) for build in method.solvers.values()} <= {solver for solver, _ in tested}, method.name


def test_solver_refuses_a_regularizer_that_lacks_something(small_problem):
    with pytest.raises(InputError, match=r"Alternating needs a regularizer with multipliers and majorizer; NNFN"):
        solve(Alternating(), Problem(small_problem.train, NNFN(lam=1.0), 3))
    with pytest.raises(InputError, match="prox and threshold"):
        solve(ProximalGradient(), Problem(small_problem.train, FactoredNNFN(lam=1.0), 3))


def test_known_optimum_of_the_nuclear_norm():
    """With every entry observed the minimiser is the soft-thresholded SVD."""
    Z = np.random.default_rng(0).standard_normal((30, 20))
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    best = (U * np.maximum(sigma - 2.0, 0)) @ Vt
    for solver, regularizer in ((Alternating(), FactoredNuclear(lam=2.0)), (ProximalGradient(), Nuclear(lam=2.0))):
        problem = Problem(Observations.from_dense(Z), regularizer, 20, n_jobs=1)
        result = quiet_solve(solver, problem, seed=0, stopping=Stopping(tol=1e-12, max_iter=2000))
        np.testing.assert_allclose(result.factors.dense(), best, atol=2e-3)


def test_known_optimum_of_nnfn():
    """With every entry observed the minimiser is the proximal point, which is known in closed form."""
    Z = np.random.default_rng(0).standard_normal((30, 20))
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    best = NNFN(lam=2.0)
    expected = (U * best.prox(sigma, 1.0)) @ Vt
    problem = Problem(Observations.from_dense(Z), FactoredNNFN(lam=2.0), 20, n_jobs=1)
    result = quiet_solve(Alternating(), problem, seed=0, stopping=Stopping(tol=1e-13, max_iter=3000))
    np.testing.assert_allclose(result.factors.dense(), expected, atol=5e-3)


def test_factors_come_back_balanced(small_problem):
    problem = Problem(small_problem.train, FactoredNNFN(lam=0.5), 5)
    factors = solve(Alternating(), problem, seed=0).factors
    sigma = factors.singular_values()
    np.testing.assert_allclose(factors.W.T @ factors.W, np.diag(sigma), atol=1e-6 * sigma[0])
    np.testing.assert_allclose(factors.H.T @ factors.H, np.diag(sigma), atol=1e-6 * sigma[0])
    assert isinstance(factors, Factors)


@pytest.mark.parametrize("seed", range(20))
def test_rank_one_costs_nothing_and_stays_finite(seed):
    """Under NNFN the only direction has a weight of 0, give or take rounding: lines never seen must not turn to NaN."""
    seen = Observations.from_coo([0, 1], [0, 1], [1.0, 2.0], (50, 40))
    result = solve(Alternating(), Problem(seen, FactoredNNFN(lam=0.1), 1, n_jobs=1), seed=seed)
    assert result.success
    assert result.factors.is_finite()
