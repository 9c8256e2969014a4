"""Best columns for rows, and columns (or rows) that are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from lorank.errors import InputError
from lorank.kernels import Workers, keep_best
from lorank.models.contents import Contents, contents_of
from lorank.models.filters import CANDIDATES, LEAST_CANDIDATES, Filters, diverse
from lorank.results_table import Table
from lorank.types import Array

# Rows are compared with so many columns at a time, in blocks of about so many scores; and the rows of a block may have
# so many seen entries: 32 MB each in float64.
TILE, BLOCK, SEEN_AT_ONCE = 1 << 14, 1 << 22, 1 << 22
NO_FILTERS = Filters()
# Lists up to this length are kept in order while columns go by.
SHORT = 100


class _Lists(NamedTuple):
    rows: Array
    cols: Array
    scores: Array


class Ranking(_Lists):
    """A long table, best first for each row: columns `rows`, `cols` (ids, or positions without ids) and `scores`.

    `titles` has what the model knows of the columns besides, such as the titles of films, by name.
    """

    titles: Mapping[str, Array]

    def __new__(cls, rows: Array, cols: Array, scores: Array, titles: Mapping[str, Array] | None = None) -> Ranking:
        made = super().__new__(cls, rows, cols, scores)
        made.titles = titles or {}
        return made

    def table(self) -> Table:
        """A table that prints, with one line for each row and column."""
        parts = {"row": self.rows, "column": self.cols, **untaken(self.titles, ("row", "column", "score"))}
        parts["score"] = self.scores
        return Table([dict(zip(parts, line)) for line in zip(*(part.tolist() for part in parts.values()))])

    def to_frame(self) -> Any:
        """As a pandas DataFrame (needs pandas)."""
        return self.table().to_frame()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def untaken(titles: Mapping[str, Array], taken: tuple[str, ...]) -> dict[str, Array]:
    """Titles as columns of a table, under names that are not taken."""
    return {name if name not in taken else f"{name} (title)": texts for name, texts in titles.items()}


def recommend(
    model: Any,
    rows: Any = None,
    n: int = 10,
    *,
    seen: bool = False,
    allow: Any = None,
    deny: Any = None,
    min_count: int = 0,
    diversity: float = 0.0,
    advance: Callable[[int], None] | None = None,
) -> Ranking:
    """The n columns with the highest predictions for each row, as one table.

    Parameters
    ----------
    model : Model, or a fitted estimator
    rows : ids (positions if the data had no ids); None for all rows, in their order
    n : how many for each row; fewer where not so many are left
    seen : bool
        Whether columns that were observed in a row may be recommended to it again.
    allow, deny : columns, or a mapping from a row to columns, optional
        Only these columns are listed, or none of these.
    min_count : int
        Columns with fewer observed entries are left out.
    diversity : float
        From 0, the best columns, towards 1, columns that are unlike each other (`lorank.models.filters.diverse`).
    advance : called with the number of rows just done.

    Notes
    -----
    Rows are done in blocks and columns in tiles: W_block H_tile^T is formed, what was seen is taken out, and the n best
    so far are selected, in O(columns * (rank + 1)) a row and memory that does not grow with rows or columns.
    """
    options = {"allow": allow, "deny": deny, "min_count": min_count, "diversity": diversity}
    parts = list(rankings(model, rows, n, seen=seen, advance=advance, **options))
    if len(parts) == 1:
        return parts[0]
    titles = {name: np.concatenate([part.titles[name] for part in parts]) for name in parts[0].titles}
    rows, cols, scores = (np.concatenate(column) for column in zip(*parts))
    return Ranking(rows, cols, scores, titles)


def _check_number(n: Any) -> None:
    if not isinstance(n, Integral):
        raise InputError(f"n must be a whole number, not {type(n).__name__}.")
    if n < 1:
        raise InputError(f"n must be at least 1; got {n}.")


def rankings(
    model: Any,
    rows: Any = None,
    n: int = 10,
    *,
    seen: bool = False,
    allow: Any = None,
    deny: Any = None,
    min_count: int = 0,
    diversity: float = 0.0,
    advance: Callable[[int], None] | None = None,
) -> Iterator[Ranking]:
    """The tables of `recommend` for one block of rows after another, for answers that are larger than memory."""
    contents = contents_of(model)
    _check_number(n)
    if not 0 <= diversity < 1:
        raise InputError(f"diversity must be at least 0 and less than 1; got {diversity!r}.")
    positions = range(contents.shape[0]) if rows is None else contents.find(rows, 0)
    if not len(positions):
        raise InputError("Give at least one row to recommend for.")
    filters = Filters.of(contents, allow, deny, min_count)
    wide = max(CANDIDATES * n, LEAST_CANDIDATES) if diversity else n
    for block, scores, best in top_columns(contents, positions, wide, seen, advance, filters):
        if diversity:
            scores, best = _spread(contents, scores, best, n, diversity)
        there = np.isfinite(scores)
        found, best = np.repeat(block, np.count_nonzero(there, axis=1)), best[there]
        yield Ranking(contents.names(found, 0), contents.names(best, 1), scores[there], contents.titles(best, 1))


def _spread(model: Contents, scores: Array, best: Array, n: int, diversity: float) -> tuple[Array, Array]:
    """Of each row's candidates, n that are unlike each other."""
    shape = len(scores), min(n, scores.shape[1])
    chosen_scores, chosen = np.full(shape, -np.inf, scores.dtype), np.zeros(shape, best.dtype)
    for line, (own, columns) in enumerate(zip(scores, best)):
        places = diverse(own, np.asarray(model.factors.right[columns])[:, : model.factors.k], n, diversity)
        chosen_scores[line, : places.size], chosen[line, : places.size] = own[places], columns[places]
    return chosen_scores, chosen


def top_columns(
    model: Contents,
    positions: Array | range,
    n: int,
    seen: bool,
    advance: Callable[[int], None] | None = None,
    filters: Filters = NO_FILTERS,
) -> Iterator[tuple[Array, Array, Array]]:
    """For one block of rows after another: their positions, and scores and columns of each row's n best, best first.

    A score is -inf where there is no column: in a row in which nearly everything was seen fewer than n are left.
    """
    if not seen and model.observations is None:
        raise InputError(
            "This model was saved without its data, so that what was seen is not known; "
            "save it with its data, or ask for seen columns too."
        )
    n = min(n, model.shape[1])
    size = max(1, BLOCK // min(model.shape[1], TILE))
    for start in range(0, len(positions), size):
        yield from _block(model, np.asarray(positions[start : start + size]), n, seen, advance, filters)


def _block(
    model: Contents, block: Array, n: int, seen: bool, advance: Callable[[int], None] | None, filters: Filters
) -> Iterator[tuple[Array, Array, Array]]:
    """The best of a block of rows, in halves where they have too many entries."""
    taken = None
    if not seen and model.observations is not None:
        pointers = model.observations.by_row.pointers
        starts, counts = pointers[block], pointers[block + 1] - pointers[block]
        if counts.sum() > SEEN_AT_ONCE and block.size > 1:
            for half in np.array_split(block, 2):
                yield from _block(model, half, n, seen, advance, filters)
            return
        taken = np.repeat(np.arange(block.size), counts), model.observations.by_row.indices[_runs(starts, counts)]
    yield block, *_best(model, block, n, taken, filters)
    if advance is not None:
        advance(block.size)


def was_seen(model: Contents, rows: Array, cols: Array) -> Array:
    """Whether the model was fitted on these entries, by position; none of them if it has not kept that."""
    found = np.zeros(rows.size, bool)
    if model.observations is None:
        return found
    lines, n = model.observations.by_row, model.shape[1]
    order = np.argsort(rows, kind="stable")
    for start in range(0, rows.size, TILE):
        own = order[start : start + TILE]
        block = np.unique(rows[own])
        starts = lines.pointers[block]
        counts = lines.pointers[block + 1] - starts
        known = np.repeat(block, counts) * n + lines.indices[_runs(starts, counts)]
        found[own] = np.isin(rows[own].astype(np.int64) * n + cols[own], known)
    return found


def similar(model: Any, *, col: Any = None, row: Any = None, n: int = 10, but_not: Any = None) -> tuple[Array, Array]:
    """Columns that are most like a column or several (or rows like rows), and how much: the cosine of their factors.

    In the balanced frame, W^T W = H^T H = diag(sigma), a direction weighs sqrt(sigma) in a factor: directions that
    matter little in X matter little here. Several are asked for by the mean of their directions, from which that of
    those in `but_not` is taken off; neither are listed.
    """
    contents = contents_of(model)
    if (row is None) == (col is None):
        raise InputError("Give either a row or a column to find its like.")
    _check_number(n)
    axis, given = (0, row) if row is not None else (1, col)
    factors = contents.factors if axis == 0 else contents.factors.transposed()
    named = [given] if np.ndim(given) == 0 else list(given)
    others = [] if but_not is None else [but_not] if np.ndim(but_not) == 0 else list(but_not)
    if not named:
        raise InputError("Give at least one row or column to find its like.")
    asked, k = contents.find(named + others, axis), factors.k
    lines = factors.left[asked][:, :k]
    lengths = np.linalg.norm(lines, axis=1)
    if not lengths.all():
        unknown = (named + others)[int(np.argmin(lengths))]
        raise InputError(f"Nothing is known of {('row', 'column')[axis]} {unknown!r}: its factor is zero.")
    lines = lines / lengths[:, None]
    own = lines[: len(named)].mean(axis=0) - (lines[len(named) :].mean(axis=0) if others else 0)
    length = np.linalg.norm(own)
    if length == 0:
        raise InputError("What is asked for and what is not wanted are alike: nothing is left to look for.")
    n = min(n, contents.shape[axis] - np.unique(asked).size)
    best = _none(1, n, factors.dtype)
    for start in range(0, contents.shape[axis] if n else 0, TILE):
        tile = factors.left[start : start + TILE][:, :k]
        cosine = tile @ own / np.maximum(np.linalg.norm(tile, axis=1) * length, np.finfo(factors.dtype).tiny)
        cosine[asked[(asked >= start) & (asked < start + TILE)] - start] = -np.inf
        best = _better(best, cosine[None, :], start)
    return contents.names(best[1][0], axis), best[0][0]


def _best(
    model: Contents, block: Array, n: int, taken: tuple[Array, Array] | None, filters: Filters
) -> tuple[Array, Array]:
    """Scores and columns of the n best of each row of a block; `taken` are rows of the block and columns left out."""
    factors, columns = model.factors, model.shape[1]
    width = factors.k + factors.biased
    left = factors.left[block]
    rest = factors.dtype.type(factors.offset) + (left[:, factors.k] if factors.biased else 0)
    # A bias of the columns is one more factor, next to a column of ones.
    left = left[:, :width].copy()
    left[:, factors.k :] = 1
    if taken is not None and columns > TILE:
        order = np.argsort(taken[1], kind="stable")
        taken = taken[0][order], taken[1][order]
    best, workers = _none(block.size, n, factors.dtype), Workers(model.n_jobs)
    for start in range(0, columns, TILE):
        scores = left @ factors.right[start : start + TILE][:, :width].T
        if taken is not None:
            span = slice(None)
            if columns > TILE:
                span = slice(*np.searchsorted(taken[1], (start, start + TILE)).tolist())
            scores[taken[0][span], taken[1][span] - start] = -np.inf
        filters.apply(scores, block, start)
        best = _better(best, scores, start, workers)
    workers.close()
    return best[0] + np.reshape(rest, (-1, 1)), best[1]


def _none(rows: int, n: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """No columns yet: n places for each row."""
    return np.full((rows, n), -np.inf, dtype), np.zeros((rows, n), np.int64)


def _better(best: tuple[Array, Array], tile: Array, base: int, workers: Workers | None = None) -> tuple[Array, Array]:
    """The n best of each row, descending, of those so far and of a further tile, whose columns begin at `base`.

    Earlier columns come first, so that they win ties.
    """
    n = best[0].shape[1]
    if n <= SHORT:
        (workers or Workers(1)).run_evenly(keep_best, len(tile), tile, base, *best, work_per_line=2 * tile.shape[1])
        return best
    last = tile.shape[1] - min(n, tile.shape[1])
    lines = np.arange(len(tile))[:, None]
    places = tile.argpartition(last, axis=1)[:, last:]
    places.sort(axis=1)
    scores, places = np.hstack([best[0], tile[lines, places]]), np.hstack([best[1], places + base])
    order = (-scores).argsort(axis=1, kind="stable")[:, :n]
    return scores[lines, order], places[lines, order]


def _runs(starts: Array, counts: Array) -> Array:
    """Positions start, start + 1, ... of runs of so many, one run after the other."""
    ends = counts.cumsum()
    return np.repeat(starts - ends + counts, counts) + np.arange(ends[-1] if ends.size else 0)
