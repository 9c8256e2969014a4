"""Words of the tuning: what is to be chosen, and the setting that comes of it."""

from __future__ import annotations

from dataclasses import replace

from lorank.losses import Loss
from lorank.models.setting import Setting
from lorank.observations import Observations
from lorank.problems.offsets import empirical_bayes_offsets

# The word for a parameter that is to be tuned.
AUTO = "auto"

__all__ = ["AUTO", "Setting", "prepared", "with_ridges"]


def prepared(observations: Observations, loss: Loss) -> Observations:
    """Values as the loss wants them; itself, with all that it has computed, if they are that already."""
    values = loss.prepare(observations.values)
    return observations if values is observations.values else observations.with_values(values)


def with_ridges(setting: Setting, observations: Observations, loss: Loss) -> Setting:
    """The setting with the ridges of its biases, if it has any, that these observations give.

    Offsets of scores x under a loss of curvature c have c times the ridge that least squares has: near its minimum the
    loss is c/2 (x - o)^2.
    """
    if not setting.biases:
        return replace(setting, ridges=None)
    rows, cols = empirical_bayes_offsets(prepared(observations, loss)).ridges
    return replace(setting, ridges=(loss.curvature * rows, loss.curvature * cols))
