"""Bayesian probabilistic matrix factorization: draws from the posterior instead of one best point."""

from lorank.solvers.gibbs.bpmf import BPMF, SampledResult
from lorank.solvers.gibbs.posterior import Draws, Posterior

__all__ = ["BPMF", "Draws", "Posterior", "SampledResult"]
