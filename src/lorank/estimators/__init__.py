"""Estimators: thin, in scikit-learn's manner."""

from lorank.estimators.comparison import Comparison, compare
from lorank.estimators.completion import MatrixCompletion, complete
from lorank.estimators.imputer import LowRankImputer

__all__ = ["Comparison", "LowRankImputer", "MatrixCompletion", "compare", "complete"]
