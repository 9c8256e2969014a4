"""Tables with gaps in, filled out: `complete`, and LowRankImputer for a scikit-learn pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from lorank import registry
from lorank.errors import InputError
from lorank.estimators.completion import MatrixCompletion
from lorank.linalg.memory import check_memory
from lorank.models.folding import fold_in_rows
from lorank.observations import Observations
from lorank.observations import dataframes as frames
from lorank.observations.checks import unmasked
from lorank.types import Array


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill missing values of a table whose columns move together.

    Columns are centred and scaled, a low-rank matrix is fitted to what is there, and missing cells are read from it.
    Rows that were not in the training table are folded in: each is a small regression on the factors of the columns.
    Cells that were there are never changed.

    Parameters
    ----------
    rank : int, "auto" or None
        None takes half the smaller side of the table, at most 10.
    lam, theta, method, tol, max_iter, random_state, n_jobs
        As for MatrixCompletion, "auto" too; lam is in units of standardised columns.

    Attributes
    ----------
    model_ : MatrixCompletion
        Fitted on the standardised table.
    center_, scale_ : arrays
        Mean and standard deviation of each column's known cells. A column without any is filled with 0.
    """

    def __init__(
        self,
        rank: int | str | None = None,
        lam: float | str = 1.0,
        theta: float | str | None = None,
        method: Any = "nnfn",
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.rank = rank
        self.lam = lam
        self.theta = theta
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LowRankImputer:
        """Learn the factors of the columns; sample_weight (rows,) says how much each row counts."""
        X = self._read(X, reset=True)
        seen = ~np.isnan(X)
        weights = None
        if sample_weight is not None:
            weights = np.broadcast_to(_check_sample_weight(sample_weight, X)[:, None], X.shape)
            seen &= weights > 0
        if not seen.any():
            raise InputError("Every cell of the table is missing; there is nothing to learn from.")
        method = registry.find(self.method)
        if not method.folds_in:
            raise InputError(f"Method {method.name!r} cannot fold in new rows; use 'nnfn' or 'factored-nuclear'.")
        mass = seen.astype(np.float64) if weights is None else seen * weights
        counts = np.where(seen.any(axis=0), mass.sum(axis=0), 1)
        self.center_ = (mass * np.where(seen, X, 0)).sum(axis=0) / counts
        self.scale_ = np.sqrt((mass * np.where(seen, X - self.center_, 0) ** 2).sum(axis=0) / counts)
        # A constant column has no scale: its centre is all there is to say of it.
        self.scale_[self.scale_ == 0] = 1.0
        self.model_ = MatrixCompletion(
            method=self.method,
            rank=self.rank if self.rank is not None else max(1, min(10, min(X.shape) // 2)),
            lam=self.lam,
            theta=self.theta,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        ).fit((X - self.center_) / self.scale_, sample_weight=weights)
        self.n_iter_ = self.model_.n_iter_
        return self

    def transform(self, X: Any) -> Array:
        """Fill the missing cells of X, row by row."""
        check_is_fitted(self)
        X = self._read(X, reset=False)
        observations = Observations.from_dense((X - self.center_) / self.scale_)
        predicted = fold_in_rows(self.model_.model_, observations).dense() * self.scale_ + self.center_
        return np.where(np.isnan(X), predicted, X)

    def _read(self, X: Any, reset: bool) -> Array:
        X = unmasked(X) if np.ma.isMaskedArray(X) else X
        array = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        return np.asarray(array)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def complete(X: Any, **params: Any) -> Any:
    """Fill the missing entries of X; what comes back is of the type that was given.

    X is an array with NaN, a DataFrame, or a sparse matrix; params are those of MatrixCompletion. A sparse
    matrix comes back with every entry stored, so it is for small ones: use MatrixCompletion.predict for large ones.
    """
    model = MatrixCompletion(**params).fit(X).model_
    m, n = model.shape
    if sp.issparse(X):
        check_memory(16 * m * n, f"The completed sparse matrix of {m} x {n} entries")
        full: Any = type(X)
        return full(model.complete())
    filled = model.complete()
    return frames.like(X, filled) if hasattr(X, "columns") else filled
