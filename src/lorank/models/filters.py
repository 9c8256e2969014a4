"""Which columns may be listed, for all rows or row by row, and lists whose columns are not all alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.models.contents import Contents
from lorank.types import Array

# How many candidates a diverse list is chosen from: so many times its length, and at least so many.
CANDIDATES, LEAST_CANDIDATES = 5, 50


@dataclass(frozen=True)
class Filters:
    """Columns that may be listed.

    Attributes
    ----------
    open : bool array (n,) or None
        For every row; None if all are.
    allowed, denied : mapping
        Positions of columns by position of a row, for rows with lists of their own.
    """

    open: Array | None = None
    allowed: Mapping[int, Array] = field(default_factory=dict)
    denied: Mapping[int, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Contents, allow: Any, deny: Any, min_count: int) -> Filters:
        """From what users give: columns for all rows, or a mapping from a row to columns.

        Columns with fewer than `min_count` observed entries are left out. An id that the model does not know is an
        error if it is allowed; nothing follows from it if it is denied.
        """
        if min_count < 0:
            raise InputError(f"min_count must not be negative; got {min_count}.")
        n, shut = model.shape[1], np.zeros(model.shape[1], bool)
        by_row: list[dict[int, Array]] = [{}, {}]
        if isinstance(allow, Mapping):
            by_row[0] = _by_row(model, allow, refuse=True)
        elif allow is not None:
            shut[:] = True
            shut[model.find(allow, 1)] = False
        if isinstance(deny, Mapping):
            by_row[1] = _by_row(model, deny, refuse=False)
        elif deny is not None:
            shut[_known(model, deny)] = True
        if min_count:
            if model.observations is None:
                raise InputError(
                    "This model was saved without its data, so that entries cannot be counted for min_count."
                )
            shut |= np.bincount(np.asarray(model.observations.by_row.indices), minlength=n) < min_count
        return cls(~shut if shut.any() else None, *by_row)

    def apply(self, scores: Array, block: Array, start: int) -> None:
        """Put -inf where a column may not be listed: scores (rows of the block, columns from `start` on)."""
        end = start + scores.shape[1]
        if self.open is not None:
            scores[:, ~self.open[start:end]] = -np.inf
        if not (self.allowed or self.denied):
            return
        for line, row in enumerate(block.tolist()):
            if row in self.allowed:
                own = self.allowed[row]
                own = own[(own >= start) & (own < end)] - start
                kept = scores[line, own]
                scores[line] = -np.inf
                scores[line, own] = kept
            if row in self.denied:
                own = self.denied[row]
                scores[line, own[(own >= start) & (own < end)] - start] = -np.inf


def _by_row(model: Contents, given: Mapping[Any, Any], refuse: bool) -> dict[int, Array]:
    rows = model.find(list(given), 0, refuse=refuse).tolist() if given else []
    lists = (model.find(cols, 1) if refuse else _known(model, cols) for cols in given.values())
    return {row: cols for row, cols in zip(rows, lists) if row >= 0}


def _known(model: Contents, cols: Any) -> Array:
    found = model.find(cols, 1, refuse=False)
    return found[found >= 0]


def diverse(scores: Array, factor: Array, n: int, diversity: float) -> Array:
    """Places of n columns that are good and unlike each other, by maximal marginal relevance.

        next = argmax over columns left of (1 - diversity) score_j - diversity max over those chosen of cos(h_j, h_c)

    with the scores brought to [0, 1].

    Parameters
    ----------
    scores : (candidates,), descending; -inf where there is no column
    factor : (candidates, k), those of the columns

    J. Carbonell, J. Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
    """
    there = np.flatnonzero(np.isfinite(scores))
    if not there.size:
        return there
    spread = scores[there[0]] - scores[there[-1]]
    relevance = (scores[there] - scores[there[-1]]) / (spread if spread > 0 else 1.0)
    lines = factor[there]
    lines = lines / np.maximum(np.linalg.norm(lines, axis=1, keepdims=True), np.finfo(lines.dtype).tiny)
    closest, chosen = np.full(there.size, -1.0), [0]
    while len(chosen) < min(n, there.size):
        closest = np.maximum(closest, lines @ lines[chosen[-1]])
        worth = (1 - diversity) * relevance - diversity * closest
        worth[chosen] = -np.inf
        chosen.append(int(np.argmax(worth)))
    return there[chosen]
