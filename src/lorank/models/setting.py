"""What a model was fitted with, once nothing is "auto" any more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Setting:
    """Numbers for the parameters that can be tuned; a theta of None is the method's default."""

    lam: float
    rank: int
    theta: float | None
    biases: bool
    # Values of the method's other parameters that were searched, as (name, value) pairs.
    parameters: tuple[tuple[str, Any], ...] = ()
    # Of the features' coefficients; None where there are none, or where nothing chose it.
    feature_ridge: float | None = None
    # Ridges of the row and column biases that the data gave; in files that were written before, both were lam.
    ridges: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        # JSON has lists only.
        object.__setattr__(self, "parameters", tuple((name, value) for name, value in self.parameters))
        object.__setattr__(self, "ridges", None if self.ridges is None else tuple(map(float, self.ridges)))

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
        return {
            "lam": self.lam,
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
        return (self.lam, self.lam) if self.ridges is None else self.ridges

    def __str__(self) -> str:
        theta = "" if self.theta is None else f"theta={self.theta:g}, "
        features = "" if self.feature_ridge is None else f", feature_ridge={self.feature_ridge:.4g}"
        own = features + "".join(f", {name}={value}" for name, value in self.parameters)
        return f"lam={self.lam:.4g}, rank={self.rank}, {theta}biases={self.biases}{own}"
