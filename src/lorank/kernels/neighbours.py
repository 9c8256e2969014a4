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
    (p, l) are places in the order of their distance to targets (p, d), -1 behind the last; the first `count` that have
    a value at time t are used. nugget is the variance of the noise of a value. Times with the same places share their
    weights.
    """
    n, most = values.shape[1], nearest.shape[1]
    K, k = np.empty((most, most)), np.empty(most)
    L, weights, half = np.empty((count, count)), np.empty(count), np.empty(count)
    used, before = np.empty(count, np.int64), np.empty(count, np.int64)
    for p in range(lo, hi):
        around = 0
        while around < most and nearest[p, around] >= 0:
            around += 1
        for a in range(around):
            k[a] = correlation(_distance(targets, p, points, nearest[p, a]), smoothness)
            for b in range(a):
                K[a, b] = K[b, a] = correlation(_distance(points, nearest[p, a], points, nearest[p, b]), smoothness)
            K[a, a] = 1.0 + nugget
        last, spread = 0, 1.0
        for t in range(n):
            found = 0
            for a in range(around):
                if not np.isnan(values[nearest[p, a], t]):
                    used[found] = a
                    found += 1
                    if found == count:
                        break
            # A row of the Cholesky factor depends on those before it only: what is the same as at the last time stays.
            kept = 0
            while kept < min(found, last) and used[kept] == before[kept]:
                kept += 1
            if kept < found or found != last:
                last = found
                for a in range(kept, found):
                    before[a] = used[a]
                    x = k[used[a]]
                    for b in range(a + 1):
                        s = K[used[a], used[b]]
                        for c in range(b):
                            s -= L[a, c] * L[b, c]
                        if b < a:
                            L[a, b] = s / L[b, b]
                            x -= L[a, b] * half[b]
                        else:
                            L[a, a] = np.sqrt(max(s, 1e-12))
                    half[a] = x / L[a, a]
                spread = 1.0
                for a in range(found):
                    spread -= half[a] ** 2
                for a in range(found - 1, -1, -1):
                    x = half[a]
                    for b in range(a + 1, found):
                        x -= L[b, a] * weights[b]
                    weights[a] = x / L[a, a]
            total = 0.0
            for a in range(found):
                total += weights[a] * values[nearest[p, used[a]], t]
            predicted[p, t] = total
            variance[p, t] = max(spread, 0.0)
