"""Rows that were not there when the model was fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lorank import catalogue
from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem

if TYPE_CHECKING:
    from lorank.estimators.completion import MatrixCompletion


def fold_in_rows(model: MatrixCompletion, observations: Observations) -> Factors:
    """Factors whose rows are new ones, regressed on the fitted factors of the columns.

    Row i: (H_i^T H_i + M) w_i = H_i^T o_i with M the regularizer's multiplier at the fitted factors, which is the
    equation that the rows of the fit itself satisfy: a training row comes back as it was, up to the tolerance.
    """
    fitted = model.result_.factors
    regularizer: Any = catalogue.find(model.method).build_regularizer(
        float(model.lam), theta=model.theta, p=model.p, t=model.t
    )
    weight = float(model.lam) if model.biases else None
    problem = Problem(observations.astype(fitted.dtype), regularizer, fitted.k, weight, model.n_jobs)
    frame = problem.frame(fitted)
    multiplier, _ = regularizer.multipliers(frame.gram, frame.gram)
    empty = np.zeros((observations.shape[0], fitted.left.shape[1]), fitted.dtype)
    left, _ = problem.solve_left(replace(fitted, left=empty), frame.for_left(multiplier))
    problem.workers.close()
    return replace(fitted, left=left)
