"""Held-out parts as lists are judged by: some entries of every row, the last ones of each, or all after a date."""

from __future__ import annotations

import numpy as np

from lorank.errors import InputError
from lorank.observations.observations import Observations
from lorank.types import Array

Parts = tuple[Observations, Observations]


def hold_out_of_rows(
    observations: Observations, fraction: float = 0.2, seed: int | None = 0, times: Observations | None = None
) -> Parts:
    """Two parts: the rest, and this fraction of each row's entries; a row keeps at least one entry.

    They are chosen at random, or are the last ones where `times` (as for `leave_last_out`) are given.
    """
    if not 0 < fraction < 1:
        raise InputError(f"A held-out fraction lies between 0 and 1; got {fraction}.")
    rng = np.random.default_rng(seed)
    counts = np.diff(observations.by_row.pointers)
    # Fractions of an entry are held out that often: rows with few entries take part too.
    asked = np.floor(fraction * counts + rng.random(counts.size)).astype(np.int64)
    keys = rng.random(observations.nnz) if times is None else _times(observations, times)
    return _parts(observations, keys, np.minimum(asked, np.maximum(counts - 1, 0)))


def leave_last_out(observations: Observations, times: Observations, n: int = 1) -> Parts:
    """Two parts: the rest, and the n last entries of each row; a row keeps at least one entry.

    `times` holds the time of each entry as its value, at the same places.
    """
    if n < 1:
        raise InputError(f"At least one entry of each row is left out; got {n}.")
    counts = np.diff(observations.by_row.pointers)
    return _parts(observations, _times(observations, times), np.minimum(n, np.maximum(counts - 1, 0)))


def split_by_time(observations: Observations, times: Observations, fraction: float = 0.2) -> Parts:
    """Two parts: what was before, and the last fraction of all entries; `times` as for `leave_last_out`.

    All entries of one time are in the same part.
    """
    if not 0 < fraction < 1:
        raise InputError(f"A held-out fraction lies between 0 and 1; got {fraction}.")
    when = _times(observations, times)
    later = when > np.quantile(when, 1 - fraction, method="lower")
    if not later.any():
        later = when == when.max()
    if later.all():
        raise InputError("All entries are of the same time; there is no later part.")
    return observations.subset(~later), observations.subset(later)


def _times(observations: Observations, times: Observations) -> Array:
    placed = times.aligned_to(observations)
    if placed.nnz != observations.nnz or not (
        np.array_equal(placed.by_row.pointers, observations.by_row.pointers)
        and np.array_equal(placed.cols, observations.cols)
    ):
        raise InputError("Times must be known for the same entries as the values.")
    return placed.values


def _parts(observations: Observations, keys: Array, held: Array) -> Parts:
    """The entries with the largest keys of each row, so many as `held` says, are the second part."""
    order = np.lexsort((keys, observations.rows))
    counts = np.diff(observations.by_row.pointers)
    from_end = np.repeat(observations.by_row.pointers[1:], counts) - np.arange(observations.nnz)
    chosen = np.zeros(observations.nnz, bool)
    chosen[order] = from_end <= np.repeat(held, counts)
    if not chosen.any():
        raise InputError("No row has entries enough for some of them to be held out.")
    return observations.subset(~chosen), observations.subset(chosen)
