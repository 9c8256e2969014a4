"""Problems: observed entries with a loss, a regularizer and side information; or linear measurements (sensing)."""

from lorank.problems.base import BaseProblem
from lorank.problems.factored import FactoredProblem
from lorank.problems.problem import Problem
from lorank.problems.sensing import LinearMap, SensingProblem
from lorank.problems.spectral import SpectralPoint, SpectralProblem
from lorank.problems.unobserved import Unobserved

__all__ = [
    "BaseProblem",
    "FactoredProblem",
    "LinearMap",
    "Problem",
    "SensingProblem",
    "SpectralPoint",
    "SpectralProblem",
    "Unobserved",
]
