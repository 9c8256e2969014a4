"""Ratings with the shape, count and skew of data sets that may not be passed on, for timing and memory.

No claim about accuracy should rest on them: what they hold is a bias for each user and item, a low-rank part whose
directions fade, noise, and the rounding of a rating scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.observations import Lines, Observations

# Directions of the low-rank part, and how much of the variance each keeps of the one before.
RANK, FADING = 20, 0.88


@dataclass(frozen=True)
class Shape:
    """Users, items and ratings at most, and how many ratings the least and the most active user gives."""

    users: int
    items: int
    ratings: int
    fewest: int
    most: int


SHAPES = {
    "ml10m": Shape(69_878, 10_677, 10_000_054, 20, 3_000),
    "yahoo": Shape(249_012, 296_111, 62_551_438, 10, 20_000),
}


def simulated_ratings(name: str = "ml10m", seed: int = 10, dtype: npt.DTypeLike = np.float32) -> Observations:
    """Half-star ratings 0.5..5 in the shape of MovieLens-10M (9.8 million) or Yahoo! Music (61 million).

    A user's activity is log-normal, an item's popularity falls like a power of its place; a rating is
    3.5 + user + item + a rank-20 part with fading directions + noise, rounded to half stars. A pair is rated once.

    Parameters
    ----------
    name : "ml10m", 69,878 x 10,677; or "yahoo", 249,012 x 296,111, which takes half a minute and 4 GB.
    seed : the same seed gives the same ratings.
    dtype : float32 or float64.

    Examples
    --------
    >>> simulated_ratings("ml10m").shape  # doctest: +SKIP
    (69878, 10677)
    """
    if name not in SHAPES:
        raise InputError(f"Simulated ratings come in the shapes {', '.join(SHAPES)}; got {name!r}.")
    return _simulate(SHAPES[name], np.random.default_rng(seed)).astype(dtype)


def _simulate(shape: Shape, rng: np.random.Generator) -> Observations:
    users, items = shape.users, shape.items
    activity = np.exp(rng.normal(0, 1.15, users))
    activity = np.maximum(shape.fewest, activity / activity.sum() * shape.ratings * 0.97)
    # A quarter more than wanted: popular items are drawn twice by the same user, and count once.
    counts = np.minimum(rng.poisson(activity * 1.25), shape.most)
    popularity = 1 / (np.arange(1, items + 1) + 60.0) ** 1.25
    popularity = rng.permutation(popularity / popularity.sum())
    # How often each item is drawn, in random order: the same as independent draws, and ten times faster.
    drawn = np.repeat(np.arange(items, dtype=np.int32), rng.multinomial(counts.sum(), popularity))
    rng.shuffle(drawn)
    cells = np.repeat(np.arange(users, dtype=np.int64) * items, counts)
    cells += drawn
    del drawn
    cells.sort()
    cells = cells[np.diff(cells, prepend=-1) > 0]
    if cells.size > shape.ratings:
        kept = np.zeros(cells.size, bool)
        kept[: shape.ratings] = True
        rng.shuffle(kept)
        cells = cells[kept]
    cols = (cells % items).astype(np.int32)
    pointers = np.searchsorted(cells, np.arange(users + 1, dtype=np.int64) * items)
    del cells
    return Observations((users, items), Lines(pointers, cols, _values(pointers, cols, shape, rng)))


def _values(
    pointers: npt.NDArray[np.int64], cols: npt.NDArray[np.int32], shape: Shape, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    scale = np.sqrt(0.26 * FADING ** np.arange(RANK)).astype(np.float32)
    W, H = (scale * rng.standard_normal((size, RANK), np.float32) for size in (shape.users, shape.items))
    user, item = (
        deviation * rng.standard_normal(size, np.float32)
        for deviation, size in ((np.float32(0.38), shape.users), (np.float32(0.45), shape.items))
    )
    values = rng.standard_normal(cols.size, np.float32)
    # Blocks of users, so that the features of all entries are never held at once.
    for first in range(0, shape.users, 4096):
        block = slice(first, min(first + 4096, shape.users))
        entries = slice(pointers[block.start], pointers[block.stop])
        who = np.repeat(np.arange(block.start, block.stop), np.diff(pointers[block.start : block.stop + 1]))
        what = cols[entries]
        x = 3.5 + user[who] + item[what] + np.einsum("ek,ek->e", W[who], H[what]) + np.float32(0.74) * values[entries]
        values[entries] = np.clip(np.round(2 * x) / 2, 0.5, 5)
    return values
