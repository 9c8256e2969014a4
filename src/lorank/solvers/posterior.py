"""What is kept of a chain of draws, and what it says about an entry.

A draw is a pair of factors. Given the columns H, the rows of W are independent Gaussians whose means are known exactly,
so a draw is kept as these means, one sample of the deviations from them, and H. Averaging <E[w_i | H], h_j> rather
than <w_i, h_j> (Rao-Blackwell) is worth about twice as many draws.

Kept draws lie side by side in wide arrays, so that the posterior mean is itself a `Factors`, of width draws * width:
it predicts and completes like any other. With biases a row is (w, a + offset, 1) and a column (h, 1, b).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lorank import kernels
from lorank.linalg import Factors, padded_width, truncated_svd
from lorank.linalg.memory import check_memory
from lorank.types import Array


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
        summary = _summary(mean, self.k, self.width, self.count, self.offset)
        return Posterior(mean, summary, self.deviations, self.width, self.count, noise_variance)


@dataclass(frozen=True)
class Posterior:
    """Mean and standard deviation of every entry.

    mean : Factors
        Of the posterior mean, which is of higher rank than each draw: all draws side by side, the left ones divided by
        their number.
    summary : Factors
        Of rank k: mean biases, and the best rank-k approximation of the mean of W H^T, balanced.
    noise_variance : float
        Posterior mean of the variance of an observed value around its entry.
    """

    mean: Factors
    summary: Factors
    deviations: Array
    width: int
    draws: int
    noise_variance: float

    def std(self, rows: Array, cols: Array, noise: bool = False, workers: kernels.Workers | None = None) -> Array:
        """Posterior standard deviation of entries; with `noise`, that of a value observed there."""
        out = np.empty(len(rows))
        args = (rows, cols, self.mean.left, self.deviations, self.mean.right, self.width, self.draws, out)
        pool = workers or kernels.Workers()
        pool.run_evenly(kernels.spread_pairs, len(rows), *args, work_per_line=4 * self.draws * self.width)
        return np.sqrt(out + noise * self.noise_variance).astype(self.mean.dtype)


def _summary(mean: Factors, k: int, width: int, draws: int, offset: float) -> Factors:
    """The posterior mean in factors of rank k."""
    used = draws * width
    row_bias, col_bias = (np.zeros(lines, mean.dtype) for lines in mean.shape)
    if width > k:
        row_bias = mean.left[:, k:used:width].sum(axis=1)
        col_bias = mean.right[:, k + 1 : used : width].mean(axis=1)
    operator = _WithoutBiases(mean, row_bias, col_bias)
    # A draw is so near to the mean that two or three passes from it are enough.
    found = truncated_svd(operator, mean.right[:, :k], 0.0, k, np.random.default_rng(0))
    root = np.sqrt(found.sigma)
    W, H = found.U * root, found.V * root
    if width == k:
        return Factors.of(W, H)
    return Factors.of(W, H, row_bias - row_bias.dtype.type(offset), col_bias, offset)


@dataclass(frozen=True)
class _WithoutBiases:
    """X - a 1^T - 1 b^T, known by its products."""

    X: Factors
    row_bias: Array
    col_bias: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    def dot(self, B: Array) -> Array:
        X = self.X
        return X.left @ (X.right.T @ B) - np.outer(self.row_bias, B.sum(axis=0)) - self.col_bias @ B

    def transposed_dot(self, B: Array) -> Array:
        X = self.X
        return X.right @ (X.left.T @ B) - np.outer(self.col_bias, B.sum(axis=0)) - self.row_bias @ B
