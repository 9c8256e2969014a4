"""Draws of the prior of one side's lines: what new lines are expected to be in each kept draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lorank.types import Array


@dataclass(frozen=True)
class PriorDraws:
    """In draw s a line with coordinates u (r,) along its features' directions is N(mu_s + u C_s, Lambda_s^-1).

    mu (draws, p), Lambda (draws, p, p), coefficients C (draws, r, p). There are none for a side without features, whose
    lines themselves say what new ones will be like.
    """

    mu: Array
    Lambda: Array
    coefficients: Array

    @classmethod
    def empty(cls, room: int, p: int, r: int) -> PriorDraws:
        """Room for draws of a side with r directions; none without features."""
        room = room if r else 0
        return cls(np.zeros((room, p)), np.zeros((room, p, p)), np.zeros((room, r, p), np.float32))

    @property
    def known(self) -> bool:
        return len(self.mu) > 0

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        return self.mu, self.Lambda, self.coefficients

    def write(self, slot: int, mu: Array, Lambda: Array, coefficients: Array | None) -> None:
        """Keep a draw, in place."""
        if self.known and coefficients is not None:
            self.mu[slot], self.Lambda[slot], self.coefficients[slot] = mu, Lambda, coefficients

    def appended(self, mu: Array, Lambda: Array, coefficients: Array | None) -> PriorDraws:
        """With a draw more; as they are for a side without features."""
        if coefficients is None:
            return self
        drawn = [one[None] for one in (mu, Lambda, coefficients.astype(np.float32))]
        return (
            PriorDraws(*(np.concatenate(both) for both in zip(self.arrays, drawn)))
            if self.known
            else PriorDraws(*drawn)
        )

    def thin(self, count: int) -> None:
        """Move every second draw up, in place, until there are `count`."""
        for array in self.arrays if self.known else ():
            for slot in range(1, count):
                array[slot] = array[2 * slot]

    def chosen(self, draws: slice) -> PriorDraws:
        """These of the draws."""
        return PriorDraws(*(array[draws] for array in self.arrays))

    def means(self, s: int, coordinates: Array) -> Array:
        """mu_s + u C_s (lines, p) of lines with these coordinates (lines, r)."""
        return self.mu[s] + coordinates @ self.coefficients[s]


def joined_priors(parts: Sequence[PriorDraws]) -> PriorDraws:
    """The draws of several chains."""
    arrays = [np.concatenate(each) for each in zip(*(part.arrays for part in parts))]
    return replace(parts[0], mu=arrays[0], Lambda=arrays[1], coefficients=arrays[2])
