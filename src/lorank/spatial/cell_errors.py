"""How far off the prediction of one value is likely to be, learnt from values that were held out.

The squared error of a value has two parts: that of the level and season of its place, and that of the anomaly, both
known up to a factor from the models they come from:

    E e_it^2 = a * variance(level and season)_it + b * scale_it^2 (kriging variance_it + nugget)

a and b >= 0 are fitted to held-out errors, for places that were never measured and for gaps of measured ones.
Intervals use the quantiles of the held-out errors in units of this deviation, so that skewed or heavy-tailed errors
are covered, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from lorank.types import Array

# So many held-out errors are kept for quantiles.
KEPT = 20_000


@dataclass(frozen=True)
class CellErrors:
    """The factors (a, b), and sorted held-out errors in units of the deviation."""

    factors: Array
    ratios: Array

    @classmethod
    def fit(cls, miss: Array, level: Array, anomaly: Array) -> CellErrors:
        """From held-out errors (c,) and the two variances of each (c,)."""
        total = level + anomaly
        total = np.maximum(total, 1e-12 * max(float(total.mean()), 1e-300))
        parts = np.column_stack([level / total, anomaly / total])
        relative = miss**2 / total
        factors, _ = nnls(parts.T @ parts, parts.T @ relative)
        expected = parts @ factors
        if not (expected > 0).all():
            factors = np.full(2, max(float(relative.mean()), 1e-300))
            expected = parts @ factors
        # Least squares of squares may miss their mean by a little.
        factors = factors * relative.mean() / expected.mean() if relative.mean() > 0 else factors
        ratios = miss / np.sqrt(np.maximum(total * (parts @ factors), 1e-300))
        ratios = np.sort(ratios)
        return cls(factors, ratios[np.linspace(0, ratios.size - 1, min(KEPT, ratios.size)).astype(int)])

    def deviation(self, level: Array, anomaly: Array) -> Array:
        """Standard deviation of the error of values with these two variances."""
        return np.asarray(np.sqrt(self.factors[0] * level + self.factors[1] * anomaly))

    def quantiles(self, coverage: float) -> tuple[float, float]:
        """How many deviations below and above the prediction the interval of this coverage ends."""
        tail = (1 - coverage) / 2
        # An error is prediction minus truth: the truth lies below by a large one.
        low, high = np.quantile(self.ratios, [tail, 1 - tail])
        return float(high), float(-low)
