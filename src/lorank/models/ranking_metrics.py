"""How good the top of a model's lists is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.models import list_metrics
from lorank.models.contents import contents_of
from lorank.models.preferences import is_constant
from lorank.models.recommending import top_columns
from lorank.observations import Observations, observe
from lorank.types import Array

# Values of which a smaller part than this is at or above their mean are counts.
FEW = 0.25
# Measures of each list, and of all lists together.
ALL_METRICS = (*list_metrics.METRICS, "coverage", "novelty", "calibration")


def ranking_scores(
    model: Any,
    test: Any,
    k: int = 10,
    relevant: float | None = None,
    advance: Callable[[int], None] | None = None,
    metrics: str | Iterable[str] = ("ndcg", "recall"),
    popular: bool = False,
) -> dict[str, float]:
    """NDCG@k, recall@k and other measures, averaged over the rows that have something relevant in `test`.

    All columns that were not observed in a row compete for its k places. Those with a test value of at least `relevant`
    (by default the mean of the training values; every value where those do not tell good from bad) are right.
    `lorank.models.list_metrics` has the formulas.

    Parameters
    ----------
    model : Model or fitted estimator, with its data
    test : Observations, or whatever `fit` takes
        Matched with the model by id where there are ids; entries of rows and columns that it does not know are left
        out.
    metrics : names, or "all"
        "ndcg", "recall", "precision", "map", "mrr", and of all lists together "coverage" (the part of the columns that
        is in any list), "novelty" (mean of -log2 of the share of rows that know a column) and "calibration" (distance
        from the popularity of what rows take, 0 to 1).
    popular : bool
        Judge lists of the most popular columns instead, which any model should beat.
    """
    contents, metrics = contents_of(model), find_metrics(metrics)
    if k < 1:
        raise InputError(f"k must be at least 1; got {k}.")
    known = known_entries(observe(test), contents)
    wanted = known.subset(known.values >= (relevant_from(contents) if relevant is None else relevant))
    rows = np.flatnonzero(np.diff(wanted.by_row.pointers))
    if not rows.size:
        raise InputError("No test value is high enough to be relevant; lower the threshold.")
    if popular:
        if contents.observations is None:
            raise InputError("What is popular is known by the data that the model was fitted on, which was not saved.")
        return _measured(most_popular(contents.observations, rows, k), wanted, rows, contents.observations, metrics)
    lists = np.full((rows.size, k), -1)
    done = 0
    for _, scores, best in top_columns(contents, rows, k, seen=False, advance=advance):
        lists[done : done + len(best), : best.shape[1]] = np.where(np.isfinite(scores), best, -1)
        done += len(best)
    return _measured(lists, wanted, rows, contents.observations, metrics)


def most_popular(train: Observations, rows: Array, k: int) -> Array:
    """The k columns with the most entries that each row has not seen; -1 where there are no more."""
    order = np.argsort(-column_counts(train), kind="stable")
    lists = np.full((rows.size, k), -1)
    for i, row in enumerate(rows):
        seen = train.by_row.indices[train.by_row.pointers[row] : train.by_row.pointers[row + 1]]
        best = order[: seen.size + k]
        best = best[~np.isin(best, seen)][:k]
        lists[i, : best.size] = best
    return lists


def column_counts(train: Observations) -> Array:
    """Entries of each column; by rows, which models in shards have alone."""
    return np.bincount(np.asarray(train.by_row.indices), minlength=train.shape[1])


def _measured(
    lists: Array, wanted: Observations, rows: Array, seen: Observations | None, metrics: Iterable[str]
) -> dict[str, float]:
    right, counts, k = hits(lists, wanted, rows), np.diff(wanted.by_row.pointers)[rows], lists.shape[1]
    answers = {}
    for name in metrics:
        if name in list_metrics.METRICS:
            answers[f"{name}@{k}"] = float(list_metrics.METRICS[name](right, counts).mean())
            continue
        if seen is None:
            raise InputError(f"{name} needs the data that the model was fitted on, which was not saved with it.")
        popular = column_counts(seen)
        if name == "coverage":
            answers[f"{name}@{k}"] = list_metrics.coverage(lists, wanted.shape[1])
        elif name == "novelty":
            answers[f"{name}@{k}"] = list_metrics.novelty(lists, popular, wanted.shape[0])
        else:
            answers[f"{name}@{k}"] = list_metrics.calibration(lists, popular)
    return answers


def find_metrics(wanted: str | Iterable[str]) -> tuple[str, ...]:
    """Names of measures, checked: a list of them, a text with commas between, or "all"."""
    if wanted == "all":
        return ALL_METRICS
    names = tuple(name.strip() for name in (wanted.split(",") if isinstance(wanted, str) else wanted))
    for name in names:
        if name not in ALL_METRICS:
            raise InputError(f"Unknown metric {name!r}; there are {', '.join(ALL_METRICS)}.")
    return names


def known_entries(test: Observations, model: Any) -> Observations:
    """The entries of rows and columns that a model knows, in its numbering."""
    if test.row_ids is None or test.col_ids is None or model.row_ids is None or model.col_ids is None:
        if test.shape != model.shape:
            raise InputError(
                f"The test data is of a {test.shape[0]} x {test.shape[1]} matrix without ids, and the model of "
                f"{model.shape[0]} x {model.shape[1]}; give both ids, or the same shape."
            )
        return test
    rows = model.row_ids.find(test.row_ids.values)[test.rows]
    cols = model.col_ids.find(test.col_ids.values)[test.cols]
    known = (rows >= 0) & (cols >= 0)
    weights = None if test.weights is None else test.weights[known]
    entries = rows[known], cols[known], test.values[known]
    return Observations.from_coo(*entries, model.shape, model.row_ids, model.col_ids, weights)


def hits(lists: Array, wanted: Observations, rows: Array) -> Array:
    """Which places of the lists of these rows hold a wanted column; (rows, k), boolean."""
    n = wanted.shape[1]
    # Pairs as numbers, so that one sorted search finds all hits.
    pairs = wanted.rows.astype(np.int64) * n + wanted.cols
    found = rows[:, None].astype(np.int64) * n + lists
    places = np.minimum(np.searchsorted(pairs, found), pairs.size - 1)
    return np.asarray((lists >= 0) & (pairs[places] == found))


def relevant_part(held_out: Observations, train: Observations) -> Observations:
    """The held-out entries that a list should have: those at or above the mean of the training values.

    All of them, where values do not tell good from bad: if they are the same, or counts of which few reach their mean.
    """
    return held_out if _values_say_nothing(train) else held_out.subset(held_out.values >= train.mean)


def relevant_from(model: Any) -> float:
    """The least value that a list should have, by the same rule, -inf for all; a folder is not read for that."""
    train = None if model.sharded else model.observations
    return -np.inf if train is not None and _values_say_nothing(train) else float(model.mean)


def _values_say_nothing(train: Observations) -> bool:
    return bool(np.mean(train.values >= train.mean) < FEW) or is_constant(train)
