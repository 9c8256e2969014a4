"""Chances of classes: those that trees give, corrected by logistic regressions on the other columns.

Each level against all others, with columns x that are standardised,

    log odds = a + s log odds of the trees + x^T b,

by maximum likelihood with a normal prior: s is near 1, a and b near 0. The chances of all levels are brought to the
sum of 1. Trees see steps and what columns do together, and the regression what is linear, which trees see badly. A
linear regression of indicators would miss rare classes that lie well apart.

References
----------
Wolpert, "Stacked generalization", Neural Networks 1992.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from lorank.types import Array

# Precisions of the prior: of the intercept, of the slope of the trees' log odds around 1, and of the other slopes.
INTERCEPT, TREES, SLOPES = 1.0, 10.0, 10.0
# Trees of few cells say 0 or 1 too easily.
LEAST = 0.02
# Newton steps at most, and when they end.
STEPS, SMALL = 20, 1e-4


@dataclass(frozen=True)
class Chances:
    """Intercept, slope of the trees' log odds, and slopes (levels, 2 + d) of columns with this centre and scale."""

    slopes: Array
    centre: Array
    scale: Array

    @classmethod
    def of(cls, shares: Array, inputs: Array, truth: Array) -> Chances:
        """From what trees say of cells that they were not grown on (rows, levels), other columns (d, rows), and the
        indicators of the levels (rows, levels)."""
        centre, scale = inputs.mean(axis=1), inputs.std(axis=1)
        plain = cls(np.zeros((shares.shape[1], 2 + len(inputs))), centre, np.where(scale > 0, scale, 1.0))
        regressors = plain._regressors(inputs)
        for level, slopes in enumerate(plain.slopes):
            if level == 1 and len(plain.slopes) == 2:  # the other one is its mirror image
                slopes[:] = np.where(np.arange(slopes.size) == 1, 1, -1) * plain.slopes[0]
                break
            regressors[:, 1] = _log_odds(shares[:, level])
            slopes[:] = _regression(regressors, truth[:, level])
        return plain

    def __call__(self, shares: Array, inputs: Array) -> Array:
        """Chances of the levels (rows, levels)."""
        odds, regressors = np.empty(shares.shape), self._regressors(inputs)
        for level, slopes in enumerate(self.slopes):
            regressors[:, 1] = _log_odds(shares[:, level])
            odds[:, level] = expit(regressors @ slopes)
        return odds / odds.sum(axis=1, keepdims=True)

    def _regressors(self, inputs: Array) -> Array:
        """(rows, 2 + d), with room for the log odds in the second column."""
        out = np.ones((inputs.shape[1], 2 + len(inputs)))
        out[:, 2:] = ((inputs - self.centre[:, None]) / self.scale[:, None]).T
        return out


def _log_odds(shares: Array) -> Array:
    clipped = np.clip(shares, LEAST, 1 - LEAST)
    return np.log(clipped / (1 - clipped))


def _regression(X: Array, y: Array) -> Array:
    """The coefficients of log P(y = 1) / P(y = 0) = X b with the largest posterior density."""
    ridge, prior = np.full(X.shape[1], SLOPES), np.zeros(X.shape[1])
    ridge[:2], prior[1] = (INTERCEPT, TREES), 1.0
    b = prior
    for _ in range(STEPS):
        p = expit(X @ b)
        curvature = (X.T * (p * (1 - p))) @ X + np.diag(ridge)
        step = np.linalg.solve(curvature, X.T @ (y - p) - ridge * (b - prior))
        b = b + step
        if np.abs(step).max() < SMALL:
            break
    return b
