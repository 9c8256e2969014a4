"""Bayesian probabilistic matrix factorization: draws from the posterior instead of one best point."""

from lorank.bayes.gibbs import BPMF, SampledResult
from lorank.bayes.posterior import Draws, Posterior

__all__ = ["BPMF", "Draws", "Posterior", "SampledResult"]
