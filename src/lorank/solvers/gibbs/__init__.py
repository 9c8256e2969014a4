"""Bayesian probabilistic matrix factorization: draws from the posterior instead of one best point."""

from lorank.solvers.gibbs.bpmf import BPMF

__all__ = ["BPMF"]
