"""Methods side by side on one data set, each tuned by the same search."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorank import registry
from lorank.errors import InputError
from lorank.estimators.completion import MatrixCompletion
from lorank.estimators.list_baselines import BASELINES, compare_lists
from lorank.observations import Observations, observe
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.registry import Method
from lorank.results_table import Table
from lorank.solvers import Status
from lorank.tuning.budgeted import budgeted_search
from lorank.tuning.path import lam_max
from lorank.tuning.search import FAILURES, Found
from lorank.tuning.trial_log import OnTrial

# Rows that are no methods: one without factors, and one that chooses everything by itself.
OFFSETS, AUTO = "offsets", "auto"


@dataclass(frozen=True)
class Comparison(Table):
    """What `compare` gives back: a table with a row for each method, best first."""

    def plot(self, path: str | Path | None = None) -> Any:
        """Error against the seconds of the chosen fit, a point for each method; saved if a path is given."""
        from matplotlib.figure import Figure

        drawn = Figure(figsize=(5.6, 4.2), layout="constrained")
        panel = drawn.add_subplot()
        name = self.columns[1]  # the error, or a measure of lists
        for row in (row for row in self.rows if row[name] is not None):
            at = row["seconds"], row[name]
            panel.plot(*at, "o")
            panel.annotate(row["method"], at, (4, 4), textcoords="offset points", fontsize=8)
        panel.set(xscale="log", xlabel="seconds of training", ylabel=f"test {name}")
        if path is not None:
            drawn.savefig(path, dpi=150)
        return drawn


def compare(
    X: Any,
    methods: Sequence[Any] | None = None,
    *,
    ranks: Sequence[int] = (5, 10),
    trials: int = 32,
    budget: float = 60.0,
    validation: float = 0.2,
    test: float = 0.2,
    seed: int = 0,
    tol: float = 1e-4,
    biases: bool = False,
    n_jobs: int | None = None,
    row_side: Any = None,
    col_side: Any = None,
    features: str | None = None,
    on_trial: OnTrial | None = None,
    goal: str = "values",
    metric: str = "ndcg@10",
    times: Any = None,
) -> Comparison:
    """Fit each method to the same training entries, choose its parameters on the same validation entries, test it once.

    The search is the same for all (`lorank.tuning.budgeted`): a logarithmic path of strengths for each rank and
    each value of the method's second parameter, then ever smaller steps around the best. A method that fails or runs
    out of time is a row with the reason.

    Parameters
    ----------
    X : anything that MatrixCompletion.fit takes
    methods : names, methods, regularizers or their classes, as for MatrixCompletion
        The whole catalogue by default, and "offsets": a mean and offsets of rows and columns alone, which whatever else
        is fitted should be better than. "auto" is `MatrixCompletion()`, with a search of its own. The sampler ("bpmf")
        has a fit for each rank, since it tunes nothing else.
        What a regularizer has as its own is kept, and lam and rank are searched; for a name or a class, the other
        parameters are searched as well.
    ranks : ranks to try, where they fit the matrix
    trials : fits for each method, at most
    budget : seconds for each method's search
    validation, test : parts of the entries that are held out
    seed : of the splits and the starts
    tol, biases, n_jobs, row_side, col_side, features : as for MatrixCompletion
    on_trial : function of (done, expected), optional
        Called after each fit.

    goal, metric : with goal="ranking" lists are compared by this measure
        The methods are then those that can rank, and "most popular", "item-item" and "ease"; by default "nnfn" and
        these three. A fifth of each row's entries is the test part.
    times : as for MatrixCompletion.fit, optional
        With goal="ranking": what came last in each row is the test part, and what came last before it decides.

    Returns
    -------
    Comparison
        Columns method, error (root mean squared, on the test entries), validation, rank, seconds (of the chosen fit),
        search (seconds of all fits), trials, parameters, reason.
    """
    if trials < 1 or not budget > 0:
        raise InputError(f"A comparison needs at least one trial and some seconds; got {trials=}, {budget=}.")
    if not (validation > 0 and test > 0 and validation + test < 1):
        raise InputError(
            f"validation and test must be positive and leave something to train on; got {validation}, {test}."
        )
    if goal == "ranking":
        options: dict[str, Any] = {"n_jobs": n_jobs, "on_trial": on_trial, "times": times}
        return Comparison(compare_lists(observe(X), methods, test=test, metric=metric, seed=seed, **options))
    if goal != "values":
        raise InputError(f"goal must be 'values' or 'ranking'; got {goal!r}.")
    if times is not None:
        raise InputError("times are for lists: give goal='ranking' too, or leave them out.")
    lists = [method for method in methods or () if isinstance(method, str) and method in BASELINES]
    if lists:
        raise InputError(f"{lists[0]!r} makes lists and predicts no values: give goal='ranking' too, or leave it out.")
    named = [OFFSETS, *registry.CATALOGUE] if methods is None else list(methods)
    words = [method for method in named if isinstance(method, str) and method in (OFFSETS, AUTO)]
    chosen = [registry.find(method) for method in named if not (isinstance(method, str) and method in words)]
    rest, tested = observe(X).split(test, seed)
    parts = rest.split(validation / (1 - test), seed)
    usable = [rank for rank in ranks if rank <= min(rest.shape)]
    if not usable and chosen:
        raise InputError(f"No rank of {tuple(ranks)} fits a matrix of {rest.shape[0]} x {rest.shape[1]}.")
    common: dict[str, Any] = {"tol": tol, "biases": biases, "n_jobs": n_jobs, "random_state": seed}
    common |= {"row_side": row_side, "col_side": col_side, "features": features}
    # A method without a weight has a fit for each rank.
    expected = [trials if method.tunes else len(usable) for method in chosen]
    rows = [offsets_row(*parts, tested)] if OFFSETS in words else []
    if AUTO in words:
        known = {"row_side": row_side, "col_side": col_side, "n_jobs": n_jobs, "random_state": seed}
        rows.append(auto_row(*parts, tested, MatrixCompletion(**known, max_seconds=budget)))
    for index, method in enumerate(chosen):
        tell = None if on_trial is None else partial(_tell, on_trial, sum(expected[:index]), sum(expected))
        rows.append(row_of(method, *parts, tested, usable, trials, budget, common, tell))
    return Comparison(sorted(rows, key=lambda row: np.inf if row["error"] is None else row["error"]))


def offsets_row(train: Observations, checked: Observations, tested: Observations) -> dict[str, Any]:
    """The row of offsets alone, by empirical Bayes: nothing is searched."""
    started = time.perf_counter()
    found = empirical_bayes_offsets(train)
    seconds = time.perf_counter() - started
    checked_error, error = (
        float(np.sqrt(np.mean((found.predict(part.rows, part.cols) - part.values) ** 2))) for part in (checked, tested)
    )
    row: dict[str, Any] = {"method": OFFSETS, "error": error, "validation": checked_error, "rank": 0}
    return row | {"seconds": seconds, "search": seconds, "trials": 1, "parameters": {}, "reason": ""}


def auto_row(
    train: Observations, checked: Observations, tested: Observations, model: MatrixCompletion
) -> dict[str, Any]:
    """The row of a model that chooses everything by itself, on the validation part like all others."""
    started = time.perf_counter()
    model.fit(train, validation=checked)
    row: dict[str, Any] = {"method": AUTO, "error": -model.score(tested), "validation": -model.score(checked)}
    chosen = {"method": str(model.model_.params["method"]), "setting": str(model.setting_)}
    row |= {"rank": model.rank_, "seconds": model.result_.seconds, "search": time.perf_counter() - started}
    return row | {"trials": len(model.tuning_), "parameters": chosen, "reason": ""}


def _tell(on_trial: OnTrial, before: int, expected: int, done: int) -> None:
    if before + done:
        on_trial(before + done, expected)


def row_of(
    method: Method,
    train: Observations,
    checked: Observations,
    tested: Observations,
    ranks: Sequence[int],
    trials: int,
    budget: float,
    common: dict[str, Any],
    tell: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """The row of one method: the best of its fits on the validation part, judged once on the test part.

    `tell` hears before each fit how many are done.
    """
    best: MatrixCompletion | None = None
    best_error, done = np.inf, 0

    def error(parameters: Mapping[str, Any], seconds: float) -> float:
        nonlocal best, best_error, done
        if tell is not None:
            tell(done)
        done += 1
        model = MatrixCompletion(**method.arguments(parameters), **common, max_seconds=seconds).fit(train)
        reached = -model.score(checked)
        if reached < best_error:
            best, best_error = model, reached
        return reached

    row: dict[str, Any] = {"method": str(method)}
    started = time.perf_counter()
    try:
        found = budgeted_search(error, method, ranks, lam_max(train, common["biases"]) / 2, trials, budget)
    except FAILURES as problem:
        row |= dict.fromkeys(("error", "validation", "rank", "seconds"))
        row |= {"search": time.perf_counter() - started, "trials": 0, "parameters": None}
        return row | {"reason": f"failed: {problem}"}
    assert best is not None
    return row | {
        "error": -best.score(tested),
        "validation": found.error,
        "rank": best.rank_,
        "seconds": best.result_.seconds,
        "search": found.seconds,
        "trials": len(found.trials),
        "parameters": found.parameters,
        "reason": _reason(best, found, trials, float(np.sqrt(np.mean((checked.values - train.mean) ** 2)))),
    }


def _reason(best: MatrixCompletion, found: Found, trials: int, plain: float) -> str:
    """Why a row is not what it might be: it diverged, is worse than the mean of all values, or had no more time."""
    said = []
    if best.result_.status is Status.DIVERGED:
        said.append("diverged")
    elif not found.error < plain:
        said.append(f"no better than the mean of all training values, which has {plain:.4g}: it fits noise here")
    if found.out_of_time:
        said.append(f"out of time after {len(found.trials)} of {trials} trials")
    return "; ".join(said)
