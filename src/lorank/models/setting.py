"""What a model was fitted with, once nothing is "auto" any more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lorank.models.preferences import Grades
from lorank.observations import Observations
from lorank.problems import Unobserved


@dataclass(frozen=True)
class Setting:
    """Numbers for the parameters that can be tuned; a theta of None is the method's default, a lam of None is none."""

    lam: float | None
    rank: int
    theta: float | None
    biases: bool
    # Values of the method's other parameters that were searched, as (name, value) pairs.
    parameters: tuple[tuple[str, Any], ...] = ()
    # Of the features' coefficients; None where there are none, or where nothing chose it.
    feature_ridge: float | None = None
    # Ridges of the row and column biases that the data gave; in files that were written before, both were lam.
    ridges: tuple[float, float] | None = None
    # Variance of the noise as a part of what offsets alone leave, which the ridges above take for noise.
    noise: float = 1.0
    # Of entries that were not observed; they do not count at weight 0.
    unobserved_weight: float = 0.0
    unobserved_value: float = 0.0
    # How much the regularizer of a line grows with its weight.
    frequency_power: float = 0.0
    # Of a model that ranks: low, high and power of the grades that values became.
    grades: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        # JSON has lists only.
        object.__setattr__(self, "parameters", tuple((name, value) for name, value in self.parameters))
        object.__setattr__(self, "ridges", None if self.ridges is None else tuple(map(float, self.ridges)))
        object.__setattr__(self, "grades", None if self.grades is None else tuple(map(float, self.grades)))
        for name, size in (("ridges", 2), ("grades", 3)):
            found = getattr(self, name)
            if found is not None and len(found) != size:
                raise ValueError(f"{name} has {len(found)} numbers instead of {size}")

    @property
    def of_method(self) -> dict[str, Any]:
        """What the method is asked to have, by name; None is its own."""
        return {"theta": self.theta, **dict(self.parameters)}

    def having(self, name: str, value: Any) -> Setting:
        """The same setting with another value of one of the method's parameters."""
        if name == "theta":
            return replace(self, theta=value)
        return replace(self, parameters=tuple({**dict(self.parameters), name: value}.items()))

    def facts(self) -> dict[str, Any]:
        """What can be tuned, by name."""
        features = {} if self.feature_ridge is None else {"feature_ridge": self.feature_ridge}
        named = {name: getattr(self, name) for name in ("unobserved_weight", "unobserved_value", "frequency_power")}
        features |= {name: value for name, value in named.items() if value}
        features |= {} if self.noise == 1 else {"noise": self.noise}
        if self.grades is not None:
            features["value_power"] = self.grades[2]
        return {
            **({} if self.lam is None else {"lam": self.lam}),
            "rank": self.rank,
            "theta": self.theta,
            "biases": self.biases,
            **features,
            **dict(self.parameters),
        }

    @property
    def bias_ridges(self) -> tuple[float, float] | None:
        """Ridges of the row and column biases; None without biases."""
        if not self.biases:
            return None
        lam = 1.0 if self.lam is None else self.lam
        rows, cols = (lam, lam) if self.ridges is None else self.ridges
        return self.noise * rows, self.noise * cols

    @property
    def beyond_entries(self) -> dict[str, Any]:
        """What a problem is told beside its entries, by the names of its fields."""
        unobserved = Unobserved(self.unobserved_weight, self.unobserved_value) if self.unobserved_weight else None
        return {"unobserved": unobserved, "frequency_power": self.frequency_power}

    def targets(self, observations: Observations) -> Observations:
        """What the factors are fitted to: the values, or their grades in a model that ranks."""
        return observations if self.grades is None else Grades(*self.grades).apply(observations)

    def __str__(self) -> str:
        theta = "" if self.theta is None else f"theta={self.theta:g}, "
        features = "" if self.feature_ridge is None else f", feature_ridge={self.feature_ridge:.4g}"
        if self.unobserved_weight:
            features += f", unobserved_weight={self.unobserved_weight:.3g}"
        own = features + "".join(f", {name}={value}" for name, value in self.parameters)
        lam = "" if self.lam is None else f"lam={self.lam:.4g}, "
        return f"{lam}rank={self.rank}, {theta}biases={self.biases}{own}"
