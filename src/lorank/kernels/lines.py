"""The loops over lines: normal equations, products, predictions, Grams.

Shapes: features (lines of the other side, q), out (lines, q), both padded; k is the rank; with `biased`, column k of a
factor is its line's bias and the model is offset + own bias + other bias + <own, other>. Weights of the entries are an
array or None: each kernel is compiled for either, so that data without weights costs nothing more.
"""

import math

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.memory import aligned_zeros
from lorank.kernels.parallel import Workers
from lorank.kernels.simd import LANES, fma, load, multiply, prefetch, splat, store, total
from lorank.kernels.systems import add_gram, factorize, solve_lower, solve_upper

# Features of this many observations are gathered side by side, so that the tiles below read from the first-level cache.
BLOCK = 64
# Grams are summed over blocks of lines of this length, whatever the number of threads: the same bits always.
GRAM_BLOCK = 4096
# Features of so many numbers or more are in no near cache, and are asked for some observations before they are needed.
FAR, AHEAD = 100_000, 24


@kernel
def look_ahead(features, indices, t):
    """Ask for the features of observation t + AHEAD."""
    q = features.shape[1]
    soon = np.int64(indices[min(t + AHEAD, indices.size - 1)]) * q
    for a in range(0, q, LANES):
        prefetch(features, soon + a)


@kernel
def line_gram(pointers, indices, values, weights, features, k, biased, offset, i, base, block, gram):
    """gram = Gram of [F_i, o_i], F_i the features that line i has seen: its last row holds F_i' o_i and o_i' o_i.

    With weights C_i = diag(c_ij) it is that of sqrt(C_i) [F_i, o_i]; base (p + 1, p + 1) or None is added to it.
    """
    p = k + 1 if biased else k
    q = features.shape[1]
    one = features.dtype.type(1)
    far = features.size >= FAR
    gram[:] = 0
    if base is not None:
        gram[: p + 1, : p + 1] = base
    at = pointers[i]
    while at < pointers[i + 1]:
        n = min(BLOCK, pointers[i + 1] - at)
        for t in range(n):
            if far:
                look_ahead(features, indices, at + t)
            source = np.int64(indices[at + t]) * q
            target = values[at + t]
            if weights is None:
                for a in range(0, q, LANES):
                    store(block, t * q + a, load(features, source + a))
                if biased:
                    target -= block[t, k] + offset
                    block[t, k] = one
                block[t, p] = target
            else:
                root = math.sqrt(weights[at + t])
                factor = splat(root)
                for a in range(0, q, LANES):
                    store(block, t * q + a, multiply(factor, load(features, source + a)))
                if biased:
                    target -= features[indices[at + t], k] + offset
                    block[t, k] = root
                block[t, p] = root * target
        add_gram(block, n, p + 1, gram)
        at += n


@kernel
def place_system(gram, ridge, share, k, p, lane, system, right):
    """Put the system (gram + ridge) w = last row of gram into its lane, the ridge of the k factors times the share."""
    # Lines with fewer observations than p and no ridge are singular; this much keeps them solvable.
    scale = gram.dtype.type(0)
    for a in range(p):
        scale += gram[a, a] + (share * ridge[a, a] if a < k else ridge[a, a])
    scale = np.finfo(gram.dtype).eps * 100 * scale / p + gram.dtype.type(1e-30)
    for a in range(p):
        for c in range(a + 1):
            system[(a * p + c) * LANES + lane] = gram[a, c] + (share * ridge[a, c] if a < k else ridge[a, c])
        system[(a * p + a) * LANES + lane] += scale
        right[a * LANES + lane] = gram[p, a]


@kernel
def half_squares(gram, w, p, lane):
    """Half the sum of squared residuals of w[a * LANES + lane], from the Gram of [F_i, o_i]."""
    squares = np.float64(gram[p, p])
    for a in range(p):
        own = np.float64(w[a * LANES + lane])
        term = gram[a, a] * own - 2.0 * gram[p, a]
        for c in range(a):
            term += 2.0 * gram[a, c] * np.float64(w[c * LANES + lane])
        squares += own * term
    return max(squares, 0.0) / 2


@kernel
def _solve_range(
    pointers, indices, values, weights, features, k, biased, offset, ridge, pull, base, shares, out, loss, lo, hi
):
    """Least squares of the lines lo to hi: (F_i' C_i F_i + s_i ridge) w_i = F_i' C_i o_i + pull_i.

    F_i are the features that the line has seen, C_i = diag(c_ij) its weights (1 without any); ridge (p, p),
    p = k + biased; pull (lines, k or p), or (0, 0) for none; base as in `line_gram`; shares (lines,) holds s_i, or None
    for 1. Writes w_i into out and half the weighted sum of squared
    residuals at w_i into loss, which the normal equations give for nothing.
    """
    p = k + 1 if biased else k
    q = features.shape[1]
    block = np.zeros((BLOCK, q), features.dtype)
    grams = np.zeros((LANES, q, q), features.dtype)
    system = np.ones(p * p * LANES, features.dtype)
    right = np.zeros(p * LANES, features.dtype)
    one = features.dtype.type(1)
    for first in range(lo, hi, LANES):
        lanes = min(LANES, hi - first)
        for lane in range(lanes):
            i = first + lane
            line_gram(pointers, indices, values, weights, features, k, biased, offset, i, base, block, grams[lane])
            place_system(grams[lane], ridge, one if shares is None else shares[i], k, p, lane, system, right)
            if pull.size:
                for a in range(pull.shape[1]):
                    right[a * LANES + lane] += pull[i, a]
        factorize(system, p)
        solve_lower(system, right, p)
        solve_upper(system, right, p)
        for lane in range(lanes):
            for a in range(p):
                out[first + lane, a] = right[a * LANES + lane]
            loss[first + lane] = half_squares(grams[lane], right, p, lane)


def solve_lines(
    pointers,
    indices,
    values,
    weights,
    features,
    k: int,
    biased: bool,
    offset: float,
    ridge,
    pull,
    workers: Workers,
    base=None,
    shares=None,
) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regressions of all lines on the features of the other side: the padded factor, and each line's loss.

    ridge (p, p), p = k + biased; pull (lines, k or p) or empty; base (p + 1, p + 1), the Gram of what every line has
    beside its entries, or None; shares (lines,) of the ridge that each line has, or None for 1. The same bits however
    lines are cut into blocks.
    """
    count = pointers.size - 1
    out, loss = aligned_zeros((count, features.shape[1]), features.dtype), np.empty(count)
    entries = (pointers, indices, values, weights)
    args = (*entries, features, k, biased, features.dtype.type(offset), ridge, pull, base, shares, out, loss)
    work = {"work_per_entry": (k + 1) * (k + 2) / 2, "work_per_line": k**3 / 6 + k**2}
    workers.run(_solve_range, pointers, *args, **work)
    return out, loss


@kernel
def gram_lines(pointers, indices, values, weights, features, k, out, lo, hi):
    """out_i = [F_i, o_i]' C_i [F_i, o_i], lower triangle, for the features F_i (padded, no bias) that line i has seen.

    For half-steps in which lines depend on each other: out (lines, q, q), whose row k holds F_i' C_i o_i and, at
    column k, o_i' C_i o_i.
    """
    block = np.zeros((BLOCK, features.shape[1]), features.dtype)
    for i in range(lo, hi):
        zero = features.dtype.type(0)
        line_gram(pointers, indices, values, weights, features, k, False, zero, i, None, block, out[i])


@kernel
def multiply_lines(pointers, indices, values, features, out, lo, hi):
    """out = S @ features for the sparse matrix whose lines these are."""
    q = features.shape[1]
    far = features.size >= FAR
    for i in range(lo, hi):
        out[i] = 0
        for t in range(pointers[i], pointers[i + 1]):
            if far:
                look_ahead(features, indices, t)
            source = np.int64(indices[t]) * q
            for a in range(0, q, LANES):
                store(out, i * q + a, fma(values[t], load(features, source + a), load(out, i * q + a)))


@kernel
def predict_pairs(rows, cols, W, H, k, biased, offset, out, lo, hi):
    """out_t = <W[rows_t], H[cols_t]> (+ offset and both biases), for padded W and H."""
    q = W.shape[1]
    for t in range(lo, hi):
        i, j = np.int64(rows[t]), np.int64(cols[t])
        if i < 0 or i >= W.shape[0] or j < 0 or j >= H.shape[0]:
            raise IndexError("A row or column is outside of the matrix.")
        left, right = i * q, j * q
        x = multiply(load(W, left), load(H, right))
        for a in range(LANES, q, LANES):
            x = fma(load(W, left + a), load(H, right + a), x)
        value = total(x)
        if biased:
            own, other = W[rows[t], k], H[cols[t], k]
            value += offset + own + other - own * other
        out[t] = value


@kernel
def gram_blocks(factor, k, out, lo, hi):
    """out_b = F_b' F_b (k x k of it) for the b-th block of GRAM_BLOCK rows of a padded factor, lo <= b < hi."""
    for b in range(lo, hi):
        start = b * GRAM_BLOCK
        stop = min(start + GRAM_BLOCK, factor.shape[0])
        add_gram(factor[start:stop], stop - start, k, out[b])
        for a in range(k):
            for c in range(a):
                out[b, c, a] = out[b, a, c]


@kernel
def line_sums(pointers, indices, values, weights, other, sums, squares, lo, hi):
    """Sum and sum of squares of v_ij - other_j over the entries of each line, weighted, in float64."""
    for i in range(lo, hi):
        total_of, squares_of = 0.0, 0.0
        for t in range(pointers[i], pointers[i + 1]):
            r = values[t] - other[indices[t]]
            if weights is None:
                total_of += r
                squares_of += r * r
            else:
                total_of += weights[t] * r
                squares_of += weights[t] * r * r
        sums[i], squares[i] = total_of, squares_of
