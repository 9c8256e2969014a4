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
from lorank.kernels.simd import (
    LANES,
    add,
    fma,
    inverse_root,
    load,
    multiply,
    prefetch,
    splat,
    store,
    subtract_product,
    total,
)

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
def _add_tile(block, n, a, c, gram):
    """gram[a : a + 4, c : c + LANES] += of block[:n].T @ block[:n]."""
    q = block.shape[1]
    zero = splat(block.dtype.type(0))
    s0, s1, s2, s3 = zero, zero, zero, zero
    for t in range(n):
        y = load(block, t * q + c)
        s0 = fma(block[t, a], y, s0)
        s1 = fma(block[t, a + 1], y, s1)
        s2 = fma(block[t, a + 2], y, s2)
        s3 = fma(block[t, a + 3], y, s3)
    store(gram, a * q + c, add(load(gram, a * q + c), s0))
    store(gram, (a + 1) * q + c, add(load(gram, (a + 1) * q + c), s1))
    store(gram, (a + 2) * q + c, add(load(gram, (a + 2) * q + c), s2))
    store(gram, (a + 3) * q + c, add(load(gram, (a + 3) * q + c), s3))


@kernel
def _add_tall_tile(block, n, a, c, gram):
    """The same for gram[a : a + 8]: eight sums that do not wait for each other keep the adders busy."""
    q = block.shape[1]
    zero = splat(block.dtype.type(0))
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    for t in range(n):
        y = load(block, t * q + c)
        s0 = fma(block[t, a], y, s0)
        s1 = fma(block[t, a + 1], y, s1)
        s2 = fma(block[t, a + 2], y, s2)
        s3 = fma(block[t, a + 3], y, s3)
        s4 = fma(block[t, a + 4], y, s4)
        s5 = fma(block[t, a + 5], y, s5)
        s6 = fma(block[t, a + 6], y, s6)
        s7 = fma(block[t, a + 7], y, s7)
    store(gram, a * q + c, add(load(gram, a * q + c), s0))
    store(gram, (a + 1) * q + c, add(load(gram, (a + 1) * q + c), s1))
    store(gram, (a + 2) * q + c, add(load(gram, (a + 2) * q + c), s2))
    store(gram, (a + 3) * q + c, add(load(gram, (a + 3) * q + c), s3))
    store(gram, (a + 4) * q + c, add(load(gram, (a + 4) * q + c), s4))
    store(gram, (a + 5) * q + c, add(load(gram, (a + 5) * q + c), s5))
    store(gram, (a + 6) * q + c, add(load(gram, (a + 6) * q + c), s6))
    store(gram, (a + 7) * q + c, add(load(gram, (a + 7) * q + c), s7))


@kernel
def add_gram(block, n, width, gram):
    """gram += block[:n].T @ block[:n] for its lower tiles of 8 (or 4) x LANES, each held in registers."""
    for a in range(0, width, 8):
        for c in range(0, a + 8, LANES):
            if a + 4 < width:
                _add_tall_tile(block, n, a, c, gram)
            else:
                _add_tile(block, n, a, c, gram)


@kernel
def factorize(system, p):
    """Cholesky on LANES systems at once, in place: system[(a * p + c) * LANES + lane] becomes L, with 1 / L_aa.

    Column by column, four rows at a time: each waits for its own products only.
    """
    for j in range(p):
        x = load(system, (j * p + j) * LANES)
        for t in range(j):
            y = load(system, (j * p + t) * LANES)
            x = subtract_product(x, y, y)
        # The diagonal keeps 1 / L_jj: dividing is the slowest thing here.
        inverse = inverse_root(x)
        store(system, (j * p + j) * LANES, inverse)
        i = j + 1
        while i + 4 <= p:
            at0, at1, at2, at3 = i * p * LANES, (i + 1) * p * LANES, (i + 2) * p * LANES, (i + 3) * p * LANES
            x0 = load(system, at0 + j * LANES)
            x1 = load(system, at1 + j * LANES)
            x2 = load(system, at2 + j * LANES)
            x3 = load(system, at3 + j * LANES)
            for t in range(0, j * LANES, LANES):
                y = load(system, j * p * LANES + t)
                x0 = subtract_product(x0, load(system, at0 + t), y)
                x1 = subtract_product(x1, load(system, at1 + t), y)
                x2 = subtract_product(x2, load(system, at2 + t), y)
                x3 = subtract_product(x3, load(system, at3 + t), y)
            store(system, at0 + j * LANES, multiply(x0, inverse))
            store(system, at1 + j * LANES, multiply(x1, inverse))
            store(system, at2 + j * LANES, multiply(x2, inverse))
            store(system, at3 + j * LANES, multiply(x3, inverse))
            i += 4
        for rest in range(i, p):
            x = load(system, (rest * p + j) * LANES)
            for t in range(j):
                x = subtract_product(x, load(system, (rest * p + t) * LANES), load(system, (j * p + t) * LANES))
            store(system, (rest * p + j) * LANES, multiply(x, inverse))


@kernel
def solve_lower(system, right, p):
    """right[a * LANES + lane] becomes L^-1 right."""
    for j in range(p):
        x = load(right, j * LANES)
        for i in range(j):
            x = subtract_product(x, load(system, (j * p + i) * LANES), load(right, i * LANES))
        store(right, j * LANES, multiply(x, load(system, (j * p + j) * LANES)))


@kernel
def solve_upper(system, right, p):
    """right becomes L^-T right."""
    for j in range(p - 1, -1, -1):
        x = load(right, j * LANES)
        for i in range(j + 1, p):
            x = subtract_product(x, load(system, (i * p + j) * LANES), load(right, i * LANES))
        store(right, j * LANES, multiply(x, load(system, (j * p + j) * LANES)))


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
