"""From parameters to a problem and a solver, on the backend that is asked for, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from lorank import losses, registry, solvers
from lorank.errors import InputError
from lorank.estimators.parameters import Parameters, check_rank
from lorank.estimators.progress import FitProgress
from lorank.files import crc32
from lorank.linalg import Factors
from lorank.linalg.blas import one_blas_thread
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers
from lorank.problems import Problem
from lorank.side_information import Features
from lorank.solvers import Callback, Checkpoint, Result, Solver, Stopping
from lorank.solvers.posterior import joined
from lorank.tuning import path as tuning
from lorank.tuning.search import Found
from lorank.tuning.setting import Setting, prepared, with_ridges
from lorank.tuning.trial_log import OnTrial

# Parameters that may change when a fit goes on from a checkpoint.
LIMITS = ("tol", "max_iter", "max_seconds", "n_jobs", "n_workers", "verbose")
# Packages name their backends here: functions of (problem, solver, n_workers) that give the problem, its lines kept
# elsewhere, for the time of a `with` block.
BACKENDS = "lorank.backends"
LOCAL = "local"

Backend = Callable[[Problem, Any, int | None], AbstractContextManager[Problem]]


def checkpoint_of(
    asked: Parameters, path: str | Path | None, observations: Observations, held_out: Observations | None
) -> Checkpoint | None:
    """The checkpoint of a fit at this path, which knows what is fitted to what."""
    if path is None:
        return None
    about = {name: value for name, value in vars(asked).items() if name not in LIMITS}
    about["method"] = str(registry.find(asked.method))
    about["data"] = f"{observations!r} {_checksum(observations)}"
    about["validation"] = None if held_out is None else f"{held_out!r} {_checksum(held_out)}"
    return Checkpoint(Path(path), about)


def _checksum(observations: Observations) -> int:
    return crc32(*(array.data for array in observations.by_row.arrays if array is not None))


def build_problem(
    asked: Parameters, observations: Observations, setting: Setting, sides: Sequence[Any] | None = None
) -> Problem:
    """The problem that the parameters state, with what is tuned taken from the setting.

    `sides` are those of `sides_of`, where they are known already.
    """
    check_rank(setting.rank, observations.shape)
    loss = losses.find(asked.loss)
    method = registry.find(asked.method)
    regularizer = method.build_regularizer(setting.lam, **setting.of_method)
    sides = [
        side.with_ridge(setting.feature_ridge) if isinstance(side, Features) else side
        for side in (sides or sides_of(asked, observations))
    ]
    shown = prepared(observations, loss)
    return Problem(shown, regularizer, setting.rank, setting.bias_ridges, asked.n_jobs, loss, *sides)


def for_data(asked: Parameters, observations: Observations, setting: Setting) -> Setting:
    """The setting with what comes from the data that is fitted: the ridges of biases. A sampler draws its own."""
    if registry.find(asked.method).samples:
        return setting
    return with_ridges(setting, observations, losses.find(asked.loss))


def sides_of(asked: Parameters, observations: Observations) -> tuple[Any, Any]:
    """What is known of the rows and of the columns: a graph or prior, or features, also those of who rated what."""
    given = (asked.row_side, asked.col_side)
    sides: list[Any] = [
        None if side is None else side_of(side, ids).scaled(asked.graph_weight)
        for side, ids in zip(given, (observations.row_ids, observations.col_ids))
    ]
    if asked.features == "implicit":
        for i, implicit in enumerate(Features.implicit(observations)):
            if sides[i] is not None and not isinstance(sides[i], Features):
                raise InputError(f"features='implicit' does not go with a {type(sides[i]).__name__}; leave one out.")
            sides[i] = implicit if sides[i] is None else sides[i].beside(implicit)
    return sides[0], sides[1]


def side_of(side: Any, ids: Identifiers | None = None) -> Any:
    """Side information as solvers know it; arrays and DataFrames are features."""
    return side if hasattr(side, "scaled") else Features.of(side, ids)


def build_solver(asked: Parameters) -> Solver:
    """The solver that is named, or the method's own for what it is asked."""
    given = [side for side in (asked.row_side, asked.col_side, asked.features) if side is not None]
    # Which features they are does not matter here.
    sides = (side if hasattr(side, "scaled") else Features(None) for side in given)
    return registry.find(asked.method).build_solver(asked.solver, tuple(sides))


def tune(
    asked: Parameters,
    train: Observations,
    held_out: Observations,
    seed: int,
    checkpoint: Checkpoint | None = None,
    on_trial: OnTrial | None = None,
) -> Found:
    """Choose whatever is "auto"."""
    seconds = None if asked.max_seconds is None else asked.max_seconds / 2
    method = registry.find(asked.method)
    if method.samples:
        raise InputError(f"Method {method.name!r} draws its own weights: give it a rank and biases, not 'auto'.")
    space = tuning.Space.of(method, asked.lam, asked.rank, asked.theta, asked.biases)
    held_out = prepared(held_out, losses.find(asked.loss))
    solver = build_solver(asked)

    sides = sides_of(asked, train)
    searched = any(isinstance(side, Features) and side.ridge is None for side in sides)
    space = replace(space, features=searched)
    ridges = for_data(asked, train, Setting(1.0, 1, None, asked.biases is not False)).ridges

    def problem(observations: Observations, setting: Setting) -> Problem:
        return build_problem(asked, observations, replace(setting, ridges=ridges), sides)

    with one_blas_thread():
        return tuning.tune(space, problem, solver, train, held_out, seed, seconds, checkpoint, on_trial)


def solve(
    asked: Parameters,
    observations: Observations,
    setting: Setting,
    start: Factors | None,
    held_out: Observations | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    seed: int | None = None,
) -> Result:
    """Fit once."""
    problem = build_problem(asked, observations, setting)
    solver = build_solver(asked)
    with find_backend(asked.backend)(problem, solver, asked.n_workers) as distributed:
        return solvers.solve(
            solver,
            distributed,
            start=start,
            stopping=Stopping(asked.tol, asked.max_iter, asked.max_seconds),
            validation=None if held_out is None else prepared(held_out, problem.pointwise),
            callbacks=[*callbacks, FitProgress(asked, samples=solver.samples)] if asked.verbose else callbacks,
            checkpoint=checkpoint,
            seed=seed,
        )


def find_backend(name: str) -> Backend:
    """The backend of this name: "local", or one that an installed package declares as an entry point."""
    if name == LOCAL:
        return lambda problem, solver, n_workers: nullcontext(problem)
    found = {point.name: point for point in entry_points(group=BACKENDS)}
    if name not in found:
        raise InputError(f"Unknown backend {name!r}; there are {', '.join([LOCAL, *sorted(found)])}.")
    backend: Backend = found[name].load()
    return backend


def averaged(results: Sequence[Result]) -> Result:
    """The average of several fits, which is itself a low-rank matrix; history and objective are those of the first.

    Fits from different random starts err in different places; the mean of s of them errs less than each. As factors,

        1/s sum_i W_i H_i^T = [W_1 ... W_s] [H_1 ... H_s]^T / s,

    of rank s k. What is averaged may be regularized less than what stands alone: on MovieLens-1M at rank 10 the best
    single weight is about 13, and five fits are better at 10 than at 12 (0.773 and 0.774). Of a sampler, the draws of
    all chains are one posterior.
    """
    if len(results) == 1:
        return results[0]
    posteriors = [result.posterior for result in results if result.posterior is not None]
    if posteriors:
        posterior, seconds = joined(posteriors), sum(result.seconds for result in results)
        message = f"Draws of {len(results)} chains."
        return replace(results[0], factors=posterior.mean, posterior=posterior, seconds=seconds, message=message)
    parts = [result.factors for result in results]
    root = parts[0].dtype.type(np.sqrt(len(parts)))
    W, H = (np.hstack(sides) / root for sides in ([part.W for part in parts], [part.H for part in parts]))
    if parts[0].biased:
        row_bias, col_bias = (np.mean(b, axis=0) for b in zip(*((part.row_bias, part.col_bias) for part in parts)))
        factors = Factors.of(W, H, row_bias, col_bias, float(np.mean([part.offset for part in parts])))
    else:
        factors = Factors.of(W, H)
    seconds = sum(result.seconds for result in results)
    return replace(results[0], factors=factors, seconds=seconds, message=f"Mean of {len(parts)} fits.")
