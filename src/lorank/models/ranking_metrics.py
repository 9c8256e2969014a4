"""How good the top of a model's lists is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.metrics import ndcg_score

from lorank.errors import InputError
from lorank.models.contents import Contents
from lorank.models.recommending import top_columns
from lorank.observations import Observations


def ranking_scores(
    model: Contents,
    test: Observations,
    k: int = 10,
    relevant: float | None = None,
    advance: Callable[[int], None] | None = None,
) -> dict[str, float]:
    """NDCG@k and recall@k, averaged over the rows that have something relevant in `test`.

    All columns that were not observed in a row compete for its k places. Those with a test value of at least `relevant`
    (by default the mean of the training values) are right:

        recall@k = right ones among the k / all right ones
        NDCG@k = sum_{t right} 1 / log2(1 + t) / (the same sum if the right ones came first)

    Parameters
    ----------
    model : Model, with its data
    test : Observations in the rows and columns of the model (`Observations.aligned_to`)

    References
    ----------
    K. Jarvelin and J. Kekalainen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4), 2002.
    """
    if k < 1:
        raise InputError(f"k must be at least 1; got {k}.")
    wanted = test.subset(test.values >= (model.mean if relevant is None else relevant))
    counts = np.diff(wanted.by_row.pointers)
    rows = np.flatnonzero(counts)
    if not rows.size:
        raise InputError("No test value is high enough to be relevant; lower the threshold.")
    right = np.zeros((rows.size, 2 * k))
    # Pairs as numbers, so that one sorted search finds all hits.
    n = test.shape[1]
    pairs = wanted.rows.astype(np.int64) * n + wanted.cols
    done = 0
    for block, scores, best in top_columns(model, rows, k, seen=False, advance=advance):
        found = block[:, None] * n + best
        places = np.minimum(np.searchsorted(pairs, found), pairs.size - 1)
        right[done : done + len(best), : best.shape[1]] = np.isfinite(scores) & (pairs[places] == found)
        done += len(best)
    hits = right[:, :k].sum(axis=1)
    # What was missed stands behind the k places, where it counts for the best order only.
    right[:, k:] = np.arange(k) < (counts[rows] - hits)[:, None]
    order = np.broadcast_to(np.arange(2 * k, 0, -1.0), right.shape)
    return {
        f"ndcg@{k}": float(ndcg_score(right, order, k=k, ignore_ties=True)),
        f"recall@{k}": float((hits / counts[rows]).mean()),
    }
