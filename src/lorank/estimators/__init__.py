"""Estimators: thin, in scikit-learn's manner."""

from lorank.estimators.completion import MatrixCompletion, complete
from lorank.estimators.imputer import LowRankImputer

__all__ = ["LowRankImputer", "MatrixCompletion", "complete"]
