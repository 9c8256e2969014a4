"""Methods side by side on one data set, each tuned by the same search."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank import catalogue
from lorank.catalogue import Method
from lorank.errors import InputError, MemoryLimitError
from lorank.estimators.completion import MatrixCompletion
from lorank.estimators.record import Tell
from lorank.kernels import Workers
from lorank.linalg import Factors, SparsePlusLowRank, truncated_svd
from lorank.observations import Observations, observe
from lorank.tables import Table

# The strengths of a search run from a half of the strongest singular value of the data down by this factor.
RANGE = 1000.0
# A path has at least this many strengths.
SHORTEST = 6
# How much a path stirs the factors between two strengths, as a part of the data's scale.
STIR = 0.05
# What a fit may raise that makes a row instead of ending the comparison.
FAILURES = (InputError, MemoryLimitError, MemoryError, ArithmeticError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Comparison(Table):
    """What `compare` gives back: a table with a row for each method, best first."""

    def plot(self, path: str | Path | None = None) -> Any:
        """Error against the seconds of the chosen fit, a point for each method; saved if a path is given."""
        from lorank.plots import COLOURS, figure

        drawn, (panel,) = figure(1)
        done = [row for row in self.rows if row["error"] is not None]
        for index, row in enumerate(done):
            panel.plot(row["seconds"], row["error"], "o", color=COLOURS[index % len(COLOURS)])
            panel.annotate(
                row["method"], (row["seconds"], row["error"]), (4, 4), textcoords="offset points", fontsize=8
            )
        panel.set(xscale="log", xlabel="seconds of training", ylabel="test error")
        if path is not None:
            drawn.savefig(path, dpi=150)
        return drawn


def compare(
    X: Any,
    methods: Sequence[str] | None = None,
    *,
    ranks: Sequence[int] = (5, 10),
    trials: int = 24,
    budget: float = 60.0,
    validation: float = 0.2,
    test: float = 0.2,
    seed: int = 0,
    tol: float = 1e-4,
    biases: bool = False,
    n_jobs: int | None = None,
    on_trial: Tell | None = None,
) -> Comparison:
    """Fit each method to the same training entries, choose its parameters on the same validation entries, test it once.

    The search is the same for all: for each rank and each value of the method's second parameter, a logarithmic path of
    strengths, each fit started from the last. A strength is the size of a singular value that a proximal step sets to
    0, so that it means the same to every method. A method that fails or runs out of time is a row with the reason.

    Parameters
    ----------
    X : anything that MatrixCompletion.fit takes
    methods : names of the catalogue; all by default
    ranks : ranks to try, where they fit the matrix
    trials : fits for each method, at most
    budget : seconds for each method's search
    validation, test : parts of the entries that are held out
    seed : of the splits and the starts
    tol, biases, n_jobs : as for MatrixCompletion
    on_trial : function of (done, expected), optional
        Called after each fit.

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
    names = list(catalogue.CATALOGUE) if methods is None else list(methods)
    chosen = [catalogue.find(name) for name in names]
    rest, tested = observe(X).split(test, seed)
    train, checked = rest.split(validation / (1 - test), seed)
    usable = [rank for rank in ranks if rank <= min(train.shape)]
    if not usable:
        raise InputError(f"No rank of {tuple(ranks)} fits a matrix of {train.shape[0]} x {train.shape[1]}.")
    top = strongest(train, n_jobs) / 2
    common = {"tol": tol, "biases": biases, "n_jobs": n_jobs, "random_state": seed}
    searches = [Search(method, train, checked, usable, trials, budget, top, common) for method in chosen]
    expected, before = sum(len(search.plan()) for search in searches), 0
    rows = []
    for search in searches:
        rows.append(search.run(tested, on_trial, before, expected))
        before += len(search.plan())
    return Comparison(sorted(rows, key=lambda row: np.inf if row["error"] is None else row["error"]))


def strongest(observations: Observations, n_jobs: int | None = None) -> float:
    """The largest singular value of the observations, with 0 where nothing was seen."""
    m, n = observations.shape
    empty = np.zeros((m, 0), observations.dtype), np.zeros((n, 0), observations.dtype)
    workers = Workers(n_jobs)
    operator = SparsePlusLowRank(*empty, observations.by_row, observations.by_col, workers)
    found = truncated_svd(operator, empty[1], np.inf, 1, np.random.default_rng(0))
    workers.close()
    return float(found.sigma[0])


@dataclass
class Search:
    """All fits of one method."""

    method: Method
    train: Observations
    checked: Observations
    ranks: Sequence[int]
    trials: int
    budget: float
    top: float
    common: dict[str, Any]

    def run(self, tested: Observations, tell: Tell | None, before: int, expected: int) -> dict[str, Any]:
        """The row of the method; `tell` hears how many fits are done, with those before this search."""
        best: MatrixCompletion | None = None
        last: MatrixCompletion | None = None
        best_error, best_parameters = np.inf, None
        done, late, failed = 0, "", ""
        started = time.perf_counter()
        for index, (parameters, fresh) in enumerate(self.plan()):
            if tell is not None and before + index:
                tell(before + index, expected)
            left = self.budget - (time.perf_counter() - started)
            if left <= 0:
                late = f"out of time after {done} trials"
                break
            model = MatrixCompletion(self.method.name, **parameters, **self.common, max_seconds=left)
            start = None if fresh or last is None else self.start(last, parameters["rank"])
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(self.train, start=start)
            except FAILURES as problem:
                failed = f"failed: {problem}"
                continue
            last = model
            done += 1
            error = -model.score(self.checked)
            if error < best_error:
                best, best_error, best_parameters = model, error, parameters
        return {
            "method": self.method.name,
            "error": None if best is None else -best.score(tested),
            "validation": None if best is None else best_error,
            "rank": None if best is None else best.rank_,
            "seconds": None if best is None else best.result_.seconds,
            "search": time.perf_counter() - started,
            "trials": done,
            "parameters": best_parameters,
            # One trial that could not be done is no reason if others could.
            "reason": late or (failed if best is None else ""),
        }

    def start(self, last: MatrixCompletion, rank: int) -> MatrixCompletion | None:
        """The last fit, to go on from: strong directions came first, and weaker ones must be able to enter.

        Directions of factors that are 0 stay 0, so a solver that cannot bring them to life gets all of them stirred.
        """
        path = getattr(self.method.build_solver("auto"), "path", "anew")  # a sampler has none
        if path != "stir":
            return last if path == "follow" else None
        old = last.result_.factors
        rng = np.random.default_rng(rank)
        scale = STIR * np.sqrt(np.mean(np.abs(self.train.values)) / np.sqrt(rank))
        sides = []
        for side in (old.W, old.H):
            stirred = scale * rng.standard_normal((len(side), rank))
            stirred[:, : old.k] += side
            sides.append(stirred.astype(side.dtype))
        rows, cols = (old.row_bias, old.col_bias) if old.biased else (None, None)
        stirred_model = copy(last)
        stirred_model.result_ = replace(last.result_, factors=Factors.of(sides[0], sides[1], rows, cols, old.offset))
        return stirred_model

    def plan(self) -> list[tuple[dict[str, Any], bool]]:
        """Parameters of each fit in order, and whether it starts anew."""
        method = self.method
        # With few trials fewer paths, and not shorter ones: a path that ends while its weight is large tells nothing.
        paths = [(rank, shape) for rank in reversed(self.ranks) for shape in method.shapes]
        paths = paths[: max(1, self.trials // SHORTEST)]
        length = max(1, self.trials // len(paths)) if method.weighted else 1
        strengths = self.top * RANGE ** -np.linspace(0, 1, length)
        plan = []
        for rank, shape in paths:
            for index, strength in enumerate(strengths):
                plan.append(({"rank": rank, **method.at(float(strength), shape)}, index == 0))
        return plan
