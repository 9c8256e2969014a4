"""New rows or columns beside a posterior: one weighted regression for each of its draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lorank import kernels
from lorank.linalg import Factors
from lorank.observations import Lines, Observations
from lorank.solvers.posterior import Posterior, summarized
from lorank.types import Array


def fold_in(
    posterior: Posterior,
    observations: Observations,
    axis: int,
    workers: kernels.Workers,
    coordinates: Array | None = None,
    apart: bool = True,
    floor: float = 0.0,
) -> Posterior:
    """The posterior of new rows (axis 0) beside the columns, or of new columns (axis 1) beside the rows.

    In each draw a new line is expected where its features say, by their coordinates (new, r), or without features to be
    as the lines of its side are, N(mean, covariance) of that draw. It is regressed with the noise of a usual line, and
    predicted with that of one of these lines, drawn at random. Values on a scale are taken for the latent ones, whose
    unit is about theirs. With apart=False all lines are drawn by the same random numbers: the spread of each is then
    the same wherever it stands, and draws of different lines are not independent.
    `floor` is a lower bound on the noise's variance in the regressions: a few columns may be fitted exactly, and
    float32 cannot solve what follows.
    """
    k, width, draws = posterior.summary.k, posterior.width, posterior.draws
    biased, new = width > k, observations.shape[axis]
    observations = observations.astype(np.float32)
    lines = (observations.by_row, observations.by_col)[axis]
    shape = (new, posterior.mean.left.shape[1])
    means, drawn = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    variances = np.zeros((new, posterior.noise.left.shape[1]), np.float32)
    for s in range(draws):
        factors, *noise = posterior.draw(s)
        if axis == 1:
            factors, noise = factors.transposed(), noise[::-1]
        usual = float(1 / np.mean(1 / noise[0]))
        prior = None if posterior.priors is None else posterior.priors[axis]
        if coordinates is not None and prior is not None and prior.known:
            ridge, centre = usual * prior.Lambda[s], prior.means(s, coordinates)
            # Draws keep the offset in the row biases.
            centre[:, k:] += posterior.summary.offset if axis == 0 else 0.0
        else:
            ridge, centre = _usual_line(factors, usual)
        other = np.maximum(noise[1], np.float32(floor / usual))
        mean, draw = _regress(lines, factors, usual, other, ridge, centre, (s, int(apart)), workers)
        like = np.random.default_rng(s).integers(len(noise[0]), size=new if apart else 1)
        variances[:, s] = noise[0][like] / (draws if axis == 0 else 1)
        at = slice(s * width, s * width + k)
        means[:, at], drawn[:, at] = mean[:, :k], draw[:, :k]
        if biased:
            own = s * width + k + axis
            means[:, own], drawn[:, own] = mean[:, k], draw[:, k]
            # The number 1 by which the other side's offset is multiplied.
            means[:, s * width + k + 1 - axis] = drawn[:, s * width + k + 1 - axis] = 1
    if axis == 0:
        both = replace(posterior.mean, left=means / np.float32(draws))
        spread, noise_of = drawn - means, replace(posterior.noise, left=variances)
    else:
        both, spread = replace(posterior.mean, right=drawn), posterior.deviations
        noise_of = replace(posterior.noise, right=variances)
    return summarized(replace(posterior, mean=both, deviations=spread, noise=noise_of))


def _usual_line(factors: Factors, usual: float) -> tuple[Array, Array]:
    """The ridge (p, p) and the centre (p,) of lines that are like those of the left side."""
    p = factors.k + factors.biased
    old = factors.left[:, :p].astype(np.float64)
    scatter = np.cov(old.T, bias=True).reshape(p, p) * len(old)
    # Of few lines a covariance is not well known: as if p more had independent coordinates.
    spread = np.maximum(np.diag(scatter), 1e-12 * max(float(np.trace(scatter)), 1e-300)) / len(old)
    return usual * np.linalg.inv((scatter + p * np.diag(spread)) / (len(old) + p)), old.mean(axis=0)


def _regress(
    lines: Lines,
    factors: Factors,
    usual: float,
    other: Array,
    ridge: Array,
    centre: Array,
    stream: tuple[int, int],
    workers: kernels.Workers,
) -> tuple[Array, Array]:
    """Means and draws (padded) of new lines of the left side, whose noise has the variances usual * other_j.

    `stream` and whether lines are drawn apart name the random numbers.
    """
    k, count = factors.k, lines.pointers.size - 1
    p = k + factors.biased
    pull = np.broadcast_to(centre @ ridge, (count, p))
    dtype = factors.dtype
    roots, name = (1 / np.sqrt(other)).astype(dtype), (0, stream[0], 0, stream[1])
    mean, out, _ = kernels.sample_lines(
        *lines.arrays,
        factors.right,
        k,
        factors.biased,
        0.0,
        np.ones(count, dtype),
        roots,
        ridge.astype(dtype),
        np.ascontiguousarray(pull, dtype),
        float(np.sqrt(usual)),
        name,
        workers,
    )
    return mean, out
