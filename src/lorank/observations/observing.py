"""Observations from whatever holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lorank.errors import InputError
from lorank.observations.observations import Observations


def observe(X: Any, weights: Any = None) -> Observations:
    """Observations from whatever holds them.

    Accepts Observations, scipy sparse of any format (a stored zero is observed), an array with NaN, a wide DataFrame,
    or a tuple (rows, cols, values) of triplets, whose rows and columns are positions if they are integers, else ids.
    For a long table use `Observations.from_table`. Weights go with X: of a matrix in its shape, else one for each entry
    in its order.
    """
    if isinstance(X, Observations):
        observations = X if weights is None else X.with_weights(weights)
    elif sp.issparse(X):
        observations = Observations.from_sparse(X, weights)
    elif isinstance(X, tuple) and len(X) == 3:
        integers = all(np.issubdtype(np.asarray(part).dtype, np.integer) for part in X[:2])
        constructor = Observations.from_coo if integers else Observations.from_ids
        observations = constructor(*X, weights=weights)
    elif hasattr(X, "columns") or hasattr(X, "__narwhals_dataframe__"):
        observations = Observations.from_frame(X, weights)
    else:
        observations = Observations.from_dense(X, weights=weights)
    if observations.nnz == 0:
        raise InputError(
            f"No entry of this {observations.shape[0]} x {observations.shape[1]} matrix is observed: "
            "all are missing; there is nothing to learn from."
        )
    return observations
