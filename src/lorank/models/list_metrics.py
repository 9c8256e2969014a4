"""Measures of lists, from which places of each list are right.

right (rows, k) says which of the k places of a row's list hold something relevant, best first; wanted (rows,) how many
relevant columns there were to find, at least one.

    precision = right ones / k                recall = right ones / wanted
    NDCG = sum_{t right} 1 / log2(1 + t) / (the same sum if the right ones came first)
    MAP = sum_{t right} (precision of the first t places) / min(wanted, k)
    MRR = 1 / (place of the first right one)
"""

from __future__ import annotations

import numpy as np

from lorank.errors import InputError
from lorank.types import Array


def ndcg(right: Array, wanted: Array) -> Array:
    """Normalised discounted cumulative gain of each list (Jarvelin, Kekalainen, ACM TOIS 20(4), 2002)."""
    discounts = 1 / np.log2(np.arange(2, right.shape[1] + 2))
    best = np.cumsum(discounts)[np.minimum(wanted, right.shape[1]) - 1]
    return np.asarray((right @ discounts) / best)


def recall(right: Array, wanted: Array) -> Array:
    """The part of the relevant columns that is in each list."""
    return np.asarray(right.sum(axis=1) / wanted)


def precision(right: Array, wanted: Array) -> Array:
    """The part of each list that is relevant."""
    return np.asarray(right.mean(axis=1))


def average_precision(right: Array, wanted: Array) -> Array:
    """The mean of the precisions at the places of the right ones; its mean over rows is MAP."""
    precisions = np.cumsum(right, axis=1) / np.arange(1, right.shape[1] + 1)
    return np.asarray((right * precisions).sum(axis=1) / np.minimum(wanted, right.shape[1]))


def reciprocal_rank(right: Array, wanted: Array) -> Array:
    """1 / the place of the first right one, 0 without any; its mean over rows is MRR."""
    first = np.argmax(right, axis=1)
    return np.where(right.any(axis=1), 1 / (1 + first), 0.0)


# By the names under which they are reported and asked for.
METRICS = {"ndcg": ndcg, "recall": recall, "precision": precision, "map": average_precision, "mrr": reciprocal_rank}


def find_metric(name: str) -> str:
    """The name of a metric, checked."""
    if name not in METRICS:
        raise InputError(f"Unknown metric {name!r}; there are {', '.join(METRICS)}.")
    return name


def coverage(lists: Array, columns: int) -> float:
    """The part of all columns that are in at least one list; places without a column hold -1."""
    return float(np.unique(lists[lists >= 0]).size / columns)


def novelty(lists: Array, counts: Array, rows: int) -> float:
    """The mean of -log2(share of the rows that know a column) over all places: how far from what everybody knows."""
    shares = np.maximum(counts, 1) / rows
    return float(-np.log2(shares[lists[lists >= 0]]).mean())


def calibration(lists: Array, counts: Array) -> float:
    """How far lists are from the popularity of what rows take: the total variation distance, 0 (same) to 1.

    Columns are put into ten groups that hold a tenth of the observed entries each, from the most popular on; the
    distance is that between the lists' shares of the groups and a tenth.
    """
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    group = np.empty(counts.size, np.int64)
    group[order] = np.minimum(10 * before // max(int(counts.sum()), 1), 9)
    taken = np.bincount(group, weights=counts, minlength=10) / counts.sum()
    listed = np.bincount(group[lists[lists >= 0]], minlength=10) / np.count_nonzero(lists >= 0)
    return float(np.abs(taken - listed).sum() / 2)
