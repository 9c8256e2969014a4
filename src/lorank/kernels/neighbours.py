"""Kriging from the nearest places that have a value, time by time."""

import numpy as np

from lorank.kernels.compiling import kernel


@kernel
def correlation(r, smoothness):
    """Matern of smoothness 1/2, 3/2 or 5/2 (0, 1, 2) at a distance of r lengths; 1 at 0."""
    if smoothness == 0:
        return np.exp(-r)
    r *= np.sqrt(2.0 * smoothness + 1.0)
    if smoothness == 1:
        return (1.0 + r) * np.exp(-r)
    return (1.0 + r + r * r / 3.0) * np.exp(-r)


@kernel
def _distance(points, i, other, j):
    square = 0.0
    for a in range(points.shape[1]):
        square += (points[i, a] - other[j, a]) ** 2
    return np.sqrt(square)


@kernel
def krige_lines(values, points, targets, nearest, smoothness, nugget, count, predicted, variance, lo, hi):
    """predicted_pt and variance_pt of a field of variance 1 at target p from the values of time t around it.

    values (m, n), NaN where nothing was measured, at points (m, d), which are scaled by the kernel's length. nearest
    (p, l), l <= 64, are places in the order of their distance to targets (p, d), -1 behind the last; the first `count`
    that have a value at time t are used. nugget is the variance of the noise of a value.

    Row a of the Cholesky factor L depends on the rows before it only. So times are taken in the order of which places
    have a value, the nearest first: what a time has in common with the one before stays as it is.
    """
    n, most = values.shape[1], nearest.shape[1]
    K, k = np.empty((most, most)), np.empty(most)
    # U is L transposed, so that the innermost loops run along its rows.
    U, row, inverse = np.empty((count, count)), np.empty(count), np.empty(count)
    weights, half = np.empty(count), np.empty(count)
    used, before = np.empty(count, np.int64), np.empty(count, np.int64)
    known, found_at = np.empty(n, np.uint64), np.empty(n, np.int64)
    for p in range(lo, hi):
        known[:] = 0
        found_at[:] = 0
        around, wanting = 0, n
        while around < most and nearest[p, around] >= 0 and wanting > 0:
            place, bit = nearest[p, around], np.uint64(1) << np.uint64(63 - around)
            for t in range(n):
                if not np.isnan(values[place, t]):
                    known[t] |= bit
                    found_at[t] += 1
                    wanting -= found_at[t] == count
            around += 1
        for a in range(around):
            k[a] = correlation(_distance(targets, p, points, nearest[p, a]), smoothness)
            for b in range(a):
                K[a, b] = K[b, a] = correlation(_distance(points, nearest[p, a], points, nearest[p, b]), smoothness)
            K[a, a] = 1.0 + nugget
        last, spread = 0, 1.0
        for t in np.argsort(known):
            found, bit = 0, np.uint64(1) << np.uint64(63)
            for a in range(around):
                if known[t] & bit:
                    used[found] = a
                    found += 1
                    if found == count:
                        break
                bit >>= np.uint64(1)
            kept = 0
            while kept < min(found, last) and used[kept] == before[kept]:
                kept += 1
            if kept < found or found != last:
                last = found
                for a in range(kept, found):
                    before[a] = used[a]
                    for b in range(a + 1):
                        row[b] = K[used[a], used[b]]
                    x = k[used[a]]
                    for b in range(a):
                        entry = row[b] * inverse[b]
                        U[b, a] = entry
                        x -= entry * half[b]
                        for c in range(b + 1, a + 1):
                            row[c] -= entry * U[b, c]
                    inverse[a] = 1.0 / np.sqrt(max(row[a], 1e-12))
                    half[a] = x * inverse[a]
                spread = 1.0
                for a in range(found):
                    spread -= half[a] ** 2
                for a in range(found - 1, -1, -1):
                    x = half[a]
                    for b in range(a + 1, found):
                        x -= U[a, b] * weights[b]
                    weights[a] = x * inverse[a]
            total = 0.0
            for a in range(found):
                total += weights[a] * values[nearest[p, used[a]], t]
            predicted[p, t] = total
            variance[p, t] = max(spread, 0.0)
