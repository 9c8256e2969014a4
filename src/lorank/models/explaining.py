"""Why a column is listed: which of the row's own entries speak for it."""

from __future__ import annotations

import numpy as np

from lorank.errors import InputError
from lorank.linalg import balance
from lorank.models.contents import Contents
from lorank.models.folding import multiplier
from lorank.types import Array


def reasons(model: Contents, row: int, cols: Array, most: int = 3) -> list[list[tuple[int, float]]]:
    """For each of these columns the entries of the row that add most to its prediction: (column, how much).

    Given the factors H of the columns, row i solves a ridge regression on its own entries, so that a prediction is a
    sum over them,

        x_ij - offsets = h_j^T A^-1 sum_t c_t h_t r_t,   A = sum_t c_t h_t h_t^T + ridge,

    with r_t the entry less its offsets and c_t its weight; the part of entry t is h_j^T A^-1 h_t c_t r_t. Of a model
    that was sampled the mean factors are taken, with the ridge that their spread and the noise make.

    Parameters
    ----------
    row, cols : positions
    most : how many for each column; fewer where fewer have a positive part
    """
    seen = model.observations
    if seen is None:
        raise InputError(
            "Reasons are a row's own entries, and this model was saved without its data; save it with them."
        )
    lines, factors = seen.by_row, model.result.summary
    own = slice(int(lines.pointers[row]), int(lines.pointers[row + 1]))
    entries = np.asarray(lines.indices[own])
    if not entries.size:
        return [[] for _ in cols]
    k = factors.k
    right = np.asarray(factors.right[entries], np.float64)
    H, values = right[:, :k], np.asarray(lines.values[own], np.float64)
    rest = values - factors.offset
    if factors.biased:
        rest = rest - right[:, k] - float(np.asarray(factors.left[np.array([row])])[0, k])
    weights = getattr(lines, "weights", None)
    weighted = H if weights is None else H * np.asarray(weights[own], np.float64)[:, None]
    A = weighted.T @ H + _ridge(model)
    listed = np.asarray(factors.right[np.asarray(cols)], np.float64)[:, :k]
    parts = (listed @ np.linalg.solve(A, weighted.T)) * rest
    order = np.argsort(-parts, axis=1)[:, :most]
    return [[(int(entries[t]), float(part[t])) for t in chosen if part[t] > 0] for part, chosen in zip(parts, order)]


def _ridge(model: Contents) -> Array:
    """The ridge (k, k) of the regressions of rows on the factors of the columns."""
    factors = model.result.summary
    W, H = (np.asarray(side, np.float64)[:, : factors.k] for side in (factors.left, factors.right))
    if model.posterior is not None:
        spread = np.cov(W.T, ddof=0).reshape(factors.k, factors.k)
        # Directions that the posterior has shrunk to nothing stay there.
        return model.posterior.noise_variance * np.linalg.inv(spread + 1e-6 * np.trace(spread) * np.eye(factors.k))
    frame = balance(W.T @ W, H.T @ H)
    return np.asarray(frame.for_left(multiplier(model.regularizer(), frame)))
