"""Gibbs sampling: a draw of every line given the other side, and the spread of predictions over draws."""

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.lines import BLOCK, factorize, half_squares, line_gram, place_system, solve_lower, solve_upper
from lorank.kernels.simd import LANES


@kernel
def sample_lines(pointers, indices, values, features, k, biased, offset, ridge, pull, noise, mean, out, loss, lo, hi):
    """Draw every line from its Gaussian posterior: precision A = F_i' F_i + ridge, mean A^-1 (F_i' o_i + pull).

    ridge (p, p), pull (p,), p = k + biased, both in units of the noise's precision. noise (lines, p) holds normal
    numbers of the noise's standard deviation, so that the bits do not depend on which thread draws. With A = L L',
    mean_i = L^-T y and out_i = L^-T (y + noise_i), y = L^-1 (F_i' o_i + pull); loss_i is half the sum of squared
    residuals at out_i.
    """
    p = k + 1 if biased else k
    q = features.shape[1]
    block = np.zeros((BLOCK, q), features.dtype)
    grams = np.zeros((LANES, q, q), features.dtype)
    system = np.ones(p * p * LANES, features.dtype)
    centre = np.zeros(p * LANES, features.dtype)
    draw = np.zeros(p * LANES, features.dtype)
    for first in range(lo, hi, LANES):
        lanes = min(LANES, hi - first)
        for lane in range(lanes):
            line_gram(pointers, indices, values, features, k, biased, offset, first + lane, block, grams[lane])
            place_system(grams[lane], ridge, p, lane, system, centre)
            for a in range(p):
                centre[a * LANES + lane] += pull[a]
        factorize(system, p)
        solve_lower(system, centre, p)
        for lane in range(lanes):
            for a in range(p):
                draw[a * LANES + lane] = centre[a * LANES + lane] + noise[first + lane, a]
        solve_upper(system, centre, p)
        solve_upper(system, draw, p)
        for lane in range(lanes):
            for a in range(p):
                mean[first + lane, a] = centre[a * LANES + lane]
                out[first + lane, a] = draw[a * LANES + lane]
            loss[first + lane] = half_squares(grams[lane], draw, p, lane)


@kernel
def spread_pairs(rows, cols, means, deviations, right, width, draws, out, lo, hi):
    """out_t = variance of the entry (rows_t, cols_t) over draws that lie side by side, `width` numbers each.

    In draw s the entry is normal around x_s = draws * <means_i, right_j>_s, and <deviations_i, right_j>_s is one sample
    of what it is off: the variance is that of the x_s plus the mean square of these.
    """
    for t in range(lo, hi):
        i, j = rows[t], cols[t]
        centre, between, within = 0.0, 0.0, 0.0
        for s in range(draws):
            x, off = 0.0, 0.0
            for a in range(s * width, (s + 1) * width):
                x += means[i, a] * right[j, a]
                off += deviations[i, a] * right[j, a]
            change = x * draws - centre
            centre += change / (s + 1)
            between += change * (x * draws - centre)
            within += off * off
        out[t] = between / max(draws - 1, 1) + within / draws
