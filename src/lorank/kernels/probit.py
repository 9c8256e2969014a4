"""Sums over entries of the ordered probit likelihood at given x; see `ordinal`."""

import math

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.ordinal import LEVEL_BLOCK, TINY, normal_cdf

_DENSITY = 1 / math.sqrt(2 * math.pi)


@kernel
def probit_terms(levels, x, weights, cuts, scale, out, lo, hi):
    """out_b = weighted log likelihood over block b of the entries; its gradient and Hessian by the cuts behind it.

    Noise of standard deviation `scale`; weights may be empty. out (blocks, 1 + 3 c), c cuts: value, gradient (c),
    the Hessian's diagonal (c) and that beside it (c, last unused).
    """
    top = cuts.size
    for b in range(lo, hi):
        out[b] = 0.0
        for t in range(b * LEVEL_BLOCK, min((b + 1) * LEVEL_BLOCK, x.size)):
            level = levels[t]
            weight = weights[t] if weights.size else 1.0
            low = (cuts[level - 1] - x[t]) / scale if level > 0 else -np.inf
            high = (cuts[level] - x[t]) / scale if level < top else np.inf
            # The same probability in the lower tail, where it is accurate.
            share = normal_cdf(-low) - normal_cdf(-high) if low > 0 else normal_cdf(high) - normal_cdf(low)
            share = max(share, TINY)
            out[b, 0] += weight * math.log(share)
            f = _DENSITY * math.exp(-0.5 * high * high) / (scale * share) if level < top else 0.0
            g = _DENSITY * math.exp(-0.5 * low * low) / (scale * share) if level > 0 else 0.0
            if level < top:
                out[b, 1 + level] += weight * f
                out[b, 1 + top + level] -= weight * f * (high / scale + f)
            if level > 0:
                out[b, level] -= weight * g
                out[b, top + level] -= weight * g * (g - low / scale)
            if 0 < level < top:
                out[b, 2 * top + level] += weight * f * g
