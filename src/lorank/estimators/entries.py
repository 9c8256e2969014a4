"""EntryRegressor: matrix completion as a regression on pairs, for tools that split samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from lorank.errors import InputError
from lorank.estimators.completion import MatrixCompletion
from lorank.losses import Loss
from lorank.observations import Observations
from lorank.observations.checks import refuse_mask
from lorank.types import Array


class EntryRegressor(RegressorMixin, BaseEstimator):
    """MatrixCompletion for scikit-learn's searches and Optuna: X is (row, col) pairs, y the values there.

    Every observed entry is a sample, so that `cross_val_score`, `GridSearchCV` and the like split entries and not rows.
    A split may leave a row or column without any entry to train on: such pairs are predicted from the biases, or by the
    mean.

    Parameters
    ----------
    method, rank, lam, theta, loss, solver, biases, n_fits, tol, max_iter, max_seconds, random_state, n_jobs,
    dtype, features, effort
        As for MatrixCompletion.

    Attributes
    ----------
    model_ : MatrixCompletion
        Rows and columns go by their ids in X, whatever those are.

    Examples
    --------
    >>> pairs = np.column_stack([users, items])
    >>> GridSearchCV(EntryRegressor(biases=True), {"lam": [5, 10, 20]}).fit(pairs, ratings).best_params_
    """

    def __init__(
        self,
        method: Any = "auto",
        rank: int | str = "auto",
        lam: float | str = "auto",
        theta: float | str | None = "auto",
        loss: str | Loss = "auto",
        solver: str = "auto",
        biases: bool | str = "auto",
        n_fits: int = 1,
        tol: float = 1e-4,
        max_iter: int = 500,
        max_seconds: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        dtype: str = "float64",
        features: str | None = "auto",
        effort: str = "balanced",
    ) -> None:
        self.method = method
        self.rank = rank
        self.lam = lam
        self.theta = theta
        self.loss = loss
        self.solver = solver
        self.biases = biases
        self.n_fits = n_fits
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.dtype = dtype
        self.features = features
        self.effort = effort

    def fit(self, X: Any, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> EntryRegressor:
        """Fit values y (n,) at the pairs X (n, 2): an array, a list of pairs, or a frame with two columns."""
        rows, cols = _pairs(X)
        observations = Observations.from_ids(rows, cols, y, sample_weight)
        self.model_ = MatrixCompletion(**self.get_params()).fit(observations)
        self.n_features_in_ = 2
        return self

    def predict(self, X: Any) -> Array:
        """Values at pairs."""
        check_is_fitted(self)
        return np.asarray(self.model_.predict(*_pairs(X), unseen="bias"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        # The common tests feed matrices of any width, and the same line twice; pairs of ids are neither.
        tags._skip_test = True
        return tags


def _pairs(X: Any) -> tuple[Array, Array]:
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2 and X.shape[1] == 2:
        # Columns of a frame keep their own types; one array of both would not.
        return X.iloc[:, 0].to_numpy(), X.iloc[:, 1].to_numpy()
    refuse_mask(X, "pairs")
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != 2:
        shape = " x ".join(map(str, array.shape))
        raise InputError(f"X must be pairs of a row and a column, n x 2; this is {shape or 'one value'}.")
    return array[:, 0], array[:, 1]
