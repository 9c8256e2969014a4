"""Ordered probit: level l where g_l < z <= g_{l+1}, z = x + N(0, sd^2); g_0 = -inf and g_L = inf are not stored."""

import math

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.counters import uniforms

# Sums are taken over blocks of this many entries, whatever the number of threads: the same bits always.
LEVEL_BLOCK = 4096
_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
TINY = 1e-290


@kernel
def normal_cdf(t):
    return 0.5 * math.erfc(-t * _ROOT_HALF)


@kernel
def normal_quantile(p):
    """The t with normal_cdf(t) = p, 0 < p < 1 (Wichura, algorithm AS 241; relative error 1e-16)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        num = (
            (
                (
                    (
                        ((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r
                        + 45921.953931549871457
                    )
                    * r
                    + 13731.693765509461125
                )
                * r
                + 1971.5909503065514427
            )
            * r
            + 133.14166789178437745
        ) * r + 3.387132872796366608
        den = (
            (
                (
                    (
                        ((5226.495278852854561 * r + 28729.085735721942674) * r + 39307.89580009271061) * r
                        + 21213.794301586595867
                    )
                    * r
                    + 5394.1960214247511077
                )
                * r
                + 687.1870074920579083
            )
            * r
            + 42.313330701600911252
        ) * r + 1.0
        return q * num / den
    r = math.sqrt(-math.log(min(p, 1 - p)))
    if r <= 5.0:
        r -= 1.6
        num = (
            (
                (
                    (
                        ((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r
                        + 1.27045825245236838258
                    )
                    * r
                    + 3.64784832476320460504
                )
                * r
                + 5.7694972214606914055
            )
            * r
            + 4.6303378461565452959
        ) * r + 1.42343711074968357734
        den = (
            (
                (
                    (
                        ((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r
                        + 0.14810397642748007459
                    )
                    * r
                    + 0.68976733498510000455
                )
                * r
                + 1.6763848301838038494
            )
            * r
            + 2.05319162663775882187
        ) * r + 1.0
    else:
        r -= 5.0
        num = (
            (
                (
                    (
                        ((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r
                        + 0.026532189526576123093
                    )
                    * r
                    + 0.29656057182850489123
                )
                * r
                + 1.7848265399172913358
            )
            * r
            + 5.4637849111641143699
        ) * r + 6.6579046435011037772
        den = (
            (
                (
                    (
                        ((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r
                        + 7.868691311456132591e-4
                    )
                    * r
                    + 0.0148753612908506148525
                )
                * r
                + 0.13692988092273580531
            )
            * r
            + 0.59983220655588793769
        ) * r + 1.0
    return -num / den if q < 0 else num / den


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
def draw_latent(pointers, cols, levels, x, own, roots, cuts, key, stream, out, lo, hi):
    """z of every entry of the rows lo..hi given x and the cuts; the noise's precision is own_i roots_j^2."""
    top = cuts.size
    for i in range(lo, hi):
        for t in range(pointers[i], pointers[i + 1]):
            root = math.sqrt(own[i]) * roots[cols[t]]
            level = levels[t]
            low = (cuts[level - 1] - x[t]) * root if level > 0 else -np.inf
            high = (cuts[level] - x[t]) * root if level < top else np.inf
            u = uniforms(key, stream, t, 0)[0]
            out[t] = x[t] + truncated_normal(low, high, u) / root


@kernel
def cut_terms(rows, cols, levels, x, own, roots, cuts, out, lo, hi):
    """out_b = log likelihood of the cuts over block b of the entries, z integrated out; gradient and Hessian behind it.

    out (blocks, 1 + 3 c), c cuts: value, gradient (c), Hessian's diagonal (c) and that beside it (c, last unused).
    """
    top = cuts.size
    for b in range(lo, hi):
        for a in range(out.shape[1]):
            out[b, a] = 0.0
        for t in range(b * LEVEL_BLOCK, min((b + 1) * LEVEL_BLOCK, x.size)):
            root = math.sqrt(own[rows[t]]) * roots[cols[t]]
            level = levels[t]
            low = (cuts[level - 1] - x[t]) * root if level > 0 else -np.inf
            high = (cuts[level] - x[t]) * root if level < top else np.inf
            flip = low > 0  # the same probability in the lower tail
            share = normal_cdf(-low) - normal_cdf(-high) if flip else normal_cdf(high) - normal_cdf(low)
            share = max(share, TINY)
            out[b, 0] += math.log(share)
            f = _DENSITY * math.exp(-0.5 * high * high) * root / share if level < top else 0.0
            g = _DENSITY * math.exp(-0.5 * low * low) * root / share if level > 0 else 0.0
            if level < top:
                out[b, 1 + level] += f
                out[b, 1 + top + level] -= f * (high * root + f)
            if level > 0:
                out[b, level] -= g
                out[b, top + level] -= g * (g - low * root)
            if 0 < level < top:
                out[b, 2 * top + level] += f * g


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
