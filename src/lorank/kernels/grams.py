"""Normal equations of every line, kept instead of solved: for half-steps in which lines depend on each other."""

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.lines import BLOCK, _add_gram
from lorank.kernels.simd import LANES, load, store


@kernel
def gram_lines(pointers, indices, values, features, k, out, lo, hi):
    """out_i = [F_i, o_i]' [F_i, o_i], lower triangle, for the features F_i (padded, no bias) that line i has seen.

    out (lines, q, q): row k holds F_i' o_i and, at column k, o_i' o_i.
    """
    q = features.shape[1]
    block = np.zeros((BLOCK, q), features.dtype)
    for i in range(lo, hi):
        gram = out[i]
        gram[:] = 0
        at = pointers[i]
        while at < pointers[i + 1]:
            n = min(BLOCK, pointers[i + 1] - at)
            for t in range(n):
                source = np.int64(indices[at + t]) * q
                for a in range(0, q, LANES):
                    store(block, t * q + a, load(features, source + a))
                block[t, k] = values[at + t]
            _add_gram(block, n, k + 1, gram)
            at += n
