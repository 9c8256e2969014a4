"""Fits to values of which some are hidden, and their errors there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from lorank.kernels import Workers
from lorank.spatial.fields import TRIAL_TOL, FieldModel, LowRank
from lorank.spatial.held_out import HeldOut, hold_out
from lorank.spatial.separation import Separation, Separator, inward, outward
from lorank.types import Array

# Held-out values are judged at no more times than this, spread evenly.
JUDGED = 120
# So many places with held-out gaps tell how large errors are, and gaps are held out so many times at most.
GAP_PLACES, GAP_TRIALS = 50, 3


class Trial:
    """A separation of values of which some are hidden, and the errors of fits to it; the last field is kept."""

    def __init__(self, separation: Separation, held: HeldOut, values: Array) -> None:
        self.separation, self.held, self.values = separation, held, values
        n = values.shape[1]
        self.times = np.unique(np.linspace(0, n - 1, min(JUDGED, n)).astype(int))
        self.rows = np.flatnonzero((held.whole | held.gaps).any(axis=1))
        self._inward = inward(values, separation.name)
        self._key: tuple[Any, ...] | None = None
        self._low_rank: LowRank | None = None

    @cached_property
    def _variance(self) -> Array:
        return np.add(*self.separation.variances(self.rows))[:, self.times]

    def fitted(self, model: FieldModel, parameters: Mapping[str, Any]) -> LowRank:
        """The low-rank field; another way with residuals needs no other."""
        key = tuple(value for name, value in parameters.items() if not name.startswith("residual"))
        if key != self._key or self._low_rank is None:
            self._key, self._low_rank = key, model.low_rank(self.separation.z, parameters, TRIAL_TOL)
        return self._low_rank

    def misses(
        self, model: FieldModel, parameters: Mapping[str, Any], rows: Array, times: Array, workers: Workers
    ) -> Array:
        """Prediction minus value (r, t), as they are separated."""
        fitted, known = self.fitted(model, parameters), self.separation.normalisation
        field = fitted.W @ fitted.H[times].T
        left_over = self.separation.z[:, times] - field
        z = field[rows] + model.residuals(left_over, parameters, model.places[rows], workers)
        return known.part(rows, times).undo(z) - self._inward[np.ix_(rows, times)]

    def error(self, model: FieldModel, parameters: Mapping[str, Any], workers: Workers) -> float:
        """On what is held out, whole places without their mean error.

        That is the error of the map of levels, which is large, and the same whatever is tried: it would only hide the
        differences.
        """
        miss, whole, gaps = self._judged(model, parameters, workers)
        return self.held.error(miss**2, whole, gaps)

    def typical_error(self, model: FieldModel, parameters: Mapping[str, Any], workers: Workers) -> float:
        """The geometric mean over the places of their errors, both kinds in their proportion.

        Normalisations are compared by it: of amounts, one place with large values would decide by itself.
        """
        miss, whole, gaps = self._judged(model, parameters, workers)
        total, weights = 0.0, 0.0
        for weight, mask in ((self.held.share, whole), (1 - self.held.share, gaps)):
            some = mask.any(axis=1)
            if weight > 0 and some.any():
                squares = np.where(mask, miss, 0.0)[some] ** 2
                mean = squares.sum(axis=1) / mask[some].sum(axis=1)
                total += weight * float(np.mean(np.log(np.maximum(mean, 1e-300)))) / 2
                weights += weight
        return float(np.exp(total / weights)) if weights else self.held.error(miss**2, whole, gaps)

    def _judged(self, model: FieldModel, parameters: Mapping[str, Any], workers: Workers) -> tuple[Array, Array, Array]:
        """Errors (r, t) in the unit of the data where they are judged, whole places without their mean, and the masks
        of values of whole places and of gaps."""
        here = np.ix_(self.rows, self.times)
        short = self.misses(model, parameters, self.rows, self.times, workers)
        whole, gaps, miss = self.held.whole[here], self.held.gaps[here], short
        if self.separation.name == "roots":
            variance = self._variance.copy()
            for mask in (whole, gaps):
                # How large errors are is known up to a factor; see `cell_errors`.
                if mask.any():
                    variance[mask] *= np.mean(short[mask] ** 2) / max(float(np.mean(variance[mask])), 1e-300)
            miss = outward(short + self._inward[here], variance, self.separation.name) - self.values[here]
        count = np.maximum(whole.sum(axis=1), 1)
        mean = np.where(whole, miss, 0.0).sum(axis=1) / count
        return miss - np.where(whole, mean[:, None], 0.0), whole, gaps

    def gaps(self, model: FieldModel, parameters: Mapping[str, Any], workers: Workers) -> tuple[Array, Array, Array]:
        """Errors of held-out gaps, and the two variances of each."""
        rows, times = np.flatnonzero(self.held.gaps.any(axis=1)), np.arange(self.values.shape[1])
        if not rows.size:
            return np.empty(0), np.empty(0), np.empty(0)
        mask = self.held.gaps[rows]
        miss = self.misses(model, parameters, rows, times, workers)[mask]
        level, anomaly = (part[mask] for part in self.separation.variances(rows))
        return miss, level, anomaly


def gap_errors(
    trial: Trial,
    separator: Callable[[Array], Separator],
    model: FieldModel,
    parameters: Mapping[str, Any],
    seed: int,
    workers: Workers,
) -> tuple[Array, Array, Array]:
    """Errors of held-out gaps, and the two variances of each: of a trial, and of others with other gaps if its places
    are few.

    Errors of one place are alike, so that many gaps of a few places do not tell how large errors are.
    """
    parts, places = [trial.gaps(model, parameters, workers)], trial.held.places_with_gaps
    for repeat in range(1, GAP_TRIALS):
        held = hold_out(trial.values, seed + repeat) if places < GAP_PLACES else None
        if held is None:
            break
        separation = separator(held.hide(trial.values)).separate(trial.separation.name, trial.separation.chosen)
        trial = Trial(separation, held, trial.values)
        parts.append(trial.gaps(model, parameters, workers))
        places += held.places_with_gaps
    miss, level, anomaly = (np.concatenate(part) for part in zip(*parts))
    return miss, level, anomaly
