"""Compiled loops over observed entries, on plain arrays. The only room that imports numba.

Factors come to the kernels *padded*: a factor of width k (and perhaps a bias) is stored in rows of q numbers,
q a multiple of the vector width, with zeros behind. Column k holds the bias where there is one. Kernels work on
lines: a line is a row of the row-major copy of the data, or a column of the column-major one, so every half-step is
one kernel called twice. Lines are independent: the same bits come out for any number of threads.
"""

from lorank.kernels.best import keep_best
from lorank.kernels.checksum import checksum
from lorank.kernels.compression import (
    compress,
    count_if_sorted,
    count_known,
    deal,
    first_duplicate,
    first_wrong_line,
    radix_sort,
    transpose,
)
from lorank.kernels.conjugate import improve_lines
from lorank.kernels.gradients import gradient_both, gradient_lines
from lorank.kernels.lines import (
    GRAM_BLOCK,
    gram_blocks,
    gram_lines,
    line_sums,
    multiply_lines,
    predict_pairs,
    solve_lines,
)
from lorank.kernels.memory import aligned_zeros, unlocked
from lorank.kernels.neighbours import krige_lines
from lorank.kernels.ordinal import LEVEL_BLOCK, cut_terms, draw_latent, level_probabilities
from lorank.kernels.parallel import Workers, available_cores
from lorank.kernels.priors import draw_mean, draw_prior, draw_weights, slope_density, weights_density, wishart
from lorank.kernels.probit import probit_terms
from lorank.kernels.sampling import draw_lines, interval_halves, sample_lines, spread_pairs
from lorank.kernels.simd import LANES
from lorank.kernels.trees import ask_trees, grow_trees

__all__ = [
    "GRAM_BLOCK",
    "LANES",
    "LEVEL_BLOCK",
    "Workers",
    "aligned_zeros",
    "ask_trees",
    "available_cores",
    "checksum",
    "compress",
    "count_if_sorted",
    "count_known",
    "cut_terms",
    "deal",
    "draw_latent",
    "draw_lines",
    "draw_mean",
    "draw_prior",
    "draw_weights",
    "first_duplicate",
    "first_wrong_line",
    "gradient_both",
    "gradient_lines",
    "gram_blocks",
    "gram_lines",
    "grow_trees",
    "improve_lines",
    "interval_halves",
    "keep_best",
    "krige_lines",
    "level_probabilities",
    "line_sums",
    "multiply_lines",
    "predict_pairs",
    "probit_terms",
    "radix_sort",
    "sample_lines",
    "slope_density",
    "solve_lines",
    "spread_pairs",
    "transpose",
    "unlocked",
    "weights_density",
    "wishart",
]
