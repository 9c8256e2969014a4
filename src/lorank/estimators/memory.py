"""How much memory a fit takes, told before it is begun."""

from __future__ import annotations

import numpy as np

from lorank.linalg.factors import check_memory, padded_width
from lorank.observations import Observations

# Padded factors that an accelerated solver holds at once: the point, the one before, the extrapolated one, the next,
# and the best one so far, with room for one more.
COPIES = 6


def fit_memory(shape: tuple[int, int], entries: int, rank: int, dtype: str = "float64") -> int:
    """Bytes that a fit allocates beside the observations themselves.

    The entries by columns (an index and a value each), residuals, pointers, and COPIES of the factors.
    """
    item = np.dtype(dtype).itemsize
    index = 4 if max(shape) <= np.iinfo(np.int32).max else 8
    return entries * (index + 2 * item) + sum(shape) * (8 + COPIES * padded_width(rank) * item)


def check_fit_memory(observations: Observations, rank: int, dtype: str = "float64") -> None:
    """Refuse a fit that would not fit, rather than be killed in the middle of it."""
    m, n = observations.shape
    needed = fit_memory((m, n), observations.nnz, rank, dtype)
    check_memory(
        needed,
        f"Fitting {observations.nnz} entries of a {m} x {n} matrix at rank {rank}",
        "lower the rank or use float32",
    )
