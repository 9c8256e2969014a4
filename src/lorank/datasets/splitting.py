"""Random splits: of the entries of a matrix, and of whole locations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.observations import Observations


def split(
    observations: Observations, fractions: Sequence[float] = (0.5, 0.25, 0.25), seed: int = 0
) -> tuple[Observations, ...]:
    """Parts of the entries, uniformly at random; each part is a matrix of the same shape and names.

    Parameters
    ----------
    observations : Observations, shape (m, n)
    fractions : share of the entries in each part; they sum to 1. The default is the paper's train,
        validation, test.
    seed : the same seed gives the same parts.

    Returns
    -------
    tuple of Observations, one for each fraction, disjoint, together all entries.
    """
    # One byte an entry: a permutation of 60 million entries would take half a gigabyte.
    part = np.repeat(np.arange(len(fractions), dtype=np.uint8), _sizes(observations.nnz, fractions))
    np.random.default_rng(seed).shuffle(part)
    return tuple(observations.subset(part == which) for which in range(len(fractions)))


def split_locations(
    n: int, fractions: Sequence[float] = (0.1, 0.1, 0.8), seed: int = 0
) -> tuple[npt.NDArray[np.int64], ...]:
    """Parts of the locations 0..n-1, uniformly at random; the default is the paper's train, validation, test.

    Returns
    -------
    tuple of ascending index arrays, one for each fraction, disjoint, together all of 0..n-1.
    """
    order = np.random.default_rng(seed).permutation(n)
    ends = np.cumsum(_sizes(n, fractions))
    return tuple(np.sort(part) for part in np.split(order, ends[:-1]))


def _sizes(total: int, fractions: Sequence[float]) -> npt.NDArray[np.int64]:
    """Whole numbers that sum to the total, each within one of its share."""
    shares = np.asarray(fractions, dtype=float)
    if not 1 <= shares.size <= 255 or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise InputError(f"The fractions of a split must be positive and sum to 1; got {tuple(fractions)}.")
    ends = np.rint(np.cumsum(shares) * total).astype(np.int64)
    sizes: npt.NDArray[np.int64] = np.diff(ends, prepend=0)
    if not sizes.all():
        raise InputError(f"{total} cannot be split by {tuple(fractions)}: one part would be empty.")
    return sizes
