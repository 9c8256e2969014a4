"""Fill the gaps of a matrix and give back what was given."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from lorank.estimators.completion import MatrixCompletion
from lorank.linalg.memory import check_memory
from lorank.observations import dataframes as frames


def complete(X: Any, **params: Any) -> Any:
    """Fill the missing entries of X; what comes back is of the type that was given.

    X is an array with NaN, a DataFrame, or a sparse matrix; params are those of MatrixCompletion. A sparse
    matrix comes back with every entry stored, so it is for small ones: use MatrixCompletion.predict for large ones.
    """
    model = MatrixCompletion(**params).fit(X)
    m, n = model.observations_.shape
    if sp.issparse(X):
        check_memory(16 * m * n, f"The completed sparse matrix of {m} x {n} entries")
        full: Any = type(X)
        return full(model.complete())
    filled = model.complete()
    return frames.like(X, filled) if hasattr(X, "columns") else filled
