"""What is kept of a chain of draws, and what it says about an entry.

A draw is a pair of factors. Given the columns H, the rows of W are independent Gaussians whose means are known exactly,
so a draw is kept as these means, one sample of the deviations from them, and H. Averaging <E[w_i | H], h_j> rather
than <w_i, h_j> (Rao-Blackwell) is worth about twice as many draws.

Kept draws lie side by side in wide arrays, so that the posterior mean is itself a `Factors`, of width draws * width:
it predicts and completes like any other. With biases a row is (w, a + offset, 1) and a column (h, 1, b). They are kept
in float32: seven digits are far below their spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from lorank import kernels
from lorank.errors import InputError
from lorank.linalg import Factors, pad, padded_width, truncated_svd
from lorank.losses.ordinal import shortest
from lorank.memory import check_memory
from lorank.solvers.prior_draws import PriorDraws, joined_priors
from lorank.types import Array


@dataclass(frozen=True)
class Draws:
    """Room for `room` draws of factors of rank k, the noise's variances beside them; arrays are written in place.

    The variance of the noise at (i, j) is noise_rows_is * noise_cols_js in draw s; cuts (room, levels - 1). The priors
    of rows and columns are kept where there are features, from which new ones are predicted.

    When there is no room left, every second draw is dropped and from then on half as many are kept: whatever the length
    of the chain, the kept ones are spread evenly over it. Memory: 4 room ((2 m + n) (k, or k + 2 with biases) + m + n)
    bytes.
    """

    means: Array
    deviations: Array
    right: Array
    noise_rows: Array
    noise_cols: Array
    cuts: Array
    row_prior: PriorDraws
    col_prior: PriorDraws
    k: int
    width: int
    room: int
    offset: float = 0.0
    offered: int = 0
    count: int = 0
    every: int = 1

    @classmethod
    def empty(cls, start: Factors, room: int, cuts: int = 0, directions: tuple[int, int] = (0, 0)) -> Draws:
        """Room for draws of the shape of `start`, so many cuts between levels, and directions of features."""
        width = start.k + 2 if start.biased else start.k
        m, n = start.shape
        q, r = padded_width(room * width), padded_width(room)
        needed = 4 * ((2 * m + n) * q + (m + n) * r)
        check_memory(needed, f"{room} posterior draws of a {m} x {n} matrix at rank {start.k}")
        means, deviations, right = (np.zeros((lines, q), np.float32) for lines in (m, m, n))
        rows, cols = (np.zeros((lines, r), np.float32) for lines in (m, n))
        priors = [PriorDraws.empty(room, start.k + start.biased, r) for r in directions]
        scale, (of_rows, of_cols) = np.zeros((room, cuts)), priors
        return cls(means, deviations, right, rows, cols, scale, of_rows, of_cols, start.k, width, room, start.offset)

    def offer(
        self,
        draw: Factors,
        mean: Array,
        noise: tuple[Array, Array],
        cuts: Array | None = None,
        priors: Sequence[tuple[Array, Array, Array | None]] = (),
    ) -> Draws:
        """Keep a draw if its turn has come; `mean` (padded) is that of its rows given its columns.

        priors : (mu, Lambda, coefficients) of the rows and of the columns.
        """
        count, every = self.count, self.every
        if self.offered % every == 0 and count == self.room:
            count, every = -(-count // 2), 2 * every
            for wide in (self.means, self.deviations, self.right):
                for slot in range(1, count):
                    self._slot(wide, slot)[:] = self._slot(wide, 2 * slot)
            for each in (self.noise_rows.T, self.noise_cols.T, self.cuts):
                for slot in range(1, count):
                    each[slot] = each[2 * slot]
            for prior in (self.row_prior, self.col_prior):
                prior.thin(count)
        if self.offered % every == 0:
            self._write(count, draw, mean)
            self.noise_rows[:, count], self.noise_cols[:, count] = noise
            if cuts is not None:
                self.cuts[count] = cuts
            for prior, drawn in zip((self.row_prior, self.col_prior), priors):
                prior.write(count, *drawn)
            count += 1
        return replace(self, offered=self.offered + 1, count=count, every=every)

    def _without(self, first: int) -> Draws:
        """Without the first kept draws; the others take their places."""
        for slot in range(self.count - first):
            for wide in (self.means, self.deviations, self.right):
                self._slot(wide, slot)[:] = self._slot(wide, slot + first)
            for each in (self.noise_rows.T, self.noise_cols.T, self.cuts):
                each[slot] = each[slot + first]
        priors = [prior.chosen(slice(first, self.count)) for prior in (self.row_prior, self.col_prior)]
        return replace(self, count=self.count - first, row_prior=priors[0], col_prior=priors[1])

    def _slot(self, wide: Array, slot: int) -> Array:
        return wide[:, slot * self.width : (slot + 1) * self.width]

    def _write(self, slot: int, draw: Factors, mean: Array) -> None:
        k, p = self.k, self.k + draw.biased
        means, deviations, right = (self._slot(wide, slot) for wide in (self.means, self.deviations, self.right))
        means[:, :p] = mean[:, :p]
        deviations[:, :p] = draw.left[:, :p] - mean[:, :p]
        right[:, :k] = draw.H
        if draw.biased:
            means[:, k] += np.float32(draw.offset)
            means[:, k + 1] = 1
            right[:, k] = 1
            right[:, k + 1] = draw.col_bias

    def before(self, offered: int) -> int:
        """How many of the kept draws are among the first so many that were offered."""
        return -(-offered // self.every)

    def finish(self, levels: Array | None = None, early: int = 0) -> Posterior:
        """The posterior, of values with these levels, without the first so many draws that were offered.

        It takes the arrays over: nothing can be offered afterwards.
        """
        if early:
            return self._without(self.before(early)).finish(levels)
        used = self.count * self.width
        means = self.means
        means[:, used:] = 0
        means *= means.dtype.type(1 / self.count)
        mean = Factors(means, self.right, self.room * self.width)
        summary = _summary(mean, self.k, self.width, self.count, self.offset)
        self.noise_rows[:, self.count :] = 0
        self.noise_rows[:] *= np.float32(1 / self.count)
        noise = Factors(self.noise_rows, self.noise_cols, self.room)
        cuts = None if levels is None else self.cuts[: self.count]
        rows, cols = (prior.chosen(slice(self.count)) for prior in (self.row_prior, self.col_prior))
        return Posterior(mean, summary, self.deviations, self.width, self.count, noise, cuts, levels, (rows, cols))


@dataclass(frozen=True)
class Posterior:
    """Mean and standard deviation of every entry.

    mean : Factors
        Of the posterior mean, which is of higher rank than each draw: all draws side by side, the left ones divided by
        their number.
    summary : Factors
        Of rank k: mean biases, and the best rank-k approximation of the mean of W H^T, balanced.
    noise : Factors
        Of the posterior mean of the noise's variance at each entry, one direction for each draw.
    cuts, levels : arrays, optional
        For values on a scale: the cuts of each draw (draws, levels - 1), and the values that the levels stand for.
    priors : (PriorDraws, PriorDraws) or None
        Of rows and of columns, where they have features.
    """

    mean: Factors
    summary: Factors
    deviations: Array
    width: int
    draws: int
    noise: Factors
    cuts: Array | None = None
    levels: Array | None = None
    priors: tuple[PriorDraws, PriorDraws] | None = None

    @property
    def noise_variance(self) -> float:
        """The mean of the noise's variance over all entries."""
        left, right = (side.mean(axis=0, dtype=np.float64) for side in (self.noise.left, self.noise.right))
        return float(left @ right)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        wide = (self.mean.left, self.mean.right, self.deviations, self.noise.left, self.noise.right)
        return sum(array.nbytes for array in wide)

    def predict(self, rows: Array, cols: Array, workers: kernels.Workers | None = None) -> Array:
        """Expected values at pairs: the posterior mean, or the expected level."""
        if self.levels is None:
            return self.mean.predict(rows, cols, workers)
        return np.asarray(self.probabilities(rows, cols, workers) @ self.levels, self.mean.dtype)

    def probabilities(self, rows: Array, cols: Array, workers: kernels.Workers | None = None) -> Array:
        """Probability of each level (pairs, levels)."""
        if self.levels is None or self.cuts is None:
            raise InputError("Probabilities of levels need a fit with loss='ordinal'.")
        out = np.empty((len(rows), self.levels.size))
        args = (rows, cols, self.mean.left, self.deviations, self.mean.right, self.noise.left, self.noise.right)
        pool = workers or kernels.Workers()
        work = self.draws * (2 * self.width + 50 * self.levels.size)
        pool.run_evenly(
            kernels.level_probabilities, len(rows), *args, self.width, self.draws, self.cuts, out, work_per_line=work
        )
        return out

    def dense(self) -> Array:
        """Expected values of all entries as an m x n array; refused if that does not fit in memory."""
        X = self.mean.dense()
        if self.levels is not None:
            cols = np.arange(X.shape[1])
            for i in range(len(X)):
                X[i] = self.predict(np.full(cols.size, i), cols)
        return X

    def interval(self, rows: Array, cols: Array, level: float) -> tuple[Array, Array]:
        """Ranges that hold a further value with this probability, around the mean, or from level to level."""
        if self.levels is not None:
            low, high = shortest(self.probabilities(rows, cols), level)
            return self.levels[low], self.levels[high]
        mean, half = self.predict(rows, cols), self.halves(rows, cols, level)
        return mean - half, mean + half

    def halves(self, rows: Array, cols: Array, level: float, workers: kernels.Workers | None = None) -> Array:
        """Half the lengths of intervals. How noisy an entry is, is uncertain, and differs from draw to draw: a further
        value has longer tails than a normal one of the same variance, and is more often near the mean."""
        out, pool = np.empty(len(rows)), workers or kernels.Workers()
        variances = self.std(rows, cols, workers=pool).astype(np.float64) ** 2
        args = (rows, cols, variances, self.noise.left, self.noise.right, self.draws, level, ndtri((1 + level) / 2))
        pool.run_evenly(kernels.interval_halves, len(rows), *args, out, work_per_line=100 * self.draws)
        return out.astype(self.mean.dtype)

    def samples(self, rows: Array, cols: Array) -> Array:
        """Entries at pairs in each draw, expected given its columns: (draws, pairs)."""
        left, right = self.mean.left[rows] * np.float32(self.draws), self.mean.right[cols]
        used = self.draws * self.width
        products = (left[:, :used] * right[:, :used]).reshape(len(rows), self.draws, self.width)
        return np.asarray(products.sum(axis=2).T, np.float64)

    def draw(self, s: int) -> tuple[Factors, Array, Array]:
        """Draw s: factors (the offset is in the row biases), and the noise's variances of rows and of columns."""
        k, at = self.summary.k, slice(s * self.width, (s + 1) * self.width)
        left = self.mean.left[:, at] * np.float32(self.draws) + self.deviations[:, at]
        right, biased = self.mean.right[:, at], self.width > k
        biases = (left[:, k], right[:, k + 1]) if biased else (None, None)
        variances = self.noise.left[:, s] * np.float32(self.draws), self.noise.right[:, s]
        return Factors.of(left[:, :k], right[:, :k], *biases), *variances

    def part(self, first: int, last: int) -> Posterior:
        """The posterior of the draws from first to last (not included) alone; its summary is that of all."""
        share, at = np.float32(self.draws / (last - first)), slice(first * self.width, last * self.width)
        mean = Factors.of(self.mean.left[:, at] * share, self.mean.right[:, at])
        noise = Factors.of(self.noise.left[:, first:last] * share, self.noise.right[:, first:last])
        cuts = None if self.cuts is None else self.cuts[first:last]
        deviations = pad(self.deviations[:, at])
        return replace(self, mean=mean, deviations=deviations, draws=last - first, noise=noise, cuts=cuts)

    def std(self, rows: Array, cols: Array, noise: bool = False, workers: kernels.Workers | None = None) -> Array:
        """Posterior standard deviation of entries; with `noise`, that of a value observed there."""
        if noise and self.levels is not None:
            chances = self.probabilities(rows, cols, workers)
            return np.sqrt(np.maximum(chances @ self.levels**2 - (chances @ self.levels) ** 2, 0))
        out, pool = np.empty(len(rows)), workers or kernels.Workers()
        args = (rows, cols, self.mean.left, self.deviations, self.mean.right, self.width, self.draws, out)
        pool.run_evenly(kernels.spread_pairs, len(rows), *args, work_per_line=4 * self.draws * self.width)
        if noise:
            out += self.noise.predict(rows, cols, pool)
        return np.sqrt(out).astype(self.mean.dtype)


def summarized(posterior: Posterior) -> Posterior:
    """With the summary that belongs to its draws."""
    old = posterior.summary
    summary = _summary(posterior.mean, old.k, posterior.width, posterior.draws, old.offset)
    return replace(posterior, summary=summary)


def joined(parts: Sequence[Posterior]) -> Posterior:
    """One posterior of the draws of several chains of the same problem."""
    first, draws, width = parts[0], sum(part.draws for part in parts), parts[0].width
    shares = [np.float32(part.draws / draws) for part in parts]

    def side(arrays: Sequence[Array], each: int) -> Array:
        return np.hstack([array[:, : part.draws * each] for array, part in zip(arrays, parts)])

    left = side([share * part.mean.left for share, part in zip(shares, parts)], width)
    mean = Factors.of(left, side([part.mean.right for part in parts], width))
    noise_rows = side([share * part.noise.left for share, part in zip(shares, parts)], 1)
    noise = Factors.of(noise_rows, side([part.noise.right for part in parts], 1))
    deviations = pad(side([part.deviations for part in parts], width))
    cuts = None if first.cuts is None else np.vstack([part.cuts for part in parts if part.cuts is not None])
    priors = None
    known = [part.priors for part in parts if part.priors is not None]
    if known:
        priors = joined_priors([pair[0] for pair in known]), joined_priors([pair[1] for pair in known])
    return summarized(Posterior(mean, first.summary, deviations, width, draws, noise, cuts, first.levels, priors))


def _summary(mean: Factors, k: int, width: int, draws: int, offset: float) -> Factors:
    """The posterior mean in factors of rank k."""
    used = draws * width
    row_bias, col_bias = (np.zeros(lines, mean.dtype) for lines in mean.shape)
    if width > k:
        row_bias = mean.left[:, k:used:width].sum(axis=1)
        col_bias = mean.right[:, k + 1 : used : width].mean(axis=1)
    operator = _WithoutBiases(mean, row_bias, col_bias)
    # A draw is so near to the mean that two or three passes from it are enough.
    found = truncated_svd(operator, mean.right[:, :k], 0.0, min(k, *mean.shape), np.random.default_rng(0))
    root = np.sqrt(found.sigma)
    W, H = (np.pad(side * root, ((0, 0), (0, k - root.size))) for side in (found.U, found.V))
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
