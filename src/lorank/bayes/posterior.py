"""What is kept of a chain of draws, and what it says about an entry.

A draw is a pair of factors. Given the columns H, the rows of W are independent Gaussians whose means are known exactly,
so a draw is kept as these means, one sample of the deviations from them, and H. Averaging <E[w_i | H], h_j> rather
than <w_i, h_j> (Rao-Blackwell) is worth about twice as many draws.

Kept draws lie side by side in wide arrays, so that the posterior mean is itself a `Factors`, of width draws * width:
it predicts and completes like any other. With biases a row is (w, a + offset, 1) and a column (h, 1, b).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank import kernels
from lorank.linalg import Factors, padded_width, truncated_svd
from lorank.linalg.factors import check_memory

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Draws:
    """Room for `room` draws of factors of rank k; arrays are written in place.

    When there is no room left, every second draw is dropped and from then on half as many are kept: whatever the length
    of the chain, the kept ones are spread evenly over it. Memory: room * (2 m + n) * (k, or k + 2 with biases)
    numbers.
    """

    means: Array
    deviations: Array
    right: Array
    k: int
    width: int
    room: int
    offset: float = 0.0
    offered: int = 0
    count: int = 0
    every: int = 1

    @classmethod
    def empty(cls, start: Factors, room: int) -> Draws:
        """Room for draws of the shape and precision of `start`."""
        width = start.k + 2 if start.biased else start.k
        m, n = start.shape
        q = padded_width(room * width)
        needed = (2 * m + n) * q * start.dtype.itemsize
        check_memory(needed, f"{room} posterior draws of a {m} x {n} matrix at rank {start.k}")
        means, deviations, right = (np.zeros((lines, q), start.dtype) for lines in (m, m, n))
        return cls(means, deviations, right, start.k, width, room, start.offset)

    def offer(self, draw: Factors, mean: Array) -> Draws:
        """Keep a draw if its turn has come; `mean` (padded) is that of its rows given its columns."""
        count, every = self.count, self.every
        if self.offered % every == 0 and count == self.room:
            count, every = -(-count // 2), 2 * every
            for wide in (self.means, self.deviations, self.right):
                for slot in range(1, count):
                    self._slot(wide, slot)[:] = self._slot(wide, 2 * slot)
        if self.offered % every == 0:
            self._write(count, draw, mean)
            count += 1
        return replace(self, offered=self.offered + 1, count=count, every=every)

    def _slot(self, wide: Array, slot: int) -> Array:
        return wide[:, slot * self.width : (slot + 1) * self.width]

    def _write(self, slot: int, draw: Factors, mean: Array) -> None:
        k, p = self.k, self.k + draw.biased
        means, deviations, right = (self._slot(wide, slot) for wide in (self.means, self.deviations, self.right))
        means[:, :p] = mean[:, :p]
        deviations[:, :p] = draw.left[:, :p] - mean[:, :p]
        right[:, :k] = draw.H
        if draw.biased:
            means[:, k] += draw.dtype.type(draw.offset)
            means[:, k + 1] = 1
            right[:, k] = 1
            right[:, k + 1] = draw.col_bias

    def finish(self, noise_variance: float) -> Posterior:
        """The posterior; it takes the arrays over, so nothing can be offered afterwards."""
        used = self.count * self.width
        means = self.means
        means[:, used:] = 0
        means *= means.dtype.type(1 / self.count)
        mean = Factors(means, self.right, self.room * self.width)
        return Posterior(mean, self.deviations, self.k, self.width, self.count, self.offset, noise_variance)


@dataclass(frozen=True)
class Posterior:
    """Mean and standard deviation of every entry.

    mean : Factors
        Of the posterior mean, which is of higher rank than each draw: all draws side by side, the left ones divided by
        their number.
    noise_variance : float
        Posterior mean of the variance of an observed value around its entry.
    """

    mean: Factors
    deviations: Array
    k: int
    width: int
    draws: int
    offset: float
    noise_variance: float

    def std(
        self, rows: Array, cols: Array, noise: bool = False, workers: kernels.Workers | None = None
    ) -> npt.NDArray[Any]:
        """Posterior standard deviation of entries; with `noise`, that of a value observed there."""
        out = np.empty(len(rows))
        args = (rows, cols, self.mean.left, self.deviations, self.mean.right, self.width, self.draws, out)
        pool = workers or kernels.Workers()
        pool.run_evenly(kernels.spread_pairs, len(rows), *args, work_per_line=4 * self.draws * self.width)
        return np.sqrt(out + noise * self.noise_variance).astype(self.mean.dtype)

    @cached_property
    def summary(self) -> Factors:
        """One pair of factors: mean biases, and the best rank-k approximation of the mean of W H^T, balanced."""
        operator = _MeanProduct(self)
        rng = np.random.default_rng(0)
        found = truncated_svd(operator, self.mean.right[:, : self.k], 0.0, self.k, rng)
        root = np.sqrt(found.sigma)
        W, H = found.U * root, found.V * root
        if self.width == self.k:
            return Factors.of(W, H)
        return Factors.of(W, H, operator.row_bias - operator.row_bias.dtype.type(self.offset), operator.col_bias)


class _MeanProduct:
    """The mean of W H^T over the draws, biases taken off, known by its products."""

    def __init__(self, posterior: Posterior) -> None:
        self.left, self.right = posterior.mean.left, posterior.mean.right
        self.shape = posterior.mean.shape
        k, width, used = posterior.k, posterior.width, posterior.draws * posterior.width
        self.row_bias, self.col_bias = (np.zeros(lines, self.left.dtype) for lines in self.shape)
        if width > k:
            self.row_bias = self.left[:, k:used:width].sum(axis=1)
            self.col_bias = self.right[:, k + 1 : used : width].mean(axis=1)

    def dot(self, B: Array) -> Array:
        return self.left @ (self.right.T @ B) - np.outer(self.row_bias, B.sum(axis=0)) - self.col_bias @ B

    def transposed_dot(self, B: Array) -> Array:
        return self.right @ (self.left.T @ B) - np.outer(self.col_bias, B.sum(axis=0)) - self.row_bias @ B
