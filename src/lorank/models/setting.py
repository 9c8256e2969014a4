"""What a model was fitted with, once nothing is "auto" any more."""

from __future__ import annotations

from dataclasses import dataclass


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
