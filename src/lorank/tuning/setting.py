"""Words of the tuning: what is to be chosen, and the setting that comes of it."""

from __future__ import annotations

from lorank.losses import Loss
from lorank.models.setting import Setting
from lorank.observations import Observations

# The word for a parameter that is to be tuned.
AUTO = "auto"

__all__ = ["AUTO", "Setting", "prepared"]


def prepared(observations: Observations, loss: Loss) -> Observations:
    """Values as the loss wants them; itself, with all that it has computed, if they are that already."""
    values = loss.prepare(observations.values)
    return observations if values is observations.values else observations.with_values(values)
