"""From an estimator's parameters to a problem and a solver, and what comes of them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorank import losses, registry, solvers
from lorank.errors import InputError
from lorank.estimators.backends import opened
from lorank.estimators.parameters import check_rank
from lorank.estimators.progress import FitProgress
from lorank.linalg import Factors
from lorank.linalg.blas import one_blas_thread
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.solvers import Callback, Checkpoint, Result, Stopping
from lorank.solvers.gibbs import BPMF
from lorank.tuning import path as tuning
from lorank.tuning.record import Tell
from lorank.tuning.setting import Setting, prepared

if TYPE_CHECKING:
    from lorank.estimators.completion import MatrixCompletion


# Parameters that may change when a fit goes on from a checkpoint.
LIMITS = ("tol", "max_iter", "max_seconds", "n_jobs", "verbose", "unseen")


def checkpoint_of(
    model: MatrixCompletion, path: str | Path | None, observations: Observations, held_out: Observations | None
) -> Checkpoint | None:
    """The checkpoint of a fit at this path, which knows what is fitted to what."""
    if path is None:
        return None
    about = {name: value for name, value in model.get_params().items() if name not in LIMITS}
    about["data"] = f"{observations!r} {_checksum(observations)}"
    about["validation"] = None if held_out is None else f"{held_out!r} {_checksum(held_out)}"
    return Checkpoint(Path(path), about)


def _checksum(observations: Observations) -> int:
    return zlib.crc32(observations.values.data, zlib.crc32(observations.cols.data))


def build_problem(model: MatrixCompletion, observations: Observations, setting: Setting) -> Problem:
    """The problem that the model's parameters state, with what is tuned taken from the setting."""
    check_rank(setting.rank, observations.shape)
    loss = losses.find(model.loss)
    method = registry.find(model.method)
    regularizer = method.build_regularizer(setting.lam, theta=setting.theta, p=model.p, t=model.t)
    sides = (None if side is None else side.scaled(model.graph_weight) for side in (model.row_graph, model.col_graph))
    shown, rank, weight = prepared(observations, loss), setting.rank, setting.bias_weight
    return Problem(shown, regularizer, rank, weight, model.n_jobs, loss, *sides)


def build_solver(model: MatrixCompletion) -> Any:
    """The solver that the model names, or the method's own for what it is asked."""
    sides = tuple(side for side in (model.row_graph, model.col_graph) if side is not None)
    return registry.find(model.method).build_solver(model.solver, sides)


def tune(
    model: MatrixCompletion,
    train: Observations,
    held_out: Observations,
    seed: int,
    checkpoint: Checkpoint | None = None,
    tell: Tell | None = None,
) -> tuning.Tuned:
    """Choose whatever is "auto"."""
    seconds = None if model.max_seconds is None else model.max_seconds / 2
    wanted = tuning.wanted(registry.find(model.method), model.lam, model.rank, model.theta, model.biases)
    held_out = prepared(held_out, losses.find(model.loss))
    solver = build_solver(model)
    if isinstance(solver, BPMF):
        raise InputError(f"Method {model.method!r} draws its own weights: give it a rank and biases, not 'auto'.")

    def problem(observations: Observations, setting: Setting) -> Problem:
        return build_problem(model, observations, setting)

    with one_blas_thread():
        return tuning.tune(wanted, problem, solver, train, held_out, seed, seconds, checkpoint, tell)


def solve(
    model: MatrixCompletion,
    observations: Observations,
    setting: Setting,
    start: Factors | None,
    held_out: Observations | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    seed: int | None = None,
) -> Result:
    """Fit once."""
    problem = build_problem(model, observations, setting)
    solver = build_solver(model)
    shared: dict[str, Any] = {
        "start": start,
        "validation": None if held_out is None else prepared(held_out, problem.pointwise),
        "callbacks": [*callbacks, FitProgress(model)] if model.verbose else callbacks,
        "checkpoint": checkpoint,
        "seed": seed,
    }
    if isinstance(solver, BPMF):
        limits: dict[str, Any] = {"sweeps": model.max_iter, "max_seconds": model.max_seconds, "n_jobs": model.n_jobs}
        limits["graphs"] = problem.added(False), problem.added(True)
        return solver.sample(observations, setting.rank, biases=setting.biases, **limits, **shared)
    stopping = Stopping(model.tol, model.max_iter, model.max_seconds)
    with opened(model.backend, registry.find(model.method), model.solver, problem) as placed:
        return solvers.solve(solver, placed, stopping=stopping, **shared)
