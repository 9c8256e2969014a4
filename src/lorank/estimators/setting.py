"""What a model is fitted with, once nothing is "auto" any more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """Numbers for the parameters that can be tuned; `biases` also says whether there is an offset."""

    lam: float
    rank: int
    theta: float
    biases: bool

    @property
    def bias_weight(self) -> float | None:
        """Ridge weight of the biases; None without them."""
        return self.lam if self.biases else None

    def __str__(self) -> str:
        return f"lam={self.lam:.4g}, rank={self.rank}, theta={self.theta:g}, biases={self.biases}"
