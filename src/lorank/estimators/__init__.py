"""Estimators: thin, in scikit-learn's manner."""

from lorank.estimators.comparison import Comparison, compare
from lorank.estimators.completion import MatrixCompletion
from lorank.estimators.entries import EntryRegressor
from lorank.estimators.imputer import LowRankImputer, complete
from lorank.estimators.pooling import Pooled, pool

__all__ = [
    "Comparison",
    "EntryRegressor",
    "LowRankImputer",
    "MatrixCompletion",
    "Pooled",
    "compare",
    "complete",
    "pool",
]
