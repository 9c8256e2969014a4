"""Bayesian probabilistic matrix factorization: draws from the posterior instead of one best point."""

from lorank.solvers.gibbs.bpmf import BPMF
from lorank.solvers.gibbs.folding import fold_in

__all__ = ["BPMF", "fold_in"]
