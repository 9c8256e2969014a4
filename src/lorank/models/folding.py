"""Rows, columns and entries that were not there when the model was fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from lorank import registry
from lorank.errors import InputError
from lorank.kernels import Workers
from lorank.linalg import Factors, Frame, balance
from lorank.models.contents import Contents
from lorank.models.sharded import ShardedFactors
from lorank.observations import Lines, Observations, observe
from lorank.observations.identifiers import Identifiers
from lorank.problems import Problem
from lorank.problems.unobserved import line_weights
from lorank.side_information.base import several
from lorank.side_information.new_lines import ids_of, lines_of, with_rows
from lorank.solvers import History, Result, Status, gibbs
from lorank.types import Array

M = TypeVar("M", bound=Contents)

# Majorizing steps at most towards a new row under a loss that is not squared, and the part of it that ends them.
STEPS, SMALL_STEP = 500, 1e-6


def fold_in(model: M, X_new: Any, axis: int, features: Any = None) -> M:
    """A model of new rows (axis 0) or columns (axis 1); the other side is the fitted model's.

    features are those of the new lines, as they were given to the fit; with ids of their own they may be of more lines
    than X_new has entries of, and without X_new there are features alone.
    """
    if axis not in (0, 1):
        raise InputError(f"axis is 0 for new rows or 1 for new columns; got {axis!r}.")
    refuse_mean(model, "fold_in")
    if any(model.features) or model.setting.frequency_power or model.posterior is not None:
        model = model.loaded()  # of others, the lines that the entries mention are enough
    given = several(features)
    ids = (model.row_ids, model.col_ids)
    if X_new is None:
        observations = _no_entries(given, model.shape[1 - axis], ids[1 - axis])
    else:
        observations = observe(X_new).to_fit()
        if axis == 1:
            observations = observations.transposed()
        observations = _beside(observations, model.shape[1 - axis], ids[1 - axis], ("column", "row")[axis])
    observations = with_rows(observations, [ids_of(part) for part in given])
    coordinates = _coordinates(model, observations, axis, given)
    posterior = None
    if model.posterior is None:
        factors = fold_in_rows(model, observations, axis == 1, coordinates)
        if axis == 1:
            observations, factors = observations.transposed(), factors.transposed()
    else:
        observations = observations.transposed() if axis == 1 else observations
        posterior = gibbs.fold_in(model.posterior, observations, axis, Workers(model.n_jobs), coordinates)
        factors = posterior.mean
    # What is known of the rows beside their entries does not go with new ones.
    params = {
        name: value for name, value in model.params.items() if name not in (("row_side", "col_side")[axis], "features")
    }
    message = f"{factors.shape[axis]} {('rows', 'columns')[axis]} folded into a model of {model.shape[axis]}."
    return replace(
        model,
        result=Result(factors, float("nan"), Status.CONVERGED, message, 1, 0.0, History(), posterior, model.features),
        params=params,
        row_ids=observations.row_ids,
        col_ids=observations.col_ids,
        observations=observations.astype(factors.dtype),
        entries=observations.nnz,
        calibration=model.calibration and model.calibration.for_new(axis, factors.shape[axis]),
        sigma=None,
        row_titles=model.row_titles if axis == 1 else {},
        col_titles=model.col_titles if axis == 0 else {},
    )


def refuse_mean(model: Contents, what: str) -> None:
    """Refuse what only a single fit can do."""
    fits = model.params.get("n_fits", 1)
    if fits > 1:
        raise InputError(f"{what} is for a single fit; this model is the mean of {fits}: use n_fits=1.")


def fold_in_rows(
    model: Contents, observations: Observations, transposed: bool = False, expected: Array | None = None
) -> Factors:
    """Factors whose rows are new ones, regressed on the fitted factors of the columns (of X^T when transposed).

    Row i: (H_i^T H_i + M) w_i = H_i^T o_i + M m_i with M the regularizer's multiplier at the fitted factors and m_i
    where features expect the row (else 0), which is the equation that the rows of the fit itself satisfy: a training
    row comes back as it was, up to the tolerance. Of a model that was sampled, the mean over its draws.
    """
    if model.posterior is not None and not transposed:
        return gibbs.fold_in(model.posterior, observations, 0, Workers(model.n_jobs), expected).mean
    fitted = model.factors.transposed() if transposed else model.factors
    regularizer, loss = model.regularizer(), model.loss
    if not registry.find(model.params["method"]).folds_in:
        raise InputError(f"Method {model.method!r} cannot take in new rows or columns; fit all of them together.")
    needed, near = _mentioned(fitted, observations)
    prepared = near.with_values(loss.prepare(near.values).astype(fitted.dtype))
    ridges = model.setting.bias_ridges
    if ridges is not None and transposed:
        ridges = ridges[1], ridges[0]
    setting = model.setting
    problem = Problem(
        setting.targets(prepared), regularizer, fitted.k, ridges, model.n_jobs, loss, **setting.beyond_entries
    )
    if setting.frequency_power:
        problem, grams = _with_shares(problem, model, fitted, transposed)
    elif isinstance(fitted, ShardedFactors):
        grams = list(model.factors.grams[:: -1 if transposed else 1])  # type: ignore[attr-defined] # once for each model
    else:
        grams = [
            problem.gram(side, fitted.k) if known is None or known.gram is None else known.gram
            for side, known in zip((fitted.left, fitted.right), model.features[:: -1 if transposed else 1])
        ]
    frame = balance(*grams)
    ridge = frame.for_left(multiplier(regularizer, frame))
    folded = replace(needed, left=np.zeros((observations.shape[0], fitted.left.shape[1]), fitted.dtype))
    # For the squared loss the first step is the solution; others are reached by majorizing steps.
    for _ in range(1 if problem.squared else STEPS):
        before = folded
        folded = replace(folded, left=problem.ridge_regressions(folded, ridge, expected=expected)[0])
        if np.abs(folded.left - before.left).max(initial=0.0) <= SMALL_STEP * np.abs(folded.left).max(initial=0.0):
            break
    problem.workers.close()
    return fitted.with_rows(folded.left) if isinstance(fitted, ShardedFactors) else folded


def _mentioned(fitted: Factors, observations: Observations) -> tuple[Factors, Observations]:
    """The factors with those columns that entries mention, if they are in shards, and the entries numbered by them."""
    if not isinstance(fitted, ShardedFactors):
        return fitted, observations
    cols, at = np.unique(np.append(observations.cols, 0), return_inverse=True)  # one at least
    shape = observations.shape[0], cols.size
    near = Observations.from_coo(observations.rows, at[:-1], observations.values, shape, weights=observations.weights)
    lines = np.ascontiguousarray(fitted.right[cols])
    return Factors(lines[:0], lines, fitted.k, fitted.biased, fitted.offset), near


def _coordinates(model: Contents, observations: Observations, axis: int, given: tuple[Any, ...]) -> Array | None:
    """Where features expect new lines, which are rows here; None if the model knows no features of that side."""
    known = model.features[axis]
    if known is not None:
        return known.coordinates(given, observations.by_row, observations.row_ids)
    if given:
        raise InputError(f"This model was fitted without features of its {('rows', 'columns')[axis]}; leave them out.")
    return None


def _no_entries(given: tuple[Any, ...], n: int, col_ids: Identifiers | None) -> Observations:
    """New rows of which only features are known."""
    if not given:
        raise InputError("New rows or columns need entries or features; give X_new, features or both.")
    ids = ids_of(given[0])
    count = lines_of(given[0]) if ids is None else 0  # those with ids are added by them
    lines = Lines(np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0))
    return Observations((count, n), lines, None if ids is None else Identifiers(ids[:0]), col_ids)


def _with_shares(problem: Problem, model: Contents, fitted: Factors, transposed: bool) -> tuple[Problem, list[Array]]:
    """The problem with shares of the new lines, measured by the mean of the training data; and the factors' Grams."""
    if model.observations is None:
        raise InputError(
            "This model was saved without its data, which tell how new rows are regularized; fit it again."
        )
    setting, seen = model.setting, model.observations
    trained = replace(problem, observations=setting.targets(seen.transposed() if transposed else seen))
    size, power = seen.shape[1 - transposed], setting.frequency_power
    old, new = (line_weights(p.lines(False), size, p.unobserved) for p in (trained, problem))
    vars(problem)["_shares"] = ((new / old.mean()) ** power).astype(fitted.dtype), None
    return problem, [trained.prior_gram(fitted), trained.prior_gram(fitted.transposed(), transposed=True)]


def multiplier(regularizer: Any, frame: Frame) -> Array:
    """M such that the gradient of the regularizer by the balanced W is W M.

    For a spectral regularizer M = diag(r'(sigma_j)), by central differences of its value.
    """
    if hasattr(regularizer, "multipliers"):
        return regularizer.multipliers(frame.gram, frame.gram)[0]
    step = 1e-5 * frame.sigma.max()
    steps = step * np.eye(frame.sigma.size)
    descending = frame.sigma[::-1]
    slopes = [(regularizer.value(descending + e) - regularizer.value(descending - e)) / (2 * step) for e in steps]
    return np.diag(slopes[::-1])


def _beside(observations: Observations, n: int, col_ids: Identifiers | None, what: str) -> Observations:
    """Observations of new rows, their columns numbered as the fitted model numbers them."""
    if observations.col_ids is col_ids and observations.shape[1] == n:
        cols = observations.cols
    elif observations.col_ids is not None and col_ids is not None:
        cols = col_ids.positions(observations.col_ids.values, what)[observations.cols]
    elif observations.shape[1] <= n:
        cols = observations.cols
    else:
        raise InputError(f"The new data has {observations.shape[1]} {what}s and the model {n}; give it the same ones.")
    shape, weights = (observations.shape[0], n), observations.weights
    placed = observations.rows, cols, observations.values
    return Observations.from_coo(*placed, shape, observations.row_ids, col_ids, weights)
