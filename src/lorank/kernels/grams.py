"""Normal equations of every line, kept instead of solved: for half-steps in which lines depend on each other."""

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.lines import BLOCK, line_gram


@kernel
def gram_lines(pointers, indices, values, features, k, out, lo, hi):
    """out_i = [F_i, o_i]' [F_i, o_i], lower triangle, for the features F_i (padded, no bias) that line i has seen.

    out (lines, q, q): row k holds F_i' o_i and, at column k, o_i' o_i.
    """
    block = np.zeros((BLOCK, features.shape[1]), features.dtype)
    for i in range(lo, hi):
        line_gram(pointers, indices, values, features, k, False, features.dtype.type(0), i, block, out[i])
