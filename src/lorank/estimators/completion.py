"""MatrixCompletion: fit what was seen, predict what was not."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lorank import frames, methods
from lorank.errors import InputError
from lorank.estimators.backends import opened
from lorank.estimators.progress import ProgressLine
from lorank.kernels import Workers
from lorank.linalg.factors import check_memory, effective_rank
from lorank.observations import observe
from lorank.problems import rmse
from lorank.solvers import Callback, Checkpoint, Result, Stopping, solve

Array = npt.NDArray[Any]


class MatrixCompletion(BaseEstimator):
    """Complete a matrix from its observed entries, assuming low rank.

    Parameters
    ----------
    method : str
        A name of the catalogue: "nnfn" (factored NNFN, the default), "nnfn-prox", "factored-nuclear", "nuclear", "mf".
    rank : int
        Width of the factors, or the largest rank that a spectral method may take.
    lam : float
        Weight of the regularizer, in units of the data.
    theta : float
        How much of the Frobenius norm is taken off, from 0 (nuclear norm) to 1 (NNFN). At 1 a matrix of rank one costs
        nothing, so the answer never falls to rank 0.
    solver : str
        "auto", or one of the method's solvers by name.
    biases : bool
        Fit a global offset and an offset for each row and column jointly with the factors, with ridge weight lam.
    tol : float
        Converged when the objective changes by less than this part of itself.
    max_iter, max_seconds
        Limits; reaching one gives a ConvergenceWarning.
    random_state : int, RandomState or None
        Of the random start. The same number gives the same bits, on any number of threads.
    n_jobs : int or None
        Threads; None for all cores, -1 too, -2 for all but one.
    dtype : "float64" or "float32"
        Precision of factors and data; float32 halves the memory.
    verbose : bool
        Show a line of progress on standard error.
    backend : "local" or "ray"
        "ray" keeps the data in Ray actors: two of them in a Ray that is started here, or n_jobs of them in
        the Ray that this process has joined before. The same bits come out.

    Attributes
    ----------
    factors_ : (W, H)
        Balanced: W^T W = H^T H = diag(singular_values_), for the factored methods' default solver.
    row_bias_, col_bias_, offset_
        Zeros without biases.
    singular_values_ : array
        Of W H^T, descending.
    rank_ : int
        How many of them are above a hundredth of the largest.
    history_ : dict of arrays
        iteration, seconds, objective, rank, validation.
    result_ : Result
        Status, message, objective, factors.
    observations_ : Observations
        What it was fitted on.
    """

    def __init__(
        self,
        method: str = "nnfn",
        rank: int = 10,
        lam: float = 10.0,
        theta: float = 1.0,
        solver: str = "auto",
        biases: bool = False,
        tol: float = 1e-4,
        max_iter: int = 500,
        max_seconds: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        dtype: str = "float64",
        verbose: bool = False,
        backend: str = "local",
    ) -> None:
        self.method = method
        self.rank = rank
        self.lam = lam
        self.theta = theta
        self.solver = solver
        self.biases = biases
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.dtype = dtype
        self.verbose = verbose
        self.backend = backend

    def fit(
        self,
        X: Any,
        validation: Any = None,
        *,
        start: MatrixCompletion | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | Path | None = None,
    ) -> MatrixCompletion:
        """Fit the observed entries of X.

        Parameters
        ----------
        X : sparse matrix, array with NaN, DataFrame, (rows, cols, values), or Observations
        validation : the same, or a fraction of X to hold out, optional
            Stop when the error on it has not fallen for five iterations, and keep the best iterate.
        start : MatrixCompletion, optional
            A fitted model of the same shape and rank to start from.
        callbacks : functions of a Progress
            Called after each iteration; one that returns True ends the fit.
        checkpoint : path, optional
            Saved there from time to time; a fit that was cut off goes on from it and ends as if it had not been.
        """
        self._check_parameters()
        observations = observe(X).astype(self.dtype)
        held_out = None
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(validation, float):
            observations, held_out = observations.split(validation, seed)
        elif validation is not None:
            held_out = observe(validation).aligned_to(observations).astype(self.dtype)
        m, n = observations.shape
        if not 1 <= self.rank <= min(m, n):
            raise InputError(f"rank must be between 1 and {min(m, n)} for a matrix of {m} x {n}; got {self.rank}.")
        method = methods.find(self.method)
        regularizer = method.build_regularizer(lam=float(self.lam), theta=float(self.theta))
        weight = float(self.lam) if self.biases else None
        saved = None
        if checkpoint is not None:
            saved = Checkpoint(Path(checkpoint), f"{self.get_params()} {observations!r} {observations.values.sum()}")
        with opened(
            self.backend, method, self.solver, observations, regularizer, self.rank, weight, self.n_jobs
        ) as problem:
            result = solve(
                method.build_solver(self.solver),
                problem,
                start=None if start is None else start.result_.factors,
                stopping=Stopping(self.tol, self.max_iter, self.max_seconds),
                validation=held_out,
                callbacks=[*callbacks, ProgressLine(self.max_iter)] if self.verbose else callbacks,
                checkpoint=saved,
                seed=seed,
            )
        self.observations_ = observations
        self._keep(result)
        return self

    def _keep(self, result: Result) -> None:
        factors = result.factors
        self.result_ = result
        self.factors_ = factors.W, factors.H
        self.row_bias_, self.col_bias_, self.offset_ = factors.row_bias, factors.col_bias, factors.offset
        self.singular_values_ = factors.singular_values()
        self.rank_ = effective_rank(self.singular_values_)
        self.history_ = result.history.arrays()
        self.n_iter_ = result.n_iter

    def predict(self, rows: npt.ArrayLike, cols: npt.ArrayLike) -> Array:
        """Entries at (rows_t, cols_t): ids if the data had ids, positions otherwise. One id goes with many."""
        check_is_fitted(self)
        m, n = self.observations_.shape
        left = _find(rows, self.observations_.row_ids, m, "row")
        right = _find(cols, self.observations_.col_ids, n, "column")
        if left.size != right.size and 1 not in (left.size, right.size):
            raise InputError(f"As many rows as columns are needed to predict; there are {left.size} and {right.size}.")
        left, right = (np.ascontiguousarray(side) for side in np.broadcast_arrays(left, right))
        return self.result_.factors.predict(left, right, Workers(self.n_jobs))

    def complete(self) -> Array:
        """The whole matrix as an m x n array: what was observed as it was, the rest predicted.

        Refused with the size that it would take if that does not fit in memory.
        """
        check_is_fitted(self)
        X = self.result_.factors.dense()
        X[self.observations_.rows, self.observations_.cols] = self.observations_.values
        return X

    def score(self, X: Any, y: None = None) -> float:
        """Minus the root mean squared error on the observed entries of X: higher is better."""
        check_is_fitted(self)
        observations = observe(X).aligned_to(self.observations_)
        return -rmse(self.result_.factors, observations, Workers(self.n_jobs))

    def _check_parameters(self) -> None:
        if not isinstance(self.rank, Integral) or isinstance(self.rank, bool):
            raise InputError(f"rank must be a whole number; got {self.rank!r}.")
        for name in ("lam", "theta", "tol"):
            if not isinstance(getattr(self, name), Real):
                raise InputError(f"{name} must be a number; got {getattr(self, name)!r}.")
        if not self.tol >= 0:
            raise InputError(f"tol must not be negative; got {self.tol}.")
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise InputError(f"max_iter must be a whole number of at least 1; got {self.max_iter!r}.")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise InputError(f"max_seconds must be positive; got {self.max_seconds}.")
        if self.n_jobs == 0:
            raise InputError("n_jobs must not be 0: give a number of threads, or None for all cores.")
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise InputError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")


def complete(X: Any, **params: Any) -> Any:
    """Fill the missing entries of X; what comes back is of the type that was given.

    X is an array with NaN, a DataFrame, or a sparse matrix; params are those of MatrixCompletion. A sparse
    matrix comes back with every entry stored, so it is for small ones: use MatrixCompletion.predict for large ones.
    """
    model = MatrixCompletion(**params).fit(X)
    m, n = model.observations_.shape
    if sp.issparse(X):
        check_memory(16 * m * n, f"The completed sparse matrix of {m} x {n} entries")
        full: Any = type(X)
        return full(model.complete())
    filled = model.complete()
    return frames.like(X, filled) if hasattr(X, "columns") else filled


def _find(names: npt.ArrayLike, ids: Any, size: int, what: str) -> Array:
    """Positions of rows or columns that the user names, checked."""
    if ids is not None:
        return np.asarray(ids.positions(names, what))
    index = np.atleast_1d(np.asarray(names)).ravel()
    if index.size and not np.issubdtype(index.dtype, np.integer):
        raise InputError(f"The data had no ids, so {what}s are called by position: whole numbers, not {index.dtype}.")
    outside = (index < 0) | (index >= size)
    if outside.any():
        raise InputError(f"There is no {what} {index[outside][0]}: the matrix has {size}, from 0 to {size - 1}.")
    return index.astype(np.int64)
