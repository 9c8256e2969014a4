"""How far the mean of the draws may be off: the Monte Carlo error of predictions, and whether chains agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lorank.observations import Observations
from lorank.types import Array

# Entries that are watched, and batches at least and at most, of so many draws or more.
PROBES, BATCHES, LEAST = 1000, 5, 4


@dataclass(frozen=True)
class Probes:
    """Entries at which draws are watched, and sums of their predictions over batches of `length` draws.

    There is room for twice BATCHES sums (batches, entries); when it is full, neighbours are added up and batches are
    twice as long from then on. So memory stays the same whatever the length of the chain.
    """

    rows: Array
    cols: Array
    sums: Array
    length: int = 1
    count: int = 0

    @classmethod
    def of(cls, observations: Observations, seed: int) -> Probes:
        """Pairs with rows and columns as often as the data has them, but put together at random."""
        of_rows, of_cols = drawn_entries(observations.nnz, seed)
        return cls.at(observations.rows[of_rows], observations.cols[of_cols])

    @classmethod
    def at(cls, rows: Array, cols: Array) -> Probes:
        """These pairs."""
        return cls(rows, cols, np.zeros((2 * BATCHES, rows.size)))

    def add(self, x: Array) -> Probes:
        """With the predictions of one more draw."""
        sums, length, count = self.sums.copy(), self.length, self.count
        if count == 2 * BATCHES * length:
            sums[:BATCHES] = sums[::2] + sums[1::2]
            sums[BATCHES:] = 0
            length *= 2
        sums[count // length] += x
        return replace(self, sums=sums, length=length, count=count + 1)

    def burn_in(self) -> tuple[int, float]:
        """How many draws at the beginning belong to the burn-in, and the variance of the mean over all others.

        The variance, averaged over entries, is that of the means of B batches by B. Draws on the way from the start to
        the posterior make it larger than those after them make it smaller: as many batches are left out, up to half, as
        make it smallest (the marginal standard error rule). It is infinite before there are enough draws to tell.

        References
        ----------
        White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 1997.
        """
        batches = self.count // self.length
        if self.length < LEAST or batches < BATCHES:
            return 0, float("inf")
        means = self.sums[:batches] / self.length
        variances = [means[out:].var(axis=0, ddof=1).mean() / (batches - out) for out in range(batches // 2 + 1)]
        out = int(np.argmin(variances))
        return out * self.length, float(variances[out])


def drawn_entries(entries: int, seed: int) -> tuple[Array, Array]:
    """Which of so many entries, row-major, the rows of the probes are taken from, and which the columns."""
    rng, size = np.random.default_rng([seed, 0, 9]), min(PROBES, entries)
    return rng.integers(0, entries, size), rng.integers(0, entries, size)


def split_rhat(chains: Sequence[Array]) -> float:
    """Whether chains agree: the split R-hat of entries, chains being arrays (draws, entries); its median over entries.

    Each chain is cut in two. With W the mean variance within halves of n draws and B / n the variance of their means,
    R-hat = sqrt((n - 1) / n + B / (n W)): near 1 when all halves tell the same, above about 1.1 when they do not.

    References
    ----------
    Gelman et al., "Bayesian Data Analysis", third edition, section 11.4.
    """
    n = min(len(chain) for chain in chains) // 2
    if n < 2:
        return float("nan")
    halves = np.array([half for chain in chains for half in (chain[:n], chain[-n:])])
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    return float(np.median(np.sqrt((n - 1) / n + between / np.maximum(within, 1e-300))))
