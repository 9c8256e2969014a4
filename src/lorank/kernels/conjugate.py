"""Many regressions with a large number of unknowns, by conjugate gradients on each line.

In the frame T in which w0 H^T H + ridge is the identity and the ridge is diag(r) (`lorank.linalg.diagonal_frame`) the
system of line i is diagonal but for its own entries,

    (diag(d_i) + F_i' C_i F_i) w_i = F_i' C_i o_i + b + pull_i,    d_i = 1 - r + s_i r,

so that a product with it costs 2 n_i k multiplications instead of the n_i k^2 / 2 of its Gram and the k^3 / 6 of
Cholesky. With diag(d_i) as the preconditioner a line of n_i entries has at most n_i + 1 different eigenvalues.

Takacs, Pilaszy, Tikk, "Applications of the conjugate gradient method for implicit feedback collaborative filtering",
RecSys 2011.
"""

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.memory import aligned_zeros
from lorank.kernels.parallel import Workers
from lorank.kernels.simd import LANES, fma, load, multiply, splat, store, totals

# Each line ends when its residual (in the preconditioner's norm) is this part of what it was, or after so many steps.
REDUCTION, STEPS = 0.05, 30


@kernel
def _products(features, i0, i1, i2, i3, x):
    """<f_i, x> of four lines of the features."""
    q = features.shape[1]
    a0, a1, a2, a3 = np.int64(i0) * q, np.int64(i1) * q, np.int64(i2) * q, np.int64(i3) * q
    y = load(x, 0)
    s0, s1 = multiply(load(features, a0), y), multiply(load(features, a1), y)
    s2, s3 = multiply(load(features, a2), y), multiply(load(features, a3), y)
    for a in range(LANES, q, LANES):
        y = load(x, a)
        s0 = fma(load(features, a0 + a), y, s0)
        s1 = fma(load(features, a1 + a), y, s1)
        s2 = fma(load(features, a2 + a), y, s2)
        s3 = fma(load(features, a3 + a), y, s3)
    return totals(s0, s1, s2, s3)


@kernel
def _add_four(features, i0, i1, i2, i3, c0, c1, c2, c3, out):
    """out += the sum of c_i f_i over four lines of the features."""
    q = features.shape[1]
    a0, a1, a2, a3 = np.int64(i0) * q, np.int64(i1) * q, np.int64(i2) * q, np.int64(i3) * q
    y0, y1, y2, y3 = splat(c0), splat(c1), splat(c2), splat(c3)
    for a in range(0, q, LANES):
        y = fma(y0, load(features, a0 + a), load(out, a))
        y = fma(y1, load(features, a1 + a), y)
        y = fma(y2, load(features, a2 + a), y)
        store(out, a, fma(y3, load(features, a3 + a), y))


@kernel
def _add_image(indices, weights, features, first, last, x, out):
    """out += F_i' C_i F_i x."""
    zero = features.dtype.type(0)
    for t in range(first, last, 4):
        # The last entry stands for those beyond it, with no weight.
        n = last - t
        i0, i1, i2 = indices[t], indices[t + min(1, n - 1)], indices[t + min(2, n - 1)]
        i3 = indices[t + min(3, n - 1)]
        s0, s1, s2, s3 = _products(features, i0, i1, i2, i3, x)
        if weights is not None:
            s0 *= weights[t]
            s1 *= weights[t + min(1, n - 1)]
            s2 *= weights[t + min(2, n - 1)]
            s3 *= weights[t + min(3, n - 1)]
        s1 = s1 if n > 1 else zero
        s2 = s2 if n > 2 else zero
        s3 = s3 if n > 3 else zero
        _add_four(features, i0, i1, i2, i3, s0, s1, s2, s3, out)


@kernel
def _add_targets(indices, values, weights, features, first, last, out):
    """out += F_i' C_i o_i; returns o_i' C_i o_i."""
    q = features.shape[1]
    squares = 0.0
    for t in range(first, last):
        scale = values[t] if weights is None else weights[t] * values[t]
        squares += np.float64(scale) * values[t]
        source, y = np.int64(indices[t]) * q, splat(scale)
        for a in range(0, q, LANES):
            store(out, a, fma(y, load(features, source + a), load(out, a)))
    return squares


@kernel
def _improve_range(
    pointers, indices, values, weights, features, k, ridge, base, linear, constant, shares, pull, start, out, loss,
    lo, hi,
):  # fmt: skip
    """Conjugate gradients for the lines lo to hi; see `improve_lines`."""
    q = features.shape[1]
    kind = features.dtype.type
    right, residual, image = np.zeros(q, features.dtype), np.zeros(q, features.dtype), np.zeros(q, features.dtype)
    direction, diagonal = np.zeros(q, features.dtype), np.ones(q, features.dtype)
    for i in range(lo, hi):
        first, last = pointers[i], pointers[i + 1]
        share = kind(1) if shares is None else shares[i]
        x = out[i]
        x[:] = start[i]
        for a in range(k):
            right[a] = linear[a]
            diagonal[a] = base[a] + share * ridge[a]
        squares = _add_targets(indices, values, weights, features, first, last, right)
        if pull.size:
            for a in range(k):
                right[a] += pull[i, a]
        image[:] = 0
        _add_image(indices, weights, features, first, last, x, image)
        now = 0.0
        for a in range(k):
            residual[a] = right[a] - image[a] - diagonal[a] * x[a]
            direction[a] = residual[a] / diagonal[a]
            now += np.float64(residual[a]) * direction[a]
        enough = REDUCTION * REDUCTION * now
        for _ in range(STEPS):
            if not now > enough:
                break
            image[:] = 0
            _add_image(indices, weights, features, first, last, direction, image)
            curvature = 0.0
            for a in range(k):
                image[a] += diagonal[a] * direction[a]
                curvature += np.float64(image[a]) * direction[a]
            length = kind(now / curvature)
            before, now = now, 0.0
            for a in range(k):
                x[a] += length * direction[a]
                residual[a] -= length * image[a]
                now += np.float64(residual[a]) * residual[a] / diagonal[a]
            ratio = kind(now / before)
            for a in range(k):
                direction[a] = residual[a] / diagonal[a] + ratio * direction[a]
        # At x the product with the system is right - residual, and the loss has neither ridge nor pull in it.
        value = constant + squares
        for a in range(k):
            own = np.float64(x[a])
            forced = right[a] - pull[i, a] if pull.size else right[a]
            value += own * (right[a] - residual[a] - share * ridge[a] * own - 2.0 * forced)
        loss[i] = max(value, 0.0) / 2


def improve_lines(
    pointers,
    indices,
    values,
    weights,
    features,
    k: int,
    ridge,
    base,
    linear,
    constant: float,
    shares,
    pull,
    start,
    workers: Workers,
) -> tuple[np.ndarray, np.ndarray]:
    """Lines nearer to the solution of their ridge regressions than a start is, padded, and each line's loss.

    ridge and base (k,) are the diagonals r and 1 - r, linear (k,) and constant what every line has beside its entries;
    shares (lines,) or None for 1; pull (lines, k) or empty; start (lines, q). All in the frame in which they are
    diagonal. The same bits however lines are cut into blocks; the objective of a line never rises.
    """
    count = pointers.size - 1
    out, loss = aligned_zeros((count, features.shape[1]), features.dtype), np.empty(count)
    terms = (ridge, base, linear, float(constant), shares, pull, start, out, loss)
    work = {"work_per_entry": 12.0 * k, "work_per_line": 20.0 * k}
    workers.run(_improve_range, pointers, pointers, indices, values, weights, features, k, *terms, **work)
    return out, loss
