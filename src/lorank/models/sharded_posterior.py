"""A posterior in a folder of shards: its files, and what is read of them.

Beside the mean, which is the model's factors, each shard of rows has files of deviations, of the noise's variances and
of the summary, each shard of columns those of noise and summary. What features say of lines in each draw does not grow
with the lines: it is one array beside the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank import kernels
from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.models.packing import unpack_priors
from lorank.models.shard_files import FEATURED_FORMAT, SAMPLED_FORMAT
from lorank.models.sharded import ShardedFactors
from lorank.solvers import Posterior
from lorank.types import Array

DEVIATIONS, NOISE, SUMMARY = "deviations", "noise", "summary"
# Bytes of lines that are read at a time.
BLOCK = 1 << 26

# A padded factor of width k: a function of the side ("row" or "col"), the name and k.
Read = Callable[[str, str, int], Any]


@dataclass(frozen=True)
class ShardedPosterior(Posterior):
    """A posterior whose arrays are in shards: of those, the lines that are asked for are read."""

    @property
    def noise_variance(self) -> float:
        sides: Any = self.noise.left, self.noise.right
        left, right = (
            sum(side.shard(number).sum(axis=0, dtype=np.float64) for number in range(len(side.ends) - 1)) / len(side)
            for side in sides
        )
        return float(left @ right)

    def std(self, rows: Array, cols: Array, noise: bool = False, workers: kernels.Workers | None = None) -> Array:
        parts = [near.std(i, j, noise, workers) for near, i, j in self._near(rows, cols)]
        return np.concatenate([np.zeros(0, self.mean.dtype), *parts])

    def halves(self, rows: Array, cols: Array, level: float, workers: kernels.Workers | None = None) -> Array:
        parts = [near.halves(i, j, level, workers) for near, i, j in self._near(rows, cols)]
        return np.concatenate([np.zeros(0, self.mean.dtype), *parts])

    def samples(self, rows: Array, cols: Array) -> Array:
        parts = [near.samples(i, j) for near, i, j in self._near(rows, cols)]
        return np.concatenate([np.zeros((self.draws, 0)), *parts], axis=1)

    def _near(self, rows: Array, cols: Array) -> Iterator[tuple[Posterior, Array, Array]]:
        """Pairs in blocks, each with the posterior of the lines that it mentions and positions in that."""
        size = max(BLOCK // (3 * self.mean.left.shape[1] * self.mean.dtype.itemsize), 1)
        for first in range(0, len(rows), size):
            (i, at_rows), (j, at_cols) = (
                np.unique(side[first : first + size], return_inverse=True) for side in (rows, cols)
            )
            mean, summary, noise = (
                Factors(one.left[i], one.right[j], one.k, one.biased, one.offset)
                for one in (self.mean, self.summary, self.noise)
            )
            near = Posterior(mean, summary, self.deviations[i], self.width, self.draws, noise)
            yield near, at_rows, at_cols

    def loaded(self) -> Posterior:
        """The same posterior in memory."""
        mean, summary, noise = (
            Factors(np.asarray(one.left), np.asarray(one.right), one.k, one.biased, one.offset)
            for one in (self.mean, self.summary, self.noise)
        )
        deviations = np.asarray(self.deviations)
        return Posterior(mean, summary, deviations, self.width, self.draws, noise, priors=self.priors)


def laid_out(factors: Factors, posterior: Posterior | None) -> tuple[Factors, dict[str, Any], dict[str, Any]]:
    """The factors that are written, further padded arrays by side and name, and what the manifest says of them."""
    if posterior is None:
        return factors, {"row": {}, "col": {}}, {}
    if posterior.levels is not None:
        raise InputError("A model that was sampled with levels is saved as one file: shards have no room for cuts.")
    if posterior.mean.k > posterior.draws * posterior.width:
        posterior = posterior.part(0, posterior.draws)  # without room for further draws
    summary, noise = posterior.summary, posterior.noise
    rows = {DEVIATIONS: posterior.deviations, NOISE: noise.left, SUMMARY: summary.left}
    about: dict[str, Any] = {"width": int(posterior.width), "draws": int(posterior.draws), "rank": int(summary.k)}
    about |= {"biased": bool(summary.biased), "offset": float(summary.offset)}
    beside = {"row": rows, "col": {NOISE: noise.right, SUMMARY: summary.right}}
    known = any(prior.known for prior in posterior.priors or ())
    return posterior.mean, beside, {"posterior": about, "format": FEATURED_FORMAT if known else SAMPLED_FORMAT}


def read_posterior(about: dict[str, Any], mean: Factors, read: Read, arrays: dict[str, Array]) -> ShardedPosterior:
    """The posterior that a manifest describes, every shard of which is checked when it is read; `arrays` has the priors
    of sides with features."""
    width, draws, rank = (int(about[name]) for name in ("width", "draws", "rank"))
    biased = bool(about["biased"])
    if min(width, draws, rank) < 1 or mean.k != width * draws or width != rank + 2 * biased:
        raise ValueError("its posterior does not go with its factors")
    noise = ShardedFactors(read("row", NOISE, draws), read("col", NOISE, draws), draws)
    sides = read("row", SUMMARY, rank), read("col", SUMMARY, rank)
    summary = ShardedFactors(*sides, rank, biased, float(about["offset"]))
    priors = unpack_priors(arrays, draws, rank + biased)
    return ShardedPosterior(mean, summary, read("row", DEVIATIONS, mean.k), width, draws, noise, priors=priors)
