"""DINEOF, written from its published algorithm: the reference that grids are compared with.

1. The mean of all values is taken off, and what is missing starts at 0.
2. Some values are set aside: here in the shape of other times' gaps, as Beckers et al. (2006) advise for clouds.
3. For 1, 2, ... modes (EOFs): a truncated SVD of the filled field replaces what is missing, until that changes by less
   than a thousandth of the deviation of the data. Each number of modes starts where the one before it ended.
4. The number of modes is the one with the least error at the values set aside; these are put back, and the iteration
   is made once more with that number.

References
----------
Beckers, Rixen, "EOF calculations and data filling from incomplete oceanographic datasets", J. Atmos. Oceanic Technol.
20, 2003. Alvera-Azcarate, Barth, Rixen, Beckers, "Reconstruction of incomplete oceanographic data sets using empirical
orthogonal functions", Ocean Modelling 9, 2005.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import svds

from lorank.spatial.gaps import hide_gaps, lend_gaps

# Change at which an iteration ends, in deviations of the data, and how many rounds it has at most.
TOLERANCE, ROUNDS = 1e-3, 300
# The search ends after so many numbers of modes that are no better.
PATIENCE = 3


def dineof(seen: np.ndarray, most: int = 120, seed: int = 0) -> tuple[np.ndarray, int]:
    """The field (n, y, x) reconstructed from its values, NaN missing, and the number of modes; land stays NaN."""
    cells = seen.reshape(len(seen), -1)
    sea = ~np.isnan(cells).all(axis=0)
    mean = np.nanmean(cells[:, sea])
    values = cells[:, sea] - mean
    aside = hide_gaps(seen, lend_gaps(seen, np.random.default_rng(seed))[0]).reshape(len(seen), -1)[:, sea]
    known = ~np.isnan(values)
    shown = known & ~aside
    best, error, worse = 1, np.inf, 0
    kept = field = np.where(shown, values, 0.0)
    for modes in range(1, min(most, min(values.shape) - 1) + 1):
        field = converged(values, field, shown, modes)
        found = float(np.sqrt(np.mean((field - values)[aside] ** 2)))
        if found < error:
            best, error, worse, kept = modes, found, 0, field
        else:
            worse += 1
            if worse == PATIENCE:
                break
    out = np.full(cells.shape, np.nan)
    out[:, sea] = converged(values, kept, known, best) + mean
    return out.reshape(seen.shape), best


def converged(values: np.ndarray, field: np.ndarray, known: np.ndarray, modes: int) -> np.ndarray:
    """The field of so many modes (n, c) whose truncated SVD fills what is not known as it was filled."""
    size = values[known].std()
    for _ in range(ROUNDS):
        U, sigma, V = svds(np.where(known, values, field), k=modes, random_state=0)
        new = (U * sigma) @ V
        change = np.sqrt(np.mean((new - field)[~known] ** 2)) if (~known).any() else 0.0
        field = new
        if change < TOLERANCE * size:
            break
    return field
