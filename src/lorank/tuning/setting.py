"""What a model is fitted with, once nothing is "auto" any more."""

from __future__ import annotations

from dataclasses import dataclass

from lorank.losses import Loss
from lorank.observations import Observations

# The word for a parameter that is to be tuned.
AUTO = "auto"


@dataclass(frozen=True)
class Setting:
    """Numbers for the parameters that can be tuned; a theta of None is the method's default."""

    lam: float
    rank: int
    theta: float | None
    biases: bool

    @property
    def bias_weight(self) -> float | None:
        """Ridge weight of the biases; None without them."""
        return self.lam if self.biases else None

    def __str__(self) -> str:
        theta = "" if self.theta is None else f"theta={self.theta:g}, "
        return f"lam={self.lam:.4g}, rank={self.rank}, {theta}biases={self.biases}"


def prepared(observations: Observations, loss: Loss) -> Observations:
    """Values as the loss wants them; itself, with all that it has computed, if they are that already."""
    values = loss.prepare(observations.values)
    return observations if values is observations.values else observations.with_values(values)
