"""How far a prediction x is from what was seen, o: one function of two numbers, summed over the observed entries.

A solver needs its value, its derivative by x, and a bound L on the second derivative. With it,

    f(x) <= f(x0) + f'(x0) (x - x0) + L/2 (x - x0)^2 = L/2 (x - (x0 - f'(x0) / L))^2 + const,

so that every solver of least squares takes such a step on the working values x0 - f'(x0) / L, and F does not increase.
"""

from __future__ import annotations

from lorank.errors import InputError
from lorank.losses.columns import ByColumn, Multinomial
from lorank.losses.ordinal import MAX_LEVELS, Ordinal, distinct_levels
from lorank.losses.pointwise import Huber, Likelihood, Logistic, Loss, Poisson, Squared

__all__ = [
    "LOSSES",
    "MAX_LEVELS",
    "SQUARED",
    "ByColumn",
    "Huber",
    "Likelihood",
    "Logistic",
    "Loss",
    "Multinomial",
    "Ordinal",
    "Poisson",
    "Squared",
    "distinct_levels",
    "find",
]

SQUARED = Squared()
LOSSES: dict[str, type[Loss]] = {
    "squared": Squared,
    "huber": Huber,
    "logistic": Logistic,
    "ordinal": Ordinal,
    "poisson": Poisson,
}


def find(loss: str | Loss) -> Loss:
    """The loss of this name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise InputError(f"Unknown loss {loss!r}; there are {', '.join(LOSSES)}.")
    return LOSSES[loss]()
