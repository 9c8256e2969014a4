"""Values on a scale, predicted from the factors of a point estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lorank.kernels import Workers
from lorank.linalg import Factors
from lorank.losses import Ordinal
from lorank.types import Array


@dataclass(frozen=True)
class LevelPredictor:
    """Expected levels, and the probability of each, of x = W H^T under the ordinal loss."""

    factors: Factors
    loss: Ordinal

    @property
    def levels(self) -> Array:
        return np.array(self.loss.levels)

    def predict(self, rows: Array, cols: Array, workers: Workers | None = None) -> Array:
        """Expected levels at pairs."""
        return self.loss.predicted(self.factors.predict(rows, cols, workers))

    def probabilities(self, rows: Array, cols: Array, workers: Workers | None = None) -> Array:
        """Probability of each level (pairs, levels)."""
        return self.loss.probabilities(self.factors.predict(rows, cols, workers))

    def interval(self, rows: Array, cols: Array, level: float) -> tuple[Array, Array]:
        """Ranges from level to level that hold a value with this probability."""
        return self.loss.interval(self.factors.predict(rows, cols), level)

    def dense(self) -> Array:
        """Expected levels of all entries as an m x n array; refused if that does not fit in memory."""
        X = self.factors.dense()
        for row in X:
            row[:] = self.loss.predicted(row)
        return X
