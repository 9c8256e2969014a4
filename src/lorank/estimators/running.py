"""From an estimator's parameters to a problem and a solver, and what comes of them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lorank import losses, registry, solvers
from lorank.errors import InputError
from lorank.estimators.backends import opened
from lorank.estimators.parameters import check_rank
from lorank.estimators.progress import ProgressLine
from lorank.linalg import Factors
from lorank.linalg.blas import one_blas_thread
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.solvers import Callback, Checkpoint, Result, Solver, Stopping
from lorank.tuning import path as tuning
from lorank.tuning.search import Found
from lorank.tuning.setting import Setting, prepared
from lorank.tuning.trial_log import OnTrial

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
    about["method"] = str(registry.find(model.method))
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
    regularizer = method.build_regularizer(setting.lam, **setting.of_method)
    sides = (None if side is None else side.scaled(model.graph_weight) for side in (model.row_graph, model.col_graph))
    shown, rank, weight = prepared(observations, loss), setting.rank, setting.bias_weight
    return Problem(shown, regularizer, rank, weight, model.n_jobs, loss, *sides)


def build_solver(model: MatrixCompletion) -> Solver:
    """The solver that the model names, or the method's own for what it is asked."""
    sides = tuple(side for side in (model.row_graph, model.col_graph) if side is not None)
    return registry.find(model.method).build_solver(model.solver, sides)


def tune(
    model: MatrixCompletion,
    train: Observations,
    held_out: Observations,
    seed: int,
    checkpoint: Checkpoint | None = None,
    on_trial: OnTrial | None = None,
) -> Found:
    """Choose whatever is "auto"."""
    seconds = None if model.max_seconds is None else model.max_seconds / 2
    method = registry.find(model.method)
    if method.samples:
        raise InputError(f"Method {method.name!r} draws its own weights: give it a rank and biases, not 'auto'.")
    space = tuning.Space.of(method, model.lam, model.rank, model.theta, model.biases)
    held_out = prepared(held_out, losses.find(model.loss))
    solver = build_solver(model)

    def problem(observations: Observations, setting: Setting) -> Problem:
        return build_problem(model, observations, setting)

    with one_blas_thread():
        return tuning.tune(space, problem, solver, train, held_out, seed, seconds, checkpoint, on_trial)


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
    with opened(model.backend, registry.find(model.method), model.solver, problem) as placed:
        return solvers.solve(
            solver,
            placed,
            start=start,
            stopping=Stopping(model.tol, model.max_iter, model.max_seconds),
            validation=None if held_out is None else prepared(held_out, problem.pointwise),
            callbacks=[*callbacks, ProgressLine(model.max_iter)] if model.verbose else callbacks,
            checkpoint=checkpoint,
            seed=seed,
        )
