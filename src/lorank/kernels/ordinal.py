"""Ordered probit: level l where g_l < z <= g_{l+1}, z = x + N(0, sd^2); g_0 = -inf and g_L = inf are not stored."""

import math

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.counters import uniforms
from lorank.kernels.normal import lower_normal, normal_cdf, normal_quantile

# Sums are taken over blocks of this many entries, whatever the number of threads: the same bits always.
LEVEL_BLOCK = 4096
TINY = 1e-290
# The probability of an observed level is not taken for less, nor that of several of them for less than their product.
LEAST_SHARE, LEAST_PRODUCT = 1e-200, 1e-100


@kernel
def truncated_normal(low, high, u):
    """The u-quantile of a standard normal number within (low, high], computed in the tail where it is exact."""
    sign = 1.0
    if low > 0:
        low, high, u, sign = -high, -low, 1 - u, -1.0
    below, above = normal_cdf(low), normal_cdf(high)
    p = below + u * (above - below)
    if not p > TINY:
        return sign * high  # so far out that the nearest end is all there is
    return sign * min(max(normal_quantile(min(p, 1 - 1e-16)), low), high)


@kernel
def draw_latent(pointers, cols, weights, levels, x, own, roots, cuts, key, stream, out, lo, hi):
    """z of every entry of the rows lo..hi given x and the cuts; the noise's precision is own_i roots_j^2 weights_t."""
    top = cuts.size
    four = uniforms(key, stream, pointers[lo] // 4, 0)
    for i in range(lo, hi):
        for t in range(pointers[i], pointers[i + 1]):
            if t % 4 == 0:
                four = uniforms(key, stream, t // 4, 0)
            root = math.sqrt(own[i]) * roots[cols[t]]
            if weights is not None:
                root *= math.sqrt(weights[t])
            level = levels[t]
            low = (cuts[level - 1] - x[t]) * root if level > 0 else -np.inf
            high = (cuts[level] - x[t]) * root if level < top else np.inf
            out[t] = x[t] + truncated_normal(low, high, four[t % 4]) / root


@kernel
def cut_terms(rows, cols, weights, levels, x, own, roots, cuts, out, lo, hi):
    """out_b = log likelihood of the cuts over block b of the entries, z integrated out; gradient and Hessian behind it.

    out (blocks, 1 + 3 c), c cuts: value, gradient (c), Hessian's diagonal (c) and that beside it (c, last unused).
    """
    top = cuts.size
    for b in range(lo, hi):
        for a in range(out.shape[1]):
            out[b, a] = 0.0
        value, product = 0.0, 1.0
        for t in range(b * LEVEL_BLOCK, min((b + 1) * LEVEL_BLOCK, x.size)):
            root = math.sqrt(own[rows[t]]) * roots[cols[t]]
            if weights is not None:
                root *= math.sqrt(weights[t])
            level = levels[t]
            low = (cuts[level - 1] - x[t]) * root if level > 0 else -np.inf
            high = (cuts[level] - x[t]) * root if level < top else np.inf
            (below, g), (above, f) = lower_normal(-abs(low)), lower_normal(-abs(high))
            # Both ends in the same tail, or one in each.
            share = below - above if low > 0 else above - below if high <= 0 else 1 - above - below
            share = max(share, LEAST_SHARE)
            product *= share
            if product < LEAST_PRODUCT:  # one logarithm for many entries
                value += math.log(product)
                product = 1.0
            scale = root / share
            f *= scale
            g *= scale
            if level < top:
                out[b, 1 + level] += f
                out[b, 1 + top + level] -= f * (high * root + f)
            if level > 0:
                out[b, level] -= g
                out[b, top + level] -= g * (g - low * root)
            if 0 < level < top:
                out[b, 2 * top + level] += f * g
        out[b, 0] = value + math.log(product)


@kernel
def level_probabilities(rows, cols, means, deviations, right, noise_rows, noise_cols, width, draws, cuts, out, lo, hi):
    """out (pairs, levels) = probability of each level, averaged over draws that lie side by side.

    As in `spread_pairs`, x_s = draws * <means_i, right_j>_s; a draw and its mirror image at x_s count half each. The
    noise's variance in draw s is draws * noise_rows_is * noise_cols_js, and cuts (draws, levels - 1).
    """
    top = cuts.shape[1]
    for t in range(lo, hi):
        i, j = rows[t], cols[t]
        if i < 0 or i >= means.shape[0] or j < 0 or j >= right.shape[0]:
            raise IndexError("A row or column is outside of the matrix.")
        for level in range(top + 1):
            out[t, level] = 0.0
        out[t, 0] = 1.0
        for s in range(draws):
            x, off = 0.0, 0.0
            for a in range(s * width, (s + 1) * width):
                x += means[i, a] * right[j, a]
                off += deviations[i, a] * right[j, a]
            root = 1 / math.sqrt(draws * noise_rows[i, s] * noise_cols[j, s])
            for level in range(top):
                far = x * draws - cuts[s, level]
                above = (normal_cdf((far + off) * root) + normal_cdf((far - off) * root)) / (2 * draws)
                out[t, level + 1] += above
                out[t, level] -= above
