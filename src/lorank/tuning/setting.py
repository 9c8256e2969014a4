"""Words of the tuning: what is to be chosen, and the setting that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lorank.losses import Loss
from lorank.models.setting import Setting
from lorank.observations import Observations
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.registry import Method

# The word for a parameter that is to be tuned.
AUTO = "auto"

# Noise as a part of what offsets alone leave: biases with next to no ridge could take over what factors have for free.
LEAST_NOISE = 1e-1

__all__ = ["AUTO", "Setting", "Space", "noise_by_threshold", "noise_norm", "prepared", "with_ridges"]


@dataclass(frozen=True)
class Space:
    """What is searched.

    Attributes
    ----------
    lam, rank, biases : None for one that is to be chosen
    theta : as it is given; None is the method's default
    searched : mapping
        Values among which the method's own parameters are chosen, by name; the path begins with the first of each.
    features : bool
        Whether there are features whose ridge is to be chosen.
    offsets : bool
        Whether offsets alone, rank 0, may be chosen.
    given : mapping
        What else is said of every trial.
    """

    lam: float | None = None
    rank: int | None = None
    theta: float | None = None
    biases: bool | None = None
    searched: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    features: bool = False
    offsets: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, method: Method, lam: Any, rank: Any, theta: Any, biases: Any) -> Space:
        """From an estimator's parameters, any of them "auto"."""
        searched = method.automatic
        if theta == AUTO and method.searches("theta"):
            searched = ("theta", *searched)
        if lam == AUTO and "lam" not in method.parameters:
            lam = 1.0
        return cls(
            None if lam == AUTO else float(lam),
            None if rank == AUTO else int(rank),
            None if theta is None or theta == AUTO else float(theta),
            None if isinstance(biases, str) else bool(biases),
            {name: method.candidates(name) for name in searched},
            offsets=rank == AUTO and biases is not False and "lam" in method.parameters,
        )


def prepared(observations: Observations, loss: Loss) -> Observations:
    """Values as the loss wants them; itself, with all that it has computed, if they are that already."""
    values = loss.prepare(observations.values)
    return observations if values is observations.values else observations.with_values(values)


def noise_norm(observations: Observations) -> float:
    """About the spectral norm of noise of variance 1 at the observed entries (0 elsewhere).

    sqrt(nnz / m) + sqrt(nnz / n) for m rows and n columns that have entries; weights count as entries. Of noise with
    the standard deviation s, a proximal step with a threshold of s times this leaves nothing.
    """
    sums = [lines.totals() for lines in (observations.by_row, observations.by_col)]
    return float(sum(np.sqrt(side.sum() / np.count_nonzero(side)) for side in sums))


def with_ridges(setting: Setting, observations: Observations, loss: Loss, threshold: float | None = None) -> Setting:
    """The setting with the ridges of its biases, if it has any, that these observations give.

    Offsets of scores x under a loss of curvature c have c times the ridge that least squares has: near its minimum the
    loss is c/2 (x - o)^2.

    With the regularizer's threshold, how much of what offsets leave is noise is told by that; see `noise_by_threshold`.
    """
    if not setting.biases:
        return replace(setting, ridges=None)
    found = empirical_bayes_offsets(prepared(observations, loss))
    rows, cols = found.ridges
    if threshold is not None:
        noise = noise_by_threshold(threshold / loss.curvature, noise_norm(observations), found.s2)
        setting = replace(setting, noise=noise)
    return replace(setting, ridges=(loss.curvature * rows, loss.curvature * cols))


def noise_by_threshold(threshold: float, norm: float, s2: float) -> float:
    """Variance of the noise as a part of s2, what offsets alone leave, where nobody has searched it.

    Offsets alone take all that is of low rank for noise. A regularizer's threshold that takes off noise of the standard
    deviation s and no more is s times the noise's `norm`, so that the noise is no more than that.
    """
    return float(np.clip((threshold / norm) ** 2 / s2, LEAST_NOISE, 1.0)) if s2 > 0 else 1.0
