"""MatrixCompletion: fit what was seen, predict what was not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lorank import losses
from lorank.errors import InputError
from lorank.estimators import running
from lorank.estimators.averaging import averaged
from lorank.estimators.memory import check_fit_memory
from lorank.estimators.parameters import check_parameters, check_rank
from lorank.kernels import Workers
from lorank.linalg.factors import effective_rank
from lorank.models import folding, intervals, unseen
from lorank.observations import Observations, observe
from lorank.registry import find
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.solvers import Callback, Result
from lorank.tuning.held_out import setting_of
from lorank.tuning.setting import AUTO, Setting
from lorank.tuning.trial_log import OnTrial
from lorank.types import Array


class MatrixCompletion(BaseEstimator):
    """Complete a matrix from its observed entries, assuming low rank.

    Parameters
    ----------
    method : str, Method, regularizer, or class of regularizers
        A name of the catalogue, which `lorank.methods()` shows; "nnfn" (factored NNFN) is the default. "bpmf" draws
        from a posterior instead of seeking one optimum: lam and tol do not concern it, max_iter is the number of
        sweeps, and a validation set is only watched. Parameters of a single method are set on it, as in
        `method=SchattenP(p=0.5)`, whose lam does not count, and any regularizer of one's own will do.
    rank : int or "auto"
        Width of the factors, or the largest rank that a spectral method may take.
    lam : float or "auto"
        Weight of the regularizer, in units of the data. Whatever is "auto" is chosen on the validation set, or on a
        tenth of X that is held out for it and then refitted with the rest (see `lorank.tuning.path`).
    theta : float or "auto", optional
        For NNFN how much of the Frobenius norm is taken off, from 0 (nuclear norm) to 1 (NNFN, the default). At 1 a
        matrix of rank one costs nothing, so the answer never falls to rank 0. Capped-l1, LSP and MCP have a theta
        of their own. None takes the method's own; a method without it refuses it.
    loss : "squared", "huber", "logistic", or a Loss
        Of an entry, for the factored methods; `lorank.losses.Huber(delta=...)` sets where Huber's turns linear.
        Logistic is for two classes, 0 and 1 or -1 and 1: `predict` then gives the score x, and
        `scipy.special.expit(x)` is the probability of the class 1.
    solver : str or object
        "auto", or one of the method's solvers by name, or such a solver with settings of its own.
    biases : bool or "auto"
        Fit a global offset and an offset for each row and column jointly with the factors, with ridge weight lam.
    unseen : "error" or "bias"
        What to predict for rows or columns that were not in the data: refuse, or offset + the bias of the side that is
        known (the offset if none is; without biases the mean of what was observed).
    n_fits : int
        With more than one, the mean of so many fits from different random starts: a smaller error for so many times
        the cost. It has n_fits times the rank, and takes in nothing new by `fold_in` or `partial_fit`.
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
    row_graph, col_graph : GraphLaplacian or KernelPrior, optional
        What is known of rows or columns, by which those never observed are predicted; graph_weight multiplies both.
    graph_weight : float

    Attributes
    ----------
    factors_ : (W, H)
        Balanced: W^T W = H^T H = diag(singular_values_), for the factored methods' default solver. For "bpmf" the
        best approximation of this rank to the posterior mean, which `predict` and `complete` use in full.
    row_bias_, col_bias_, offset_
        Zeros without biases.
    singular_values_ : array
        Of W H^T, descending.
    rank_ : int
        How many of them are above a hundredth of the largest.
    setting_ : Setting
        lam, rank, theta, biases and whatever else was searched that it was fitted with.
    tuning_ : Trials
        With "auto", what was tried: a table, with `.to_frame()` and `.plot()`.
    calibration_ : Calibration or None
        What intervals are made of; there is one if a part was held out, by `validation` or by "auto".
    mean_, range_ : float, (float, float)
        Mean of the observed values; the least and the largest.
    history_ : dict of arrays
        iteration, seconds, objective, rank, validation.
    result_ : Result
        Status, message, objective, factors.
    observations_ : Observations
        What it was fitted on.
    """

    def __init__(
        self,
        method: Any = "nnfn",
        rank: int | str = 10,
        lam: float | str = 10.0,
        theta: float | str | None = None,
        loss: str | losses.Loss = "squared",
        solver: Any = "auto",
        biases: bool | str = False,
        unseen: str = "error",
        n_fits: int = 1,
        tol: float = 1e-4,
        max_iter: int = 500,
        max_seconds: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        dtype: str = "float64",
        verbose: bool = False,
        backend: str = "local",
        row_graph: GraphLaplacian | KernelPrior | None = None,
        col_graph: GraphLaplacian | KernelPrior | None = None,
        graph_weight: float = 1.0,
    ) -> None:
        self.method = method
        self.rank = rank
        self.lam = lam
        self.theta = theta
        self.loss = loss
        self.solver = solver
        self.biases = biases
        self.unseen = unseen
        self.n_fits = n_fits
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.dtype = dtype
        self.verbose = verbose
        self.backend = backend
        self.row_graph = row_graph
        self.col_graph = col_graph
        self.graph_weight = graph_weight

    def fit(
        self,
        X: Any,
        validation: Any = None,
        *,
        start: MatrixCompletion | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | Path | None = None,
        on_trial: OnTrial | None = None,
    ) -> MatrixCompletion:
        """Fit the observed entries of X.

        Parameters
        ----------
        X : sparse matrix, array with NaN, DataFrame, (rows, cols, values), or Observations
        validation : the same, or a fraction of X to hold out, optional
            Stop when the error on it has not fallen for five iterations, and keep the best iterate. It also chooses
            what is "auto", and makes intervals possible.
        start : MatrixCompletion, optional
            A fitted model of the same shape and rank to start from; not with "auto", which finds its own.
        callbacks : functions of a Progress
            Called after each iteration; one that returns True ends the fit.
        checkpoint : path, optional
            Saved there from time to time; a fit that was cut off goes on from it and ends as if it had not been. One
            that belongs to other data or parameters is refused.
        on_trial : function of (done, expected), optional
            Called after each trial of a search for what is "auto": how many are done, and about how many there will be.
        """
        check_parameters(self)
        observations = observe(X).astype(self.dtype)
        if self.rank != AUTO:
            check_rank(int(self.rank), observations.shape)
        held_out = None
        automatic = AUTO in (self.lam, self.rank, self.theta, self.biases) or bool(find(self.method).automatic)
        check_fit_memory(self, observations, isinstance(validation, float) or (automatic and validation is None))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(validation, float):
            observations, held_out = observations.split(validation, seed)
        elif validation is not None:
            held_out = observe(validation).aligned_to(observations).astype(self.dtype)
        saved = running.checkpoint_of(self, checkpoint, observations, held_out)
        calibrated = None
        factors = None if start is None else start.result_.summary
        if automatic:
            train, part = observations.split(0.1, seed) if held_out is None else (observations, held_out)
            tuned = running.tune(self, train, part, seed, saved, on_trial)
            setting, self.tuning_, factors = setting_of(tuned.parameters), tuned.trials, tuned.result.factors
            if held_out is None:
                calibrated = intervals.calibrate(factors, train, part, seed, self.n_jobs)
            if tuned.interrupted:
                return self._keep(train, setting, tuned.result, calibrated)
        else:
            theta = None if self.theta is None else float(self.theta)
            setting = Setting(float(self.lam), int(self.rank), theta, bool(self.biases))
        results = [running.solve(self, observations, setting, factors, held_out, callbacks, saved, seed)]
        for more in range(1, self.n_fits):
            results.append(running.solve(self, observations, setting, None, held_out, callbacks, seed=seed + more))
        result = averaged(results)
        if held_out is not None:
            calibrated = intervals.calibrate(result.factors, observations, held_out, seed, self.n_jobs)
        return self._keep(observations, setting, result, calibrated)

    def partial_fit(self, X: Any) -> MatrixCompletion:
        """Take in more observations of known rows and columns, and solve again from where the model stands.

        X is as for `fit`; a value for an entry that was observed before replaces it. Rows or columns that are new are
        refused: `fold_in` serves them, or a new fit. What was chosen by "auto" stays, and so do the intervals.
        """
        if not hasattr(self, "result_"):
            return self.fit(X)
        check_parameters(self)
        self._refuse_mean("partial_fit")
        observations = folding.updated(self.observations_, observe(X).aligned_to(self.observations_))
        result = running.solve(self, observations, self.setting_, self.result_.factors, seed=0)
        return self._keep(observations, self.setting_, result, self.calibration_)

    def fold_in(self, X_new: Any, axis: int = 0) -> MatrixCompletion:
        """A fitted model of rows that were not there before (columns with axis=1), beside the columns of this one.

        Each new row is a small regression on the factors of the columns; those do not change. X_new is as for `fit`:
        its rows are new, its columns are known, by id where there are ids. Millions of rows at once are fine.
        """
        check_is_fitted(self)
        self._refuse_mean("fold_in")
        return folding.fold_in(self, X_new, axis)

    def _refuse_mean(self, what: str) -> None:
        if self.n_fits > 1:
            raise InputError(f"{what} is for a single fit; this model is the mean of {self.n_fits}: use n_fits=1.")

    def _keep(
        self,
        observations: Observations,
        setting: Setting,
        result: Result,
        calibration: intervals.Calibration | None,
    ) -> MatrixCompletion:
        factors = result.summary
        self.observations_, self.setting_, self.result_, self.calibration_ = observations, setting, result, calibration
        values = observations.values
        self.mean_ = float(values.mean(dtype=np.float64))
        self.range_ = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
        self.factors_ = factors.W, factors.H
        self.row_bias_, self.col_bias_, self.offset_ = factors.row_bias, factors.col_bias, factors.offset
        self.singular_values_ = factors.singular_values()
        self.rank_ = effective_rank(self.singular_values_)
        self.history_ = result.history.arrays()
        self.n_iter_ = result.n_iter
        return self

    def predict(
        self, rows: npt.ArrayLike, cols: npt.ArrayLike, interval: float | None = None, clip: bool = False
    ) -> Any:
        """Entries at (rows_t, cols_t): ids if the data had ids, positions otherwise. One id goes with many.

        With interval=0.9 the answer is (prediction, lower, upper): ranges that hold nine of ten values that were not
        seen, wide where rows and columns are hard to predict (`lorank.models.intervals`). With clip=True nothing
        lies outside `range_`: no film gets six stars of five, and no value within it is missed by more.
        """
        check_is_fitted(self)
        left, right = unseen.positions(self, rows, cols)
        answers = [unseen.predict(self, left, right)]
        if interval is not None:
            half = intervals.half_width(self, left, right, interval)
            answers += [answers[0] - half, answers[0] + half]
        if clip:
            answers = [np.clip(answer, *self.range_) for answer in answers]
        return answers[0] if interval is None else tuple(answers)

    def predict_std(self, rows: npt.ArrayLike, cols: npt.ArrayLike, noise: bool = False) -> Array:
        """Posterior standard deviation of these entries; with noise, of values that would be observed there.

        Of method "bpmf": mean +- 1.645 std holds the truth 90 times in 100 if the model is right.
        """
        check_is_fitted(self)
        if self.result_.posterior is None:
            raise InputError(
                f"Method {find(self.method).name!r} has no posterior; use method='bpmf' for standard deviations."
            )
        left, right = unseen.positions(self, rows, cols)
        return self.result_.posterior.std(left, right, noise, Workers(self.n_jobs))

    def complete(self) -> Array:
        """The whole matrix as an m x n array: what was observed as it was, the rest predicted.

        Refused with the size that it would take if that does not fit in memory.
        """
        check_is_fitted(self)
        X = self.result_.factors.dense()
        X[self.observations_.rows, self.observations_.cols] = self.observations_.values
        return X

    def score(self, X: Any, y: None = None) -> float:
        """Minus the error on the observed entries of X, root mean squared (logistic: mean loss): higher is better."""
        check_is_fitted(self)
        observations = observe(X).aligned_to(self.observations_)
        loss = losses.find(self.loss)
        predicted = self.result_.factors.predict(observations.rows, observations.cols, Workers(self.n_jobs))
        return -loss.error(predicted, loss.prepare(observations.values))
