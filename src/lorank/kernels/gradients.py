"""Residuals and gradients of the loss: of one side, or of both in one pass that needs each residual once.

Shapes and biases as in `lines`. The pass over both sides adds to lines of the other side as it meets them, so that its
lines are not independent. They are cut into parts, which only the data decide, and each part has sums of its own, added
up in their order at the end: the same bits for any number of threads.
"""

import numpy as np

from lorank.kernels.compiling import inlined, kernel
from lorank.kernels.memory import aligned_zeros
from lorank.kernels.parallel import Workers
from lorank.kernels.simd import LANES, fma, load, multiply, store, total, totals

# Parts of a pass over both sides: at most so many, and each with so many entries for each line that it adds up.
MOST_PARTS, WORTH_A_PART = 8, 100


@kernel
def _begin(own, i, k, biased, offset, line):
    """Fill the line's numbers; what is to be added to <line, f_j>."""
    line[:] = own[i]
    if not biased:
        return line.dtype.type(0)
    # With 1 in the bias's place, <line, f_j> adds the other side's bias, and r line adds r to its slope.
    line[k] = 1
    return own[i, k] + offset


@inlined
def _residual(values, features, line, shift, t, s0):
    """r of observation t, whose features begin at s0."""
    x = multiply(load(line, 0), load(features, s0))
    for a in range(LANES, line.size, LANES):
        x = fma(load(line, a), load(features, s0 + a), x)
    return total(x) + shift - values[t]


@inlined
def _four_residuals(values, features, line, shift, t, s0, s1, s2, s3):
    """r of observations t to t + 3, which share each load of the line."""
    y = load(line, 0)
    x0 = multiply(y, load(features, s0))
    x1 = multiply(y, load(features, s1))
    x2 = multiply(y, load(features, s2))
    x3 = multiply(y, load(features, s3))
    for a in range(LANES, line.size, LANES):
        y = load(line, a)
        x0 = fma(y, load(features, s0 + a), x0)
        x1 = fma(y, load(features, s1 + a), x1)
        x2 = fma(y, load(features, s2 + a), x2)
        x3 = fma(y, load(features, s3 + a), x3)
    d0, d1, d2, d3 = totals(x0, x1, x2, x3)
    return d0 + shift - values[t], d1 + shift - values[t + 1], d2 + shift - values[t + 2], d3 + shift - values[t + 3]


@kernel
def _slope(weights, t, r):
    """c r of observation t."""
    return r if weights is None else weights[t] * r


@kernel
def _four_slopes(weights, t, r0, r1, r2, r3):
    """c r of observations t to t + 3."""
    return _slope(weights, t, r0), _slope(weights, t + 1, r1), _slope(weights, t + 2, r2), _slope(weights, t + 3, r3)


@kernel
def gradient_lines(pointers, indices, values, weights, features, own, k, biased, offset, out, loss, lo, hi):
    """out_i = sum_j c_ij r_ij f_j (and sum_j c_ij r_ij for the bias), loss_i = sum_j c_ij r_ij^2 / 2.

    r = model - values, c the weights, 1 without any.
    """
    q = features.shape[1]
    line = np.zeros(q, features.dtype)
    slope = np.zeros(q, features.dtype)
    for i in range(lo, hi):
        slope[:] = 0
        shift = _begin(own, i, k, biased, offset, line)
        squares = 0.0
        residuals = features.dtype.type(0)
        t = pointers[i]
        # Four observations share each load and store of the slope.
        while t + 4 <= pointers[i + 1]:
            s0 = np.int64(indices[t]) * q
            s1 = np.int64(indices[t + 1]) * q
            s2 = np.int64(indices[t + 2]) * q
            s3 = np.int64(indices[t + 3]) * q
            r0, r1, r2, r3 = _four_residuals(values, features, line, shift, t, s0, s1, s2, s3)
            g0, g1, g2, g3 = _four_slopes(weights, t, r0, r1, r2, r3)
            for a in range(0, q, LANES):
                y = fma(g0, load(features, s0 + a), load(slope, a))
                y = fma(g1, load(features, s1 + a), y)
                y = fma(g2, load(features, s2 + a), y)
                store(slope, a, fma(g3, load(features, s3 + a), y))
            residuals += (g0 + g1) + (g2 + g3)
            squares += np.float64((r0 * g0 + r1 * g1) + (r2 * g2 + r3 * g3))
            t += 4
        while t < pointers[i + 1]:
            s0 = np.int64(indices[t]) * q
            r0 = _residual(values, features, line, shift, t, s0)
            g0 = _slope(weights, t, r0)
            for a in range(0, q, LANES):
                store(slope, a, fma(g0, load(features, s0 + a), load(slope, a)))
            residuals += g0
            squares += np.float64(r0) * g0
            t += 1
        if biased:
            slope[k] = residuals
        out[i] = slope
        loss[i] = squares / 2


@kernel
def _gradient_parts(
    pointers, indices, values, weights, features, own, k, biased, offset, cuts, out, others, loss, lo, hi
):
    """As `gradient_lines` for the lines of parts lo to hi, and others_part += c_ij r_ij own_i for each entry."""
    q = features.shape[1]
    line = np.zeros(q, features.dtype)
    slope = np.zeros(q, features.dtype)
    for part in range(lo, hi):
        other = others[part]
        for i in range(cuts[part], cuts[part + 1]):
            slope[:] = 0
            shift = _begin(own, i, k, biased, offset, line)
            squares = 0.0
            residuals = features.dtype.type(0)
            t = pointers[i]
            while t + 4 <= pointers[i + 1]:
                s0 = np.int64(indices[t]) * q
                s1 = np.int64(indices[t + 1]) * q
                s2 = np.int64(indices[t + 2]) * q
                s3 = np.int64(indices[t + 3]) * q
                r0, r1, r2, r3 = _four_residuals(values, features, line, shift, t, s0, s1, s2, s3)
                g0, g1, g2, g3 = _four_slopes(weights, t, r0, r1, r2, r3)
                for a in range(0, q, LANES):
                    y = fma(g0, load(features, s0 + a), load(slope, a))
                    y = fma(g1, load(features, s1 + a), y)
                    y = fma(g2, load(features, s2 + a), y)
                    store(slope, a, fma(g3, load(features, s3 + a), y))
                    # A line has an index once, so that these four are apart.
                    y = load(line, a)
                    store(other, s0 + a, fma(g0, y, load(other, s0 + a)))
                    store(other, s1 + a, fma(g1, y, load(other, s1 + a)))
                    store(other, s2 + a, fma(g2, y, load(other, s2 + a)))
                    store(other, s3 + a, fma(g3, y, load(other, s3 + a)))
                residuals += (g0 + g1) + (g2 + g3)
                squares += np.float64((r0 * g0 + r1 * g1) + (r2 * g2 + r3 * g3))
                t += 4
            while t < pointers[i + 1]:
                s0 = np.int64(indices[t]) * q
                r0 = _residual(values, features, line, shift, t, s0)
                g0 = _slope(weights, t, r0)
                for a in range(0, q, LANES):
                    store(slope, a, fma(g0, load(features, s0 + a), load(slope, a)))
                    store(other, s0 + a, fma(g0, load(line, a), load(other, s0 + a)))
                residuals += g0
                squares += np.float64(r0) * g0
                t += 1
            if biased:
                slope[k] = residuals
            out[i] = slope
            loss[i] = squares / 2


def gradient_both(
    pointers, indices, values, weights, features, own, k: int, biased: bool, offset: float, workers: Workers
) -> tuple[np.ndarray, np.ndarray, float]:
    """Gradients by own (lines, q) and by features (lines of the other side, q), and the loss."""
    parts = int(np.clip(len(values) // (WORTH_A_PART * max(1, len(features))), 1, MOST_PARTS))
    cuts = np.searchsorted(pointers, np.linspace(0, len(values), parts + 1)[1:-1])
    cuts = np.concatenate([[0], cuts, [len(own)]]).astype(np.int64)
    out, loss = aligned_zeros(own.shape, own.dtype), np.empty(len(own))
    others = aligned_zeros((parts, *features.shape), features.dtype)
    entries = (pointers, indices, values, weights)
    args = (*entries, features, own, k, biased, features.dtype.type(offset), cuts, out, others, loss)
    workers.run_evenly(_gradient_parts, parts, *args, work_per_line=3 * k * len(values) / parts)
    other = others[0]
    for more in others[1:]:
        other += more
    return out, other, float(loss.sum())
