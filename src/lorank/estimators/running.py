"""From parameters to a problem and a solver, on the backend that is asked for, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from lorank import losses, registry, solvers
from lorank.errors import InputError
from lorank.estimators.parameters import Parameters
from lorank.estimators.progress import FitProgress
from lorank.estimators.sides import combined, feature_maps, sides_of
from lorank.files import crc32
from lorank.linalg import Factors
from lorank.models import Model
from lorank.models.intervals import Calibration
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.side_information import Features, GraphLaplacian, KernelPrior
from lorank.side_information.base import several
from lorank.solvers import Callback, Checkpoint, Result, Solver, Stopping
from lorank.solvers.posterior import joined
from lorank.tuning.setting import AUTO, Setting, prepared, with_ridges
from lorank.tuning.trials import Trials

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
    about["method"] = asked.method if asked.any_method else str(registry.find(asked.method))
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
    rank = max(setting.rank, 1)  # offsets alone have one factor, of zeros
    loss = losses.find(asked.loss).fresh()
    method = registry.find(asked.method)
    regularizer = method.build_regularizer(setting.lam, **setting.of_method)
    sides = [
        combined(
            [part.with_ridge(setting.feature_ridge) if isinstance(part, Features) else part for part in several(side)]
        )
        for side in (sides or sides_of(asked, observations))
    ]
    shown = setting.targets(prepared(observations, loss))
    more = _with_unobserved(asked, setting).beyond_entries
    return Problem(shown, regularizer, rank, setting.bias_ridges, asked.n_jobs, loss, *sides, **more)


def _with_unobserved(asked: Parameters, setting: Setting) -> Setting:
    """The setting with what is asked of entries that were not observed; a setting for lists has its own."""
    if setting.grades is not None:
        return setting
    weight, power = float(asked.unobserved_weight or 0.0), float(asked.frequency_power or 0.0)
    value = float(asked.unobserved_value) if weight else 0.0
    return replace(setting, unobserved_weight=weight, unobserved_value=value, frequency_power=power)


def for_data(asked: Parameters, observations: Observations, setting: Setting) -> Setting:
    """The setting with what comes from the data that is fitted: the ridges of biases. A sampler draws its own."""
    if registry.find(asked.method).samples:
        return setting
    return with_ridges(_with_unobserved(asked, setting), observations, losses.find(asked.loss))


def given(asked: Parameters, observations: Observations) -> Setting:
    """The setting where nothing is searched."""
    setting, method = asked.setting, registry.find(asked.method)
    if not setting.biases or not method.tunes:
        return setting
    return with_ridges(setting, observations, losses.find(asked.loss), threshold_of(method, setting))


def threshold_of(method: registry.Method, setting: Setting) -> float | None:
    """The largest singular value that the method's regularizer takes to zero, if it can say."""
    regularizer: Any = method.build_regularizer(setting.lam, **setting.of_method)
    regularizer = regularizer.spectral() if hasattr(regularizer, "spectral") else regularizer
    return float(regularizer.threshold(1.0)) if hasattr(regularizer, "threshold") else None


def build_solver(asked: Parameters) -> Solver:
    """The solver that is named, or the method's own for what it is asked."""
    features = asked.features if asked.features == "implicit" else None
    given = [*several(asked.row_side), *several(asked.col_side), *several(features)]
    # Which features they are does not matter here.
    sides = (side if hasattr(side, "scaled") else Features(None) for side in given)
    solver = registry.find(asked.method).build_solver(asked.solver, tuple(sides))
    check_backend(asked)
    if asked.backend != LOCAL and not solver.distributes:
        raise InputError(
            f"{type(solver).__name__} runs on one machine only; backend={asked.backend!r} runs the own solvers of "
            f"{registry.distributable()}."
        )
    return solver.with_effort(asked.effort) if asked.solver == "auto" else solver


def check_backend(asked: Parameters) -> None:
    """Refuse what no method can do where lines are kept elsewhere."""
    if asked.backend == LOCAL:
        return
    sides = [*several(asked.row_side), *several(asked.col_side)]
    tied = any(isinstance(side, (GraphLaplacian, KernelPrior)) for side in sides)
    if tied or (asked.loss != AUTO and losses.find(asked.loss) != losses.SQUARED):
        raise InputError("Graphs, kernel priors and losses other than the squared one run on one machine only.")
    if asked.unobserved_weight or asked.frequency_power or asked.goal == "ranking":
        raise InputError("goal='ranking', unobserved_weight and frequency_power run on one machine only.")


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
    if setting.rank == 0:
        start = problem.offsets_alone()
    with find_backend(asked.backend)(problem, solver, asked.n_workers) as distributed:
        result = solvers.solve(
            solver,
            distributed,
            start=start,
            stopping=Stopping(asked.tol, asked.max_iter, asked.max_seconds),
            validation=None if held_out is None else prepared(held_out, problem.pointwise),
            callbacks=[*callbacks, FitProgress(asked, samples=solver.samples)] if asked.verbose else callbacks,
            checkpoint=checkpoint,
            seed=seed,
        )
    if problem.featured:
        result = replace(result, features=feature_maps(problem, result))
    if problem.pointwise.learns and result.posterior is None:
        result = replace(result, loss=problem.loss_at(result.factors))
    return result


def find_backend(name: str) -> Backend:
    """The backend of this name: "local", or one that an installed package declares as an entry point."""
    if name == LOCAL:
        return lambda problem, solver, n_workers: nullcontext(problem)
    found = {point.name: point for point in entry_points(group=BACKENDS)}
    if name not in found:
        raise InputError(f"Unknown backend {name!r}; there are {', '.join([LOCAL, *sorted(found)])}.")
    backend: Backend = found[name].load()
    return backend


def model_of(
    params: dict[str, Any],
    observations: Observations,
    setting: Setting,
    result: Result,
    calibration: Calibration | None,
    trials: Trials,
    lists: Mapping[str, float],
) -> Model:
    """The model that came of a fit with these parameters of an estimator, its loss with what it learnt."""
    values = observations.values
    return Model(
        result=result,
        setting=setting,
        params=params | ({} if result.loss is None else {"loss": result.loss}),
        row_ids=observations.row_ids,
        col_ids=observations.col_ids,
        observations=observations,
        entries=observations.nnz,
        mean=observations.mean,
        range=(float(values.min()), float(values.max())),
        calibration=calibration,
        trials=tuple(trials.rows()),
        lists=lists,
    )


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
