"""Ratings that look like MovieLens-10M or Yahoo! Music from afar: the same shape, count and skew, for time and memory.

No error measured on them says anything about the real ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.observations import Observations

# Pairs drawn at a time.
BLOCK = 1 << 22


@dataclass(frozen=True)
class _Shape:
    rows: int
    cols: int
    ratings: int
    fewest: int  # ratings of a user


SHAPES = {"ml10m": _Shape(69_878, 10_677, 10_000_054, 20), "yahoo": _Shape(249_012, 296_111, 62_551_438, 10)}


def simulated_ratings(name: str = "ml10m", rank: int = 20, seed: int = 10, scale: float = 1.0) -> Observations:
    """Simulated ratings in half stars, float32.

    A user's activity is log-normal, an item's popularity falls as a power of its place in the order; a rating is a
    mean, a user's and an item's part, a low-rank part whose directions grow weaker, and noise, rounded to half stars.

    Parameters
    ----------
    name : "ml10m" (69,878 x 10,677, 10 million) or "yahoo" (249,012 x 296,111, 62.5 million).
    rank : directions of the low-rank part.
    seed : the same seed gives the same ratings.
    scale : part of the users and items, and of the ratings, for a smaller problem of the same kind.
    """
    if name not in SHAPES or not 0 < scale <= 1:
        raise InputError(f"Simulated ratings are {' or '.join(SHAPES)}, at a scale in (0, 1]; got {name!r}, {scale}.")
    shape = SHAPES[name]
    m, n = max(2, round(shape.rows * scale)), max(2, round(shape.cols * scale))
    total = min(round(shape.ratings * scale), m * n // 4)
    rng = np.random.default_rng(seed)
    activity = np.exp(1.1 * rng.standard_normal(m))
    wanted = np.minimum(shape.fewest + activity / activity.sum() * max(total - shape.fewest * m, 0) * 1.3, n / 2)
    popularity = (np.arange(n) + 60.0 * scale) ** -1.25
    cells = _cells(rng.poisson(wanted), np.cumsum(popularity / popularity.sum()), rng)
    if cells.size > total:
        # Every cell is as likely as another to go.
        gone = rng.choice(cells.size, cells.size - total, replace=False)
        kept = np.ones(cells.size, bool)
        kept[gone] = False
        cells = cells[kept]
    rows, cols = (part.astype(np.int32) for part in np.divmod(cells, n))
    del cells
    cols = rng.permutation(n).astype(np.int32)[cols]
    return Observations.from_coo(rows, cols, _stars(rows, cols, m, n, rank, rng), (m, n))


def _cells(counts: npt.NDArray[Any], cumulated: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Distinct cells row * n + col, ascending: so many draws for each row, of which those that repeat are dropped."""
    n, parts = cumulated.size, []
    ends = np.searchsorted(np.cumsum(counts), np.arange(BLOCK, counts.sum() + BLOCK, BLOCK), side="left") + 1
    start = 0
    for end in np.minimum(np.unique(ends), counts.size).tolist():
        rows = np.repeat(np.arange(start, end, dtype=np.int64), counts[start:end])
        cols = np.minimum(np.searchsorted(cumulated, rng.random(rows.size)), n - 1)
        cells = np.sort(rows * n + cols)
        parts.append(cells[np.diff(cells, prepend=-1) > 0])
        start = end
    return np.concatenate(parts)


def _stars(
    rows: npt.NDArray[np.int32], cols: npt.NDArray[np.int32], m: int, n: int, rank: int, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    weight = np.sqrt(0.25 * 0.88 ** np.arange(rank)).astype(np.float32)
    left, right = (rng.standard_normal((size, rank), np.float32) * weight for size in (m, n))
    user, item = 0.4 * rng.standard_normal(m, np.float32), 0.45 * rng.standard_normal(n, np.float32)
    values = np.empty(rows.size, np.float32)
    for start in range(0, rows.size, BLOCK):
        part = slice(start, start + BLOCK)
        r, c = rows[part], cols[part]
        exact = 3.5 + user[r] + item[c] + np.einsum("ek,ek->e", left[r], right[c])
        noisy = exact + 0.75 * rng.standard_normal(r.size, np.float32)
        values[part] = np.clip(np.round(2 * noisy) / 2, 0.5, 5)
    return values
