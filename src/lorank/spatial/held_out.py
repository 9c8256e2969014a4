"""Which values are hidden from a fit to judge it: as the data itself misses them.

A place without any value is predicted from the map, a gap of a place that has values from these, too, and what is best
for the one is not for the other. So both are held out: whole places, and the gaps that other places have. Each kind
counts in the error as much as it has missing values in the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lorank.types import Array

# Part of the measured places that are hidden whole, and the part of all values that gaps hide at most.
WHOLE, GAPS = 0.12, 0.12
# Fewer measured places than this cannot spare any.
FEWEST = 5


@dataclass(frozen=True)
class HeldOut:
    """Hidden values (m, n) of whole places, and of gaps; `share` is the part of whole places in what is missing."""

    whole: Array
    gaps: Array
    share: float

    def hide(self, values: Array) -> Array:
        """The values that remain, NaN elsewhere."""
        return np.where(self.whole | self.gaps, np.nan, values)

    @property
    def places_with_gaps(self) -> float:
        """How many places gaps were hidden of; a place with few hidden values counts little beside others."""
        counts = self.gaps.sum(axis=1).astype(float)
        return float(counts.sum() ** 2 / max((counts**2).sum(), 1.0))

    def error(self, squares: Array, whole: Array, gaps: Array) -> float:
        """Root mean squared error, both kinds in their proportion, from squares and masks of the same shape."""
        parts = [(self.share, whole), (1 - self.share, gaps)]
        kept = [(weight, float(squares[mask].mean())) for weight, mask in parts if weight > 0 and mask.any()]
        total = sum(weight for weight, _ in kept)
        if not total:
            return float(np.sqrt(squares[whole | gaps].mean()))
        return float(np.sqrt(sum(weight * square for weight, square in kept) / total))


def hold_out(values: Array, seed: int) -> HeldOut | None:
    """Hide some of the values (m, n), NaN missing; None if there are too few places to spare any."""
    rng = np.random.default_rng(seed)
    seen = ~np.isnan(values)
    measured = rng.permutation(np.flatnonzero(seen.any(axis=1)))
    if measured.size < FEWEST:
        return None
    nowhere = ~seen.any(axis=1)
    missing = int((~seen).sum())
    share = float(nowhere.sum() * values.shape[1] / missing) if missing else 1.0
    whole, gaps = np.zeros_like(seen), np.zeros_like(seen)
    first = max(1, round(WHOLE * measured.size))
    whole[measured[:first]] = seen[measured[:first]]
    rest = measured[first:]
    donors = np.flatnonzero(~seen.all(axis=1) & ~nowhere)
    # Places with many values first: a gap in what is mostly missing says little of what the data's gaps are like.
    counts = seen[rest].sum(axis=1)
    rest = np.concatenate([rest[counts >= np.median(counts)], rest[counts < np.median(counts)]])
    enough = GAPS * seen[rest].sum()
    hidden = 0
    for place in rest[: max(1, round(0.8 * rest.size))]:
        if hidden >= enough:
            break
        absent = ~seen[rng.choice(donors)] if donors.size else rng.random(values.shape[1]) < 0.5
        gap = seen[place] & absent
        if gap.any() and (seen[place] & ~gap).any():
            gaps[place] = gap
            hidden += int(gap.sum())
    return HeldOut(whole, gaps, share)
