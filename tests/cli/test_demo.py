"""`lorank demo` in full, on a small matrix."""

from pathlib import Path

import numpy as np
import pytest

from lorank.experiments.demo import METHODS, WEIGHTS, draw_demo, least_squares_nmse, run_demo, table_of


@pytest.fixture(scope="module")
def small():
    """A demo on 100 rows and columns, and how far it said it was."""
    said = []
    return *run_demo(100, 0, lambda done, of: said.append((done, of))), said


def test_the_command_prints_a_table_and_draws_a_picture(run):
    code, out, err = run("demo", "--size", 100, "-o", "small.svg")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "Completing a 100 x 100 matrix of rank 5 from noisy entries"
    assert lines[1].split() == ["method", "rank", "lam", "NMSE", "rank", "found", "seconds", "iterations"]
    assert [sum(line.startswith(name) for line in lines) for name in METHODS] == [2, 2, 2]
    assert "would reach an NMSE of 0." in lines[-1]
    assert "Picture: small.svg" in err
    assert Path("small.svg").read_text().count("<svg") == 1


def test_each_method_runs_at_both_ranks_with_its_best_weight(small):
    problem, runs, said = small
    assert [(run.name, run.rank) for run in runs] == [(name, rank) for rank in (5, 10) for name in METHODS]
    assert said == [(done, 6) for done in range(1, 7)]
    floor = least_squares_nmse(problem.train.nnz, 100, 5, 0.1)
    for run in runs:
        assert run.lam in WEIGHTS
        assert 0.5 * floor < run.nmse < 3 * floor
        seconds, errors = run.curve
        assert seconds == sorted(seconds)
        assert errors[-1] == pytest.approx(run.nmse)
        assert np.all(np.diff(run.sigma) <= 0)
    table = table_of(runs, 100)
    assert table["rank found"] == [run.found_rank for run in runs]


def test_the_picture_has_every_run(small):
    problem, runs, _ = small
    errors, spectra, shrinkage = draw_demo(problem, runs).axes
    curves = {line.get_label(): line.get_ydata() for line in errors.get_lines()}
    for run in runs:
        np.testing.assert_array_equal(curves[f"{run.name}, rank {run.rank}"], run.curve[1])
    truth = next(line for line in spectra.get_lines() if line.get_label() == "truth").get_ydata()
    np.testing.assert_allclose(truth, np.linalg.svd(problem.W @ problem.H.T, compute_uv=False)[:5])
    assert len(shrinkage.get_lines()) == 6


def test_a_picture_that_cannot_be_is_refused_before_any_fit(run, fails):
    code, out, err = run("demo", "-o", "demo.txt")
    assert (code, out) == (2, "")
    assert "should end in .png, .pdf or .svg" in " ".join(err.split())
    assert "There is no folder nowhere" in fails("demo", "-o", "nowhere/demo.png")
