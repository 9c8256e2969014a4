"""Values as preferences, for models that rank: from 0, as far away as what was not seen, to 1.

    grade(v) = min((v - low) / (high - low), 1)^power

low is 0, or the least value if that is negative; high is reached by a twentieth of the entries, so that a few very
large counts do not make all others small. Power 0 says that seen is seen, whatever the value: clicks. With power 1 a
rating of five stars asks for 1 and one star for 0.2, where a film that was not seen asks for 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lorank.observations import Observations

# The part of the entries that have the highest grade.
TOP = 0.05


@dataclass(frozen=True)
class Grades:
    """How values become preferences."""

    low: float
    high: float
    power: float = 1.0

    @classmethod
    def of(cls, observations: Observations, power: float) -> Grades:
        """The grades of these values; power 0 if all values are the same."""
        low = min(0.0, float(observations.values.min()))
        high = float(np.quantile(observations.values, 1 - TOP))
        if high <= low or is_constant(observations):
            return cls(low, max(high, low + 1.0), 0.0)
        return cls(low, high, power)

    def apply(self, observations: Observations) -> Observations:
        """The same entries with their grades as values."""
        share = np.clip((observations.values - self.low) / (self.high - self.low), 0.0, 1.0)
        return observations.with_values((share**self.power).astype(observations.dtype))


def is_constant(observations: Observations) -> bool:
    """Whether all values are the same: then it is who was seen with what that tells something."""
    values = observations.values
    return bool(values.size and values.min() == values.max())
