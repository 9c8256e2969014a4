"""Offsets by empirical Bayes against the ridge regression that they solve, and against known variances."""

import numpy as np
import pytest

from lorank import MatrixCompletion
from lorank.models.setting import Setting
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.regularizers import FactoredNuclear
from lorank.solvers import Alternating, GradientDescent, Stopping, solve


def drawn(m=300, n=200, share=0.2, va=0.5, vb=1.5, s2=1.0, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = 3 + np.sqrt(va) * rng.standard_normal((m, 1)) + np.sqrt(vb) * rng.standard_normal(n)
    X = X + np.sqrt(s2) * rng.standard_normal((m, n))
    return Observations.from_dense(scale * np.where(rng.random((m, n)) < share, X, np.nan))


def test_offsets_solve_the_ridge_regression_of_their_variances():
    seen = drawn(m=30, n=20, share=0.5)
    found = empirical_bayes_offsets(seen, rounds=5000, tolerance=1e-12)
    rows, cols = found.ridges
    m, n = seen.shape
    design = np.zeros((seen.nnz, 1 + m + n))
    design[:, 0] = 1
    design[np.arange(seen.nnz), 1 + seen.rows] = 1
    design[np.arange(seen.nnz), 1 + m + seen.cols] = 1
    penalty = np.diag(np.r_[0.0, np.full(m, rows), np.full(n, cols)])
    solution = np.linalg.solve(design.T @ design + penalty, design.T @ seen.values)
    np.testing.assert_allclose(found.predict(seen.rows, seen.cols), design @ solution, atol=1e-5)


def test_variances_are_recovered():
    found = empirical_bayes_offsets(drawn())
    assert (found.va, found.vb, found.s2) == pytest.approx((0.5, 1.5, 1.0), rel=0.2)


def test_ridges_have_no_unit():
    one, other = (empirical_bayes_offsets(drawn(scale=scale)) for scale in (1.0, 1000.0))
    assert one.ridges == pytest.approx(other.ridges, rel=1e-6)
    np.testing.assert_allclose(1000 * one.a, other.a, rtol=1e-6)


def test_constant_and_tiny_data():
    flat = empirical_bayes_offsets(Observations.from_dense(np.full((4, 3), 2.5)))
    assert (flat.mu, flat.s2) == (2.5, 0.0)
    assert not flat.a.any()
    assert flat.ridges == (1.0, 1.0)
    row = empirical_bayes_offsets(Observations.from_dense(np.array([[1.0, np.nan, 4.0]])))
    assert np.isfinite([row.mu, *row.a, *row.b, *row.ridges]).all()


def test_lines_without_entries_have_no_offset():
    X = np.where(np.eye(6) > 0, np.arange(6.0), np.nan)
    X[5] = np.nan
    found = empirical_bayes_offsets(Observations.from_dense(X))
    assert found.a[5] == 0
    assert found.b[5] == 0


@pytest.mark.parametrize("solver", [Alternating(), GradientDescent()], ids=["alternating", "gradient"])
def test_biases_of_a_fit_solve_the_ridge_regression_of_their_own_ridges(solver):
    """With a lam that leaves no factor, the fit is a ridge regression on one offset for each line."""
    seen = drawn(m=12, n=9, share=0.6)
    m, n = seen.shape
    problem = Problem(seen, FactoredNuclear(lam=50), 1, (0.5, 3.0), n_jobs=1)
    fitted = solve(solver, problem, seed=0, stopping=Stopping(1e-15, 20_000)).factors
    design = np.zeros((seen.nnz, 1 + m + n))
    design[:, 0] = 1
    design[np.arange(seen.nnz), 1 + seen.rows] = 1
    design[np.arange(seen.nnz), 1 + m + seen.cols] = 1
    penalty = np.diag(np.r_[problem.offset_ridge, np.full(m, 0.5), np.full(n, 3.0)])
    target = design.T @ (seen.values - seen.values.mean())
    found = np.r_[fitted.offset - seen.values.mean(), fitted.row_bias, fitted.col_bias]
    np.testing.assert_allclose(found, np.linalg.solve(design.T @ design + penalty, target), atol=1e-4)


def test_a_fit_with_biases_takes_the_ridges_of_its_data():
    seen = drawn()
    model, other = (
        MatrixCompletion(rank=2, lam=5 * scale, biases=True, random_state=0).fit(seen.with_values(scale * seen.values))
        for scale in (1.0, 1000.0)
    )
    found, (m, n) = empirical_bayes_offsets(seen), seen.shape
    assert model.setting_.ridges == pytest.approx(found.ridges)
    # lam takes off noise of so much at most; what offsets alone leave is more, since it has all that is of low rank.
    deviation = 5 / (np.sqrt(seen.nnz / m) + np.sqrt(seen.nnz / n))
    assert model.setting_.noise == pytest.approx(min(1, deviation**2 / found.s2))
    assert model.setting_.bias_ridges == pytest.approx([model.setting_.noise * ridge for ridge in found.ridges])
    assert MatrixCompletion(rank=2, lam=500, biases=True).fit(seen).setting_.noise == 1
    # lam has the unit of the data and the ridges have none, so that nothing else changes with the unit.
    np.testing.assert_allclose(1000 * model.row_bias_, other.row_bias_, rtol=1e-6)
    plain = MatrixCompletion(rank=2, lam=5, random_state=0).fit(seen)
    assert plain.setting_.bias_ridges is None


def test_offsets_are_the_same_wherever_the_lines_are_kept():
    from lorank.distributed.engines import LocalEngine
    from lorank.distributed.parts import parts_of
    from lorank.distributed.problem import COLS, ROWS, Elsewhere, FolderProblem

    seen = drawn(m=80, n=60)
    engine = LocalEngine({ROWS: parts_of(seen.by_row), COLS: parts_of(seen.by_col)}, 2)
    spread = FolderProblem(Elsewhere(seen.shape, seen.dtype), None, 1, engine=engine).offsets()
    here = empirical_bayes_offsets(seen)
    # Sums are taken part by part, so that the last bits differ.
    for name in ("mu", "va", "vb", "s2"):
        assert getattr(spread, name) == pytest.approx(getattr(here, name), rel=1e-9)
    engine.close()


def test_settings_of_older_files_have_lam_as_the_ridge():
    assert Setting(2.0, 3, None, True).bias_ridges == (2.0, 2.0)
    assert Setting(2.0, 3, None, True, ridges=[1.0, 4]).bias_ridges == (1.0, 4.0)
    assert Setting(2.0, 3, None, False).bias_ridges is None


def test_offsets_of_noise_alone_are_found_in_few_rounds():
    """EM takes thousands of rounds to see that rows and columns of very sparse data do not differ."""
    rng = np.random.default_rng(0)
    m, n = 8000, 1000
    rows, cols = np.divmod(np.unique(rng.integers(m * n, size=30_000)), n)
    noise = Observations.from_coo(rows, cols, rng.standard_normal(rows.size), (m, n))
    at_last = empirical_bayes_offsets(noise, rounds=5000, tolerance=1e-9)
    few = empirical_bayes_offsets(noise, rounds=40)
    for found in (few, empirical_bayes_offsets(noise)):
        assert found.s2 == pytest.approx(at_last.s2, rel=0.01)
        assert found.va < at_last.va + 0.01
        assert found.vb < at_last.vb + 0.01
    np.testing.assert_array_equal(few.a, empirical_bayes_offsets(noise).a)  # it had ended by itself
