"""The loop: limits, callbacks, early stopping, Ctrl-C, checkpoints."""

import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lorank.errors import InputError
from lorank.problems import Problem
from lorank.regularizers import NNFN, FactoredNNFN
from lorank.solvers import (
    BPMF,
    DCA,
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

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def problem(small_problem):
    return Problem(small_problem.train, FactoredNNFN(lam=0.1), 6, n_jobs=1)


def test_history_has_a_row_per_iteration(problem, small_problem):
    result = solve(Alternating(), problem, validation=small_problem.validation, seed=0)
    columns = result.history.arrays()
    assert set(columns) == {"iteration", "seconds", "objective", "rank", "validation"}
    assert columns["iteration"].tolist() == list(range(1, result.n_iter + 1))
    assert np.all(np.diff(columns["seconds"]) > 0)
    assert np.isfinite(columns["validation"]).all()


def test_best_iterate_on_the_validation_set_is_kept(problem, small_problem):
    """Over-fitting on purpose: rank 5 for 3 without shrinkage gets worse on held-out entries while F still falls."""
    loose = Problem(small_problem.train, FactoredNNFN(lam=1e-4), 5, n_jobs=1)
    seen = []
    result = solve(
        Alternating(),
        loose,
        validation=small_problem.validation,
        seed=0,
        stopping=Stopping(tol=0, max_iter=200, patience=3),
        callbacks=[lambda progress: seen.append(progress.factors)],
    )
    errors = result.history.validation
    best = int(np.argmin(errors))
    assert result.status is Status.EARLY_STOPPED
    assert best == len(errors) - 4
    assert f"iteration {best + 1}" in result.message
    assert result.objective == result.history.objective[best]
    np.testing.assert_allclose(result.factors.dense(), seen[best].dense(), atol=1e-6)


def test_time_limit(problem):
    result = solve(GradientDescent(), problem, seed=0, stopping=Stopping(tol=0, max_iter=10**6, max_seconds=0.05))
    assert result.status is Status.TIME_LIMIT
    assert "0.05 s" in result.message


def test_callbacks_see_progress_and_can_stop(problem):
    rows = []

    def third(progress):
        rows.append(progress)
        return progress.iteration == 3

    other = []
    result = solve(Alternating(), problem, seed=0, stopping=Stopping(tol=0), callbacks=[third, other.append])
    assert result.status is Status.EARLY_STOPPED
    assert [row.iteration for row in rows] == [1, 2, 3]
    assert len(other) == 3  # one callback's wish to stop does not keep the others from being called


def test_the_clock_does_not_count_callbacks(problem):
    import time

    result = solve(
        Alternating(), problem, seed=0, stopping=Stopping(max_iter=3), callbacks=[lambda progress: time.sleep(0.5)]
    )
    assert result.seconds < 0.75


def test_ctrl_c_gives_the_best_so_far(problem):
    def interrupt(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    result = solve(Alternating(), problem, seed=0, stopping=Stopping(tol=0), callbacks=[interrupt])
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 3
    assert "Interrupted" in result.message
    assert np.isfinite(result.objective)


@pytest.mark.parametrize(
    ("solver", "regularizer"),
    [
        (Alternating(), FactoredNNFN(lam=0.1)),
        (GradientDescent(), FactoredNNFN(lam=0.1)),
        (GradientDescent(in_turn=True), FactoredNNFN(lam=0.1)),
        (ProximalGradient(), NNFN(lam=0.1)),
    ],
)
@pytest.mark.parametrize("bias_ridges", [None, (0.2, 0.7)])
def test_resuming_gives_the_same_bits(tmp_path, small_problem, solver, regularizer, bias_ridges):
    problem = Problem(small_problem.train, regularizer, 5, bias_ridges, n_jobs=1)
    stopping = Stopping(tol=1e-7, max_iter=80)
    whole = solve(solver, problem, seed=0, stopping=stopping, validation=small_problem.validation)
    path = tmp_path / "fit.npz"

    def interrupt(progress):
        if progress.iteration == 4:
            raise KeyboardInterrupt

    cut = solve(
        solver,
        problem,
        seed=0,
        stopping=stopping,
        validation=small_problem.validation,
        callbacks=[interrupt],
        checkpoint=Checkpoint(path),
    )
    assert cut.status is Status.INTERRUPTED
    assert path.exists()
    resumed = solve(
        solver, problem, seed=99, stopping=stopping, validation=small_problem.validation, checkpoint=Checkpoint(path)
    )
    assert resumed.factors.left.tobytes() == whole.factors.left.tobytes()
    assert resumed.factors.right.tobytes() == whole.factors.right.tobytes()
    assert resumed.history.objective == whole.history.objective
    assert resumed.status is whole.status


@pytest.mark.parametrize("tol", [1e-2, 0.0])  # it converges, or stalls
def test_ctrl_c_anywhere_in_the_last_iterations_changes_nothing(tmp_path, problem, tol):
    """An interrupt after any line of the loop, in the last two iterations: all of an iteration counts, or nothing."""
    path, loop, tried = tmp_path / "fit.npz", solve.__globals__["_iterate"], set()
    # Few iterations: while it is traced, each takes long.
    start = None if tol else solve(Alternating(), problem, seed=0, stopping=Stopping(tol=1e-12)).factors
    fit = {"seed": 0, "start": start, "stopping": Stopping(tol=tol, max_iter=500)}
    whole = solve(Alternating(), problem, **fit)
    at = whole.n_iter
    for late in (1, 0):
        for line in range(loop.__code__.co_firstlineno, loop.__code__.co_firstlineno + 80):

            def trace(frame, event, _, line=line, late=late):
                if frame.f_code is not loop.__code__:
                    return None
                if event == "line" and frame.f_lineno == line and len(frame.f_locals.get("history", ())) == at - late:
                    tried.add((line, late))
                    sys.settrace(None)
                    raise KeyboardInterrupt
                return trace

            before = sys.gettrace()
            sys.settrace(trace)
            try:
                solve(Alternating(), problem, **fit, checkpoint=Checkpoint(path))
            except KeyboardInterrupt:  # before the loop, or behind it
                pass
            finally:
                sys.settrace(before)
            resumed = solve(Alternating(), problem, **fit, checkpoint=Checkpoint(path))
            assert (resumed.n_iter, resumed.status) == (whole.n_iter, whole.status), (line, late)
            assert resumed.history.objective == whole.history.objective
            assert resumed.factors.left.tobytes() == whole.factors.left.tobytes()
    assert len(tried) > 20


def test_a_checkpoint_goes_when_the_fit_is_done(tmp_path, problem):
    path = tmp_path / "fit.npz"
    result = solve(Alternating(), problem, seed=0, checkpoint=Checkpoint(path, seconds=0))
    assert result.success
    assert not path.exists()
    assert not list(tmp_path.iterdir())


def test_checkpoints_of_another_fit_or_broken_ones_are_refused(tmp_path, problem):
    path, this = tmp_path / "fit.npz", {"lam": "1", "data": "a"}
    solve(Alternating(), problem, seed=0, stopping=Stopping(max_iter=2, tol=0), checkpoint=Checkpoint(path, this))
    before = path.read_bytes()
    for other, difference in (
        ({"lam": "2", "data": "a"}, "with lam 1 and not 2;"),
        ({"lam": "1", "data": "b"}, "with other data;"),
        ({"lam": "2", "data": "b"}, "with lam 1 and not 2 and with other data;"),
        ({}, "of another kind;"),
    ):
        with pytest.raises(InputError, match=f"belongs to another fit, {difference} .* remove it or name another"):
            solve(Alternating(), problem, seed=0, checkpoint=Checkpoint(path, other))
        assert path.read_bytes() == before
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="is no checkpoint, or a damaged one"):
        solve(Alternating(), problem, seed=0, checkpoint=Checkpoint(path, this))
    path.write_bytes(before)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    # A state of another shape in a zip whose own checksums are right: compiled code would read beyond its end.
    np.savez(path, **{**arrays, "state.factors.left": arrays["state.factors.left"][:1]})
    with pytest.raises(InputError, match="its checksum is wrong"):
        solve(Alternating(), problem, seed=0, checkpoint=Checkpoint(path, this))


def test_a_full_disk_keeps_the_old_checkpoint_and_ends_no_fit(tmp_path, problem, monkeypatch):
    path = tmp_path / "fit.npz"
    solve(Alternating(), problem, seed=0, stopping=Stopping(max_iter=2, tol=0), checkpoint=Checkpoint(path))
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.warns(match=r"cannot be written \(No space left on device\); the fit goes on without"):
        result = solve(
            Alternating(), problem, seed=0, stopping=Stopping(max_iter=4, tol=0), checkpoint=Checkpoint(path)
        )
    assert result.n_iter == 4
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["fit.npz"]


def test_no_warning_when_converged(problem):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert solve(Alternating(), problem, seed=0).status is Status.CONVERGED


def test_files_of_earlier_versions_call_it_stopped():
    assert Status["STOPPED"] is Status.EARLY_STOPPED
    assert Status.EARLY_STOPPED.name == "EARLY_STOPPED"


def test_a_checkpoint_of_another_version_is_refused_in_a_sentence(tmp_path, problem):
    path = tmp_path / "fit.npz"
    solve(Alternating(), problem, seed=0, stopping=Stopping(max_iter=2, tol=0), checkpoint=Checkpoint(path))
    with pytest.raises(InputError, match="written by another version"):
        solve(GradientDescent(), problem, seed=0, checkpoint=Checkpoint(path))


def test_the_warning_points_to_the_users_line(problem):
    with pytest.warns(ConvergenceWarning) as caught:
        solve(Alternating(), problem, seed=0, stopping=Stopping(max_iter=2, tol=0))
    assert caught[0].filename == __file__


def test_what_a_solver_holds_is_declared():
    assert [kind.__name__ for kind in (Alternating, PALM, SoftImputeALS, BPMF, DCA) if kind.distributes] == [
        "Alternating",
        "BPMF",
    ]
    assert BPMF.samples
    assert not any(kind.samples for kind in (Alternating, DCA))
    shape, entries = (1000, 500), 10_000
    assert Alternating().memory(shape, entries, 10, 8, False) == entries * (8 + 8) + 1500 * (8 + 4.5 * 16 * 8)
    few, many = (BPMF(kept=kept).memory(shape, entries, 10, 4, False) for kept in (8, 64))
    # Each kept draw has factors, deviations of the rows, and a noise of each row and column.
    assert many - few == ((2 * 1000 + 500) * (648 - 88) + (1000 + 500) * (64 - 8)) * 4
    biased = BPMF(kept=64).memory(shape, entries, 10, 4, True)
    assert biased - many == (2 * 1000 + 500) * (776 - 648) * 4
