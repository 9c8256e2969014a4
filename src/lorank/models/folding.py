"""Rows, columns and entries that were not there when the model was fitted."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lorank import losses, registry
from lorank.errors import InputError
from lorank.linalg import Factors, Frame
from lorank.observations import Observations, observe
from lorank.observations.identifiers import Identifiers
from lorank.problems import Problem
from lorank.solvers import History, Result, Status
from lorank.types import Array

if TYPE_CHECKING:
    from lorank.estimators.completion import MatrixCompletion

# Majorizing steps towards a new row under a loss that is not squared.
STEPS = 50


def fold_in(model: MatrixCompletion, X_new: Any, axis: int) -> MatrixCompletion:
    """A fitted model of new rows (axis 0) or columns (axis 1); the other side is the fitted model's."""
    if axis not in (0, 1):
        raise InputError(f"axis is 0 for new rows or 1 for new columns; got {axis!r}.")
    observations, fitted = observe(X_new), model.observations_
    if axis == 1:
        observations, fitted = observations.transposed(), fitted.transposed()
    what = "column" if axis == 0 else "row"
    observations = _beside(observations, fitted.shape[1], fitted.col_ids, what)
    factors = fold_in_rows(model, observations, transposed=axis == 1)
    if axis == 1:
        observations, factors = observations.transposed(), factors.transposed()
    what = ("rows", "columns")[axis]
    message = f"{factors.shape[axis]} {what} folded into a model of {fitted.shape[0]}."
    result = Result(factors, float("nan"), Status.CONVERGED, message, 1, 0.0, History())
    new = copy(model)
    calibration = model.calibration_ and model.calibration_.for_new(axis, factors.shape[axis])
    mean, extent = model.mean_, model.range_
    new._keep(observations.astype(factors.dtype), model.setting_, result, calibration)
    new.mean_, new.range_ = mean, extent
    return new


def fold_in_rows(model: MatrixCompletion, observations: Observations, transposed: bool = False) -> Factors:
    """Factors whose rows are new ones, regressed on the fitted factors of the columns (of X^T when transposed).

    Row i: (H_i^T H_i + M) w_i = H_i^T o_i with M the regularizer's multiplier at the fitted factors, which is the
    equation that the rows of the fit itself satisfy: a training row comes back as it was, up to the tolerance.
    """
    fitted = model.result_.factors
    fitted = fitted.transposed() if transposed else fitted
    setting = model.setting_
    method = registry.find(model.method)
    regularizer: Any = method.build_regularizer(setting.lam, **setting.of_method)
    if not method.folds_in:
        raise InputError(f"Method {method.name!r} cannot take in new rows or columns; fit all of them together.")
    loss = losses.find(model.loss)
    prepared = observations.with_values(loss.prepare(observations.values).astype(fitted.dtype))
    problem = Problem(prepared, regularizer, fitted.k, setting.bias_weight, model.n_jobs, loss)
    frame = problem.frame(fitted)
    ridge = frame.for_left(_multiplier(regularizer, frame))
    folded = replace(fitted, left=np.zeros((observations.shape[0], fitted.left.shape[1]), fitted.dtype))
    # For the squared loss the first step is the solution; others are reached by majorizing steps.
    for _ in range(1 if problem.squared else STEPS):
        folded = replace(folded, left=problem.ridge_regressions(folded, ridge)[0])
    problem.workers.close()
    return folded


def updated(older: Observations, newer: Observations) -> Observations:
    """Both observations of one matrix together; where both have an entry, the newer value."""
    n = older.shape[1]
    cells, replaced = (part.rows.astype(np.int64) * n + part.cols for part in (older, newer))
    kept = older.subset(~np.isin(cells, replaced))
    rows, cols = np.concatenate([kept.rows, newer.rows]), np.concatenate([kept.cols, newer.cols])
    values = np.concatenate([kept.values, newer.values.astype(older.dtype)])
    return Observations.from_coo(rows, cols, values, older.shape, older.row_ids, older.col_ids)


def _multiplier(regularizer: Any, frame: Frame) -> Array:
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
    if observations.col_ids is not None and col_ids is not None:
        cols = col_ids.positions(observations.col_ids.values, what)[observations.cols]
    elif observations.shape[1] <= n:
        cols = observations.cols
    else:
        raise InputError(f"The new data has {observations.shape[1]} {what}s and the model {n}; give it the same ones.")
    shape = (observations.shape[0], n)
    return Observations.from_coo(observations.rows, cols, observations.values, shape, observations.row_ids, col_ids)
