"""MatrixCompletion: fit what was seen, predict what was not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.utils import check_random_state

from lorank import losses
from lorank.errors import InputError
from lorank.estimators import choosing, ranking_goal, running
from lorank.estimators.answering import ModelEstimator
from lorank.estimators.memory import check_fit_memory
from lorank.estimators.parameters import DEFAULT_MAX_ITER, DEFAULT_TOL, OWN, SIDES, Parameters
from lorank.estimators.several import solve_all
from lorank.estimators.sides import bind_sides
from lorank.models import Model, Setting
from lorank.models.contents import contents_of
from lorank.models.folding import refuse_mean
from lorank.models.intervals import calibrate
from lorank.models.updating import grown, grown_names
from lorank.observations import Observations, observe
from lorank.solvers import Callback
from lorank.solvers.checkpoint import claiming
from lorank.tuning.held_out import parts_of, setting_of
from lorank.tuning.trial_log import OnTrial
from lorank.tuning.trials import Trials

# After a search on several parts of the data the last fit has a tolerance so many times smaller.
FINER = 100


class MatrixCompletion(ModelEstimator):
    """Complete a matrix from its observed entries, assuming low rank.

    Parameters
    ----------
    method : "auto", str, Method, regularizer, or class of regularizers
        "auto" tries several kinds of models (`lorank.tuning.choice`). What is not given is chosen on held-out entries
        where lam is, and is the method's own where lam is given: then NNFN at rank 10 without biases and features. Or
        a name of the catalogue, which `lorank.methods()` shows: "nnfn" is the factored NNFN, and "bpmf" draws
        from a posterior instead of seeking one optimum: lam and tol do not concern it, max_iter is the largest
        number of sweeps, and a validation set is only watched. Parameters of a single method are set on it, as in
        `method=SchattenP(p=0.5)`, whose lam does not count, and any regularizer of one's own will do.
    rank : int or "auto"
        Width of the factors, or the largest rank that a spectral method may take; no larger than the matrix.
    lam : float or "auto"
        Weight of the regularizer, in units of the data. Whatever is "auto" is chosen on the validation set, or on a
        tenth of X that is held out for it and then refitted with the rest (see `lorank.tuning.path`).
    theta : float or "auto", optional
        For NNFN how much of the Frobenius norm is taken off, from 0 (nuclear norm) to 1 (NNFN, the default). At 1 a
        matrix of rank one costs nothing, so the answer never falls to rank 0. Capped-l1, LSP and MCP have a theta
        of their own. None takes the method's own; a method without it refuses it.
    loss : "auto", "squared", "huber", "logistic", "ordinal", "poisson", or a Loss
        Of an entry, for the factored methods; `lorank.losses.Huber(delta=...)` sets where Huber's turns linear.
        Ordinal, which "bpmf" takes too, is for values on a scale of few levels: `predict` gives expected levels, and
        `predict_proba` the probability of each.
        Logistic is for two classes, 0 and 1 or -1 and 1: `predict` then gives the score x, and
        `scipy.special.expit(x)` is the probability of the class 1. "auto" is squared, and with effort="best" ordinal
        too is tried for values on a scale.
    solver : str or object
        "auto", or one of the method's solvers by name, or such a solver with settings of its own.
    biases : bool or "auto"
        Fit a global offset and an offset for each row and column jointly with the factors. Their ridges are those of
        empirical Bayes (`lorank.problems.offsets`), whatever lam is.
    n_fits : int
        With more than one, the mean of so many fits from different random starts: a smaller error for so many times
        the cost. It has n_fits times the rank, and takes in nothing new by `fold_in` or `partial_fit`. For "bpmf"
        they are chains, drawn side by side on the threads that there are, and the message says whether they agree.
    tol : float
        Converged when the objective changes by less than this part of itself. With goal="ranking" a fit has as many
        sweeps as the trials that chose, unless tol or max_iter are given.
    max_iter, max_seconds
        Limits; reaching one gives a ConvergenceWarning. The seconds are for all of it, of which a search takes half.
    random_state : int, RandomState or None
        Of the random start. The same number gives the same bits, on any number of threads.
    n_jobs : int or None
        Threads; None for all cores, -1 too, -2 for all but one.
    dtype : "float64" or "float32"
        Precision of factors and data; float32 halves the memory.
    verbose : bool
        Show a line of progress on standard error.
    backend : "local", "ray", or the name of one that an installed package brings
        Where the lines of the matrix are kept. "ray" keeps them in Ray actors, in the Ray that this process has joined
        before or in one that is started here. The same bits come out, also of "bpmf". A search for what is "auto" runs
        in this process.
    n_workers : int or None
        Worker processes of a backend other than "local", each with n_jobs threads (one if that is None); None for two.
    row_side, col_side : array, sparse matrix, DataFrame, Features, GraphLaplacian or KernelPrior, or several, optional
        What is known of rows or columns beside their entries: features (a line for each; a DataFrame with an index goes
        by the ids of the data, and ids that only it knows are predicted too), a graph, or a kernel. Of several in a
        list features stand side by side, graphs are added, and a kernel stands alone.
    graph_weight : float or "auto"
        Multiplies graphs and kernels. "auto" is chosen for graphs where lam is, 0 among others: a graph may say
        nothing. Else it is 1.
    features : "implicit" or None
        "implicit" adds who rated what as features of rows and columns ("bpmf": and how many did), which needs no other
        data. Features are for "bpmf" and the factored methods; how much they count is drawn by the former, and searched
        with "auto" otherwise.
    effort : "fast", "balanced" or "best"
        How much time a search for the method may take: fast tries NNFN, balanced the sampler too, and best more levels
        of values, higher ranks and more draws. `max_seconds` bounds it in seconds.
    goal : "values", "ranking" or "auto"
        "ranking" fits preferences to make lists of, from clicks or ratings, and chooses what is not given by `metric`
        on held-out entries; its predictions are preferences. "auto" does so where few entries are observed and all of
        them are the same.
    metric : str
        A measure of lists (ndcg, recall, precision, map, mrr) and their length.
    unobserved_weight, unobserved_value : float
        With a weight, every entry that was not observed is this value with this weight.
    frequency_power : float, optional
        The regularizer of a row or column grows with this power of the weight of its entries.

    Attributes
    ----------
    model_ : Model
        What was learnt, frozen: it predicts, recommends and is saved. All attributes below are read from it.
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
        method: Any = "auto",
        rank: int | str = "auto",
        lam: float | str = "auto",
        theta: float | str | None = "auto",
        loss: str | losses.Loss = "auto",
        solver: Any = "auto",
        biases: bool | str = "auto",
        n_fits: int = 1,
        tol: float = DEFAULT_TOL,
        max_iter: int = DEFAULT_MAX_ITER,
        max_seconds: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        dtype: str = "float64",
        verbose: bool = False,
        backend: str = "local",
        n_workers: int | None = None,
        row_side: Any = None,
        col_side: Any = None,
        graph_weight: float | str = "auto",
        features: str | None = "auto",
        effort: str = "balanced",
        goal: str = "auto",
        metric: str = "ndcg@10",
        unobserved_weight: float | None = None,
        unobserved_value: float = 0.0,
        frequency_power: float | None = None,
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
        self.verbose = verbose
        self.backend = backend
        self.n_workers = n_workers
        self.row_side = row_side
        self.col_side = col_side
        self.graph_weight = graph_weight
        self.features = features
        self.effort = effort
        self.goal = goal
        self.metric = metric
        self.unobserved_weight = unobserved_weight
        self.unobserved_value = unobserved_value
        self.frequency_power = frequency_power

    @classmethod
    def from_model(cls, model: Model, **params: Any) -> MatrixCompletion:
        """An estimator that was fitted as this model was, to go on from it: `from_model(lorank.load(path))`.

        `params` take the place of those that the model was fitted with; what its file could not hold must be given.
        """
        given = {**model.params, **params}
        for name in given.keys() - set(cls._get_param_names()):
            if given.pop(name) is not None:
                raise InputError(f"MatrixCompletion has no parameter {name!r}; give the method with its parameters.")
        lost = {name: what for name, what in model.lost.items() if name not in params}
        estimator = cls(**{name: value for name, value in given.items() if name not in lost})
        return estimator._keep(replace(model.loaded(), params=given, lost=lost))

    @claiming
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        validation: Any = None,
        times: Any = None,
        start: MatrixCompletion | Model | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | Path | None = None,
        on_trial: OnTrial | None = None,
    ) -> MatrixCompletion:
        """Fit the observed entries of X.

        Parameters
        ----------
        X : sparse matrix, array with NaN, DataFrame, (rows, cols, values), or Observations
        y : ignored
            There for scikit-learn, whose tools pass it.
        sample_weight : weights of the entries, optional
            An entry of weight c counts as if it were there c times: 1 / variance of its error, where that is known. Of
            a matrix in its shape, else one for each entry in its order; one of weight 0 is not observed.
        validation : the same as X, or a fraction of X to hold out, optional
            Stop when the error on it has not fallen for five iterations, and keep the best iterate. It also chooses
            what is "auto", and makes intervals possible.
        times : the same as X, with the time of each entry as its value, optional
            With goal="ranking", the last entries of each row are held out, instead of some at random.
        start : MatrixCompletion or Model, optional
            A fitted model of the same shape and rank to start from; not with "auto", which finds its own.
        callbacks : functions of a Progress
            Called after each iteration; one that returns True ends the fit.
        checkpoint : path, optional
            Saved there from time to time; a fit that was cut off goes on from it and ends as if it had not been. One
            that belongs to other data or parameters is refused.
        on_trial : function of (done, expected), optional
            Called after each trial of a search for what is "auto": how many are done, and about how many there will be.
        """
        if isinstance(y, (float, Observations)):
            raise InputError(
                "Validation data goes by its name: fit(X, validation=...); a second argument is y, not used."
            )
        began = time.perf_counter()
        asked = self._asked()
        running.find_backend(asked.backend)
        running.check_backend(asked)
        asked, observations = bind_sides(asked, observe(X, sample_weight).astype(self.dtype).to_fit())
        asked = asked.for_shape(observations.shape)
        held_out = None
        check_fit_memory(asked, observations, isinstance(validation, float) or (asked.automatic and validation is None))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if ranking_goal.applies(asked, observations):
            return self._finish(*ranking_goal.fit(asked, observations, validation, seed, callbacks, on_trial, times))
        if times is not None:
            raise InputError("times tell which entries come last where lists are the goal; give goal='ranking' too.")
        if isinstance(validation, float):
            observations, held_out = observations.split(validation, seed)
        elif validation is not None:
            held_out = observe(validation).aligned_to(observations).astype(self.dtype)
        saved = running.checkpoint_of(asked, checkpoint, observations, held_out)
        calibration, trials, lists = None, Trials([]), {}
        factors = None if start is None else contents_of(start).result.summary
        if asked.any_method and held_out is None and observations.nnz < 2:  # nothing but an offset can be learnt
            asked, setting = asked.chosen({}), Setting(1.0, 0, None, True)
        elif asked.automatic:
            parts = parts_of(observations, seed) if held_out is None else ((observations, held_out),)
            asked, tuned = choosing.tune(asked, parts, seed, saved, on_trial)
            train, part = parts[0]
            setting, trials = setting_of(tuned.parameters), tuned.trials
            factors = tuned.result.factors.astype(self.dtype)
            samples = running.build_solver(asked).samples
            lists = ranking_goal.lists_of_values(factors, train, part, seed)
            if held_out is None and (tuned.interrupted or not samples):
                fits = [(each, *some) for each, some in zip(tuned.best.starts, parts)]
                calibration = calibrate(fits, seed, self.n_jobs)
            if tuned.interrupted:
                setting = running.for_data(asked, train, setting)
                stopped = replace(tuned.result, factors=factors)
                return self._finish(asked, train, setting, stopped, calibration, trials, lists)
            if samples:  # a chain starts anew, and knows its own intervals
                factors = None
            elif len(parts) > 1:
                # Beside so many trials a last fit to the end costs little; without it the answer depends on the seed.
                asked = replace(asked, tol=asked.tol / FINER)
            asked = asked.within(time.perf_counter() - began)
        else:
            setting = running.given(asked, observations)
        setting = running.for_data(asked, observations, setting)
        result = solve_all(asked, observations, setting, factors, held_out, callbacks, saved, seed)
        if held_out is not None:
            calibration = calibrate([(result.factors, observations, held_out)], seed, self.n_jobs)
            lists = ranking_goal.lists_of_values(result.factors, observations, held_out, seed)
        return self._finish(asked, observations, setting, result, calibration, trials, lists)

    def partial_fit(self, X: Any, y: Any = None) -> MatrixCompletion:
        """Take in more observations, also of new rows and columns, and solve again from where the model stands.

        X is as for `fit`; a value for an entry that was observed before replaces it. Rows and columns that are new come
        after those of the model. What was chosen by "auto" stays, and so do the intervals.
        """
        if not hasattr(self, "model_"):
            return self.fit(X)
        model = self.model_
        refuse_mean(model, "partial_fit")
        model.need("loss", "row_side", "col_side")
        more = grown(model, observe(X))
        observations = more.observations.to_fit()
        # Features as the model has them, in the order of its lines.
        asked = self._asked().chosen(model.params)
        asked = replace(asked, row_side=model.params.get("row_side"), col_side=model.params.get("col_side"))
        setting, trials = running.for_data(asked, observations, model.setting), Trials.from_rows(model.trials)
        result = running.solve(asked, observations, setting, more.start, seed=0)
        self._finish(asked, observations, setting, result, more.calibration, trials, model.lists)
        return self._keep(replace(self.model_, **grown_names(model, observations.shape)))

    def _asked(self) -> Parameters:
        return Parameters(**self.get_params(deep=False))

    def _finish(self, asked: Parameters, *came: Any) -> MatrixCompletion:
        """Keep the model that came of a fit, with what was chosen and features in the order of the data's lines."""
        asked = asked.chosen({})
        params = {**self.get_params(deep=False), **{name: getattr(asked, name) for name in (*OWN, *SIDES)}}
        return self._keep(running.model_of(params, *came))

    def fold_in(self, X_new: Any = None, axis: int = 0, *, features: Any = None) -> MatrixCompletion:
        """A fitted estimator of rows that were not there before (columns with axis=1); see `Model.fold_in`."""
        return MatrixCompletion.from_model(self._fitted().fold_in(X_new, axis, features=features))
