"""Gibbs sampling: a draw of every line given the other side, and the spread of predictions over draws."""

import math

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.counters import normals
from lorank.kernels.lines import BLOCK, FAR, look_ahead
from lorank.kernels.memory import aligned_zeros
from lorank.kernels.normal import lower_normal
from lorank.kernels.parallel import Workers
from lorank.kernels.simd import LANES, add, fma, load, multiply, splat, store, total
from lorank.kernels.systems import add_gram, factorize, solve_lower, solve_upper

# Newton's steps to the ends of an interval, and a step that is small enough, as a part of it.
STEPS, NEAR, TINY = 50, 1e-5, 1e-300


@kernel
def _weighted_gram(pointers, indices, values, weights, other, roots, k, biased, offset, i, block, gram):
    """gram = Gram of [F_i, o_i], observation j multiplied by roots_j and the root of its weight.

    Its last row holds F_i' V o_i and o_i' V o_i.
    """
    p = k + 1 if biased else k
    q = other.shape[1]
    far = other.size >= FAR
    gram[:] = 0
    at = pointers[i]
    while at < pointers[i + 1]:
        n = min(BLOCK, pointers[i + 1] - at)
        for t in range(n):
            if far:
                look_ahead(other, indices, at + t)
            j = np.int64(indices[at + t])
            root = roots[j]
            if weights is not None:
                root *= math.sqrt(weights[at + t])
            factor = splat(root)
            for a in range(0, q, LANES):
                store(block, t * q + a, multiply(factor, load(other, j * q + a)))
            target = values[at + t]
            if biased:
                target -= other[j, k] + offset
                block[t, k] = root
            block[t, p] = root * target
        add_gram(block, n, p + 1, gram)
        at += n


@kernel
def _half_squares(gram, factor, i, p):
    """Half the sum of squared residuals of line i of a padded factor, from the lower tiles of the Gram of [F_i, o_i].

    A tile on the diagonal holds both triangles, one below it stands for two.
    """
    q = gram.shape[1]
    zero = splat(gram.dtype.type(0))
    squares = zero
    for c in range(0, p, LANES):
        w = load(factor, i * q + c)
        on, below = zero, load(gram, p * q + c)
        below = multiply(splat(gram.dtype.type(-1)), below)
        for a in range(c, min(c + LANES, p)):
            on = fma(factor[i, a], load(gram, a * q + c), on)
        for a in range(c + LANES, p):
            below = fma(factor[i, a], load(gram, a * q + c), below)
        squares = fma(w, add(on, add(below, below)), squares)
    return max(np.float64(gram[p, p]) + total(squares), 0.0) / 2


@kernel
def draw_lines(
    pointers,
    indices,
    values,
    weights,
    other,
    k,
    biased,
    offset,
    own,
    roots,
    ridge,
    pull,
    size,
    key,
    stream,
    number,
    apart,
    mean,
    out,
    loss,
    lo,
    hi,
):
    """Draw line i from its posterior: precision A = c_i F_i' V F_i + ridge, mean A^-1 (c_i F_i' V o_i + pull_i).

    own (lines,) holds c_i, roots (lines of the other side,) the roots of d_j, and weights omega_ij for each value (None
    where all are 1): V_jj = d_j omega_ij, and the noise's precision at (i, j) is c_i V_jj / size^2. ridge (p, p) and
    pull (lines, p), p = k + biased, are multiplied by size^2 already. Normal numbers are named by (key, stream,
    (number + i) apart), where `number` is that of the first of these lines among all: with apart = 0 they are the same
    for all lines, and a line's draw does not depend on where it stands. With A = L L', mean_i = L^-T y and
    out_i = L^-T (y + size e), y = L^-1 (c_i F_i' V o_i + pull_i); loss_i is half the squared residuals at out_i,
    weighted by V.
    """
    p = k + 1 if biased else k
    q = other.shape[1]
    block = np.zeros((BLOCK, q), other.dtype)
    grams = np.zeros((LANES, q, q), other.dtype)
    system = np.ones(p * p * LANES, other.dtype)
    centre = np.zeros(p * LANES, other.dtype)
    draw = np.zeros(p * LANES, other.dtype)
    noise = np.empty(p + 3, np.float64)
    for first in range(lo, hi, LANES):
        lanes = min(LANES, hi - first)
        for lane in range(lanes):
            i = first + lane
            gram, c = grams[lane], own[i]
            _weighted_gram(pointers, indices, values, weights, other, roots, k, biased, offset, i, block, gram)
            for a in range(p):
                for b in range(a + 1):
                    system[(a * p + b) * LANES + lane] = c * gram[a, b] + ridge[a, b]
                centre[a * LANES + lane] = c * gram[p, a] + pull[i, a]
        factorize(system, p)
        solve_lower(system, centre, p)
        for lane in range(lanes):
            normals(key, stream, (number + first + lane) * apart, p, noise)
            for a in range(p):
                draw[a * LANES + lane] = centre[a * LANES + lane] + size * noise[a]
        solve_upper(system, centre, p)
        solve_upper(system, draw, p)
        for lane in range(lanes):
            for a in range(p):
                mean[first + lane, a] = centre[a * LANES + lane]
                out[first + lane, a] = draw[a * LANES + lane]
            loss[first + lane] = _half_squares(grams[lane], out, first + lane, p)


def sample_lines(
    pointers,
    indices,
    values,
    weights,
    other,
    k: int,
    biased: bool,
    offset: float,
    own,
    roots,
    ridge,
    pull,
    size: float,
    name: tuple[int, int, int, int],
    workers: Workers,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and draws (padded) of all lines, and each line's loss; see `draw_lines`.

    `name` is its (key, stream, number, apart). The same bits however lines are cut into blocks.
    """
    count, dtype, p = pointers.size - 1, other.dtype, k + biased
    mean, out = aligned_zeros((count, other.shape[1]), dtype), aligned_zeros((count, other.shape[1]), dtype)
    loss, (key, *rest) = np.empty(count), name
    args = (pointers, indices, values, weights, other, k, biased, dtype.type(offset), own, roots, ridge, pull)
    work = {"work_per_entry": (p + 1) * (p + 2) / 2, "work_per_line": p**3 / 6 + 2 * p**2}
    workers.run(draw_lines, pointers, *args, dtype.type(size), np.uint64(key), *rest, mean, out, loss, **work)
    return mean, out, loss


@kernel
def spread_pairs(rows, cols, means, deviations, right, width, draws, out, lo, hi):
    """out_t = variance of the entry (rows_t, cols_t) over draws that lie side by side, `width` numbers each.

    In draw s the entry is normal around x_s = draws * <means_i, right_j>_s, and <deviations_i, right_j>_s is one sample
    of what it is off: the variance is that of the x_s plus the mean square of these.
    """
    for t in range(lo, hi):
        i, j = rows[t], cols[t]
        if i < 0 or i >= means.shape[0] or j < 0 or j >= right.shape[0]:
            raise IndexError("A row or column is outside of the matrix.")
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


@kernel
def interval_halves(rows, cols, variances, noise_rows, noise_cols, draws, level, start, out, lo, hi):
    """out_t = h with P(|e| <= h) = level, e normal with the variance variances_t + noise_s, s one of the draws.

    noise_s = draws * noise_rows_is * noise_cols_js at (i, j) = (rows_t, cols_t). The probability is concave in h, so
    that Newton's steps from its left side stay there; `start` is the normal quantile, in standard deviations.
    """
    for t in range(lo, hi):
        i, j = rows[t], cols[t]
        if i < 0 or i >= noise_rows.shape[0] or j < 0 or j >= noise_cols.shape[0]:
            raise IndexError("A row or column is outside of the matrix.")
        noise = 0.0
        for s in range(draws):
            noise += noise_rows[i, s] * noise_cols[j, s]
        h = start * math.sqrt(variances[t] + noise)
        for _ in range(STEPS):
            outside, slope = 0.0, 0.0
            for s in range(draws):
                root = 1 / math.sqrt(max(variances[t] + draws * noise_rows[i, s] * noise_cols[j, s], TINY))
                tail, density = lower_normal(-h * root)
                outside += 2 * tail
                slope += 2 * density * root
            step = (outside / draws - (1 - level)) / max(slope / draws, TINY)
            h = max(h + step, h / 16)
            if not abs(step) > NEAR * h:
                break
        out[t] = h
