"""What keeps lists honest: the most popular columns, columns like those that a row has, and EASE.

Each gives scores of all columns for a block of rows; none of them is of low rank. Item-item and EASE hold an n x n
array, so that they are for matrices of up to some ten thousand columns.

Steck, "Embarrassingly shallow autoencoders for sparse data", WWW 2019.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lorank import registry
from lorank.errors import InputError
from lorank.estimators.completion import MatrixCompletion
from lorank.estimators.parameters import DEFAULT_METHOD
from lorank.estimators.ranking_goal import parse_metric
from lorank.memory import check_memory
from lorank.models.list_metrics import METRICS
from lorank.models.preferences import Grades
from lorank.models.ranking_metrics import hits, relevant_part
from lorank.observations import Observations, observe
from lorank.observations.splits import hold_out_of_rows
from lorank.tuning.ranking import judged_rows, lists_of, scores_of
from lorank.tuning.trial_log import OnTrial
from lorank.types import Array

# Scores of all columns for some rows.
Scores = Callable[[Array], Array]
# Columns up to which an n x n array is made.
MOST_COLUMNS = 20_000


def most_popular(train: Observations) -> Scores:
    """Every row likes what most rows have."""
    counts = np.diff(train.by_col.pointers).astype(np.float64)
    return lambda rows: np.tile(counts, (rows.size, 1))


def item_item(train: Observations, power: float = 0.5) -> Scores:
    """A column is liked as much as it is like those that the row has: counts together / (counts apart)^power."""
    R, gram = _together(train)
    counts = np.maximum(gram.diagonal(), 1e-12)
    weights = gram / np.outer(counts, counts) ** power
    np.fill_diagonal(weights, 0)
    return lambda rows: np.asarray(R[rows] @ weights)


def ease(train: Observations, lam: float) -> Scores:
    """B = argmin ||R - R B||^2 + lam ||B||^2 with a zero diagonal: B_ij = -P_ij / P_jj, P = (R^T R + lam I)^-1."""
    R, gram = _together(train)
    gram[np.diag_indices_from(gram)] += lam
    inverse = np.linalg.inv(gram)
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0)
    return lambda rows: np.asarray(R[rows] @ weights)


def _together(train: Observations) -> tuple[Any, Array]:
    n = train.shape[1]
    if n > MOST_COLUMNS:
        raise InputError(f"It holds an array of all pairs of columns, and there are {n}; {MOST_COLUMNS} are the most.")
    check_memory(32 * n * n, f"A model of all pairs of {n} columns")
    R = Grades.of(train, 1.0).apply(train).to_sparse()
    return R, np.asarray((R.T @ R).todense(), np.float64)


# Settings that are tried of each.
BASELINES: dict[str, tuple[Callable[..., Scores], Sequence[Mapping[str, float]]]] = {
    "most popular": (most_popular, ({},)),
    "item-item": (item_item, tuple({"power": power} for power in (0.0, 0.5, 1.0))),
    "ease": (ease, tuple({"lam": lam} for lam in (30.0, 100.0, 300.0, 1000.0))),
}


def compare_lists(
    X: Observations,
    methods: Sequence[Any] | None = None,
    *,
    test: float = 0.2,
    metric: str = "ndcg@10",
    seed: int = 0,
    n_jobs: int | None = None,
    on_trial: OnTrial | None = None,
    times: Any = None,
) -> list[dict[str, Any]]:
    """goal="ranking" and the baselines, each chosen on a fifth of the same training part and tested once; best first.

    Entries are held out at random, or are the last ones of each row where there are times. Columns: method, the metric
    on the test part, its value in the search, seconds of the last fit, parameters, reason.
    """
    name, k = parse_metric(metric)
    # Before anything is fitted: a name that nobody knows is said at once.
    chosen = [
        method if isinstance(method, str) and method in BASELINES else registry.find(method)
        for method in ((DEFAULT_METHOD, *BASELINES) if methods is None else methods)
    ]
    when = None if times is None else observe(times).aligned_to(X)
    rest, tested = hold_out_of_rows(X, test, seed, when)
    # The times of the training part: held out by themselves, the same entries go.
    left = None if when is None else hold_out_of_rows(when, test, seed, when)[0]
    train, checked = hold_out_of_rows(rest, 0.2, seed + 1, left)

    def score(scores: Scores, seen: Observations, held_out: Observations) -> float:
        wanted = relevant_part(held_out, seen)
        rows = judged_rows(wanted, seed)
        right = hits(lists_of(scores, seen, rows, k), wanted, rows)
        return float(METRICS[name](right, np.diff(wanted.by_row.pointers)[rows]).mean())

    def of_model(method: Any) -> dict[str, Any]:
        model = MatrixCompletion(method, goal="ranking", metric=metric, random_state=seed, n_jobs=n_jobs)
        model.fit(rest, on_trial=on_trial, times=left)
        return {
            metric: score(scores_of(model.model_.factors), rest, tested),
            "validation": 1 - model.tuning_.chosen.error,
            "seconds": model.result_.seconds,
            "parameters": model.setting_.facts(),
        }

    def of_baseline(baseline: str) -> dict[str, Any]:
        fit, settings = BASELINES[baseline]
        tried = [(score(fit(train, **setting), train, checked), setting) for setting in settings]
        validation, setting = max(tried, key=lambda pair: pair[0])
        began = time.perf_counter()
        scores = fit(rest, **setting)
        seconds = time.perf_counter() - began
        found = score(scores, rest, tested)
        return {metric: found, "validation": validation, "seconds": seconds, "parameters": dict(setting)}

    rows: list[dict[str, Any]] = []
    for method in chosen:
        row: dict[str, Any] = {"method": method if isinstance(method, str) else method.name}
        try:
            row |= of_baseline(method) if isinstance(method, str) else of_model(method)
            rows.append(row | {"reason": ""})
        except InputError as refusal:
            rows.append(row | dict.fromkeys((metric, "validation", "seconds", "parameters")) | {"reason": str(refusal)})
    return sorted(rows, key=lambda row: -np.inf if row[metric] is None else row[metric], reverse=True)
