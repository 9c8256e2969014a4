"""Low-rank factors, the operator low rank + sparse, and its truncated SVD."""

from lorank.linalg.balance import Frame, accurate_balance, balance, diagonal_frame
from lorank.linalg.factors import (
    Factors,
    effective_rank,
    gram,
    moved,
    narrowed,
    pad,
    padded_width,
    turned,
    without_biases,
)
from lorank.linalg.operators import SparsePlusLowRank
from lorank.linalg.truncated import TruncatedSVD, truncated_svd

__all__ = [
    "Factors",
    "Frame",
    "SparsePlusLowRank",
    "TruncatedSVD",
    "accurate_balance",
    "balance",
    "diagonal_frame",
    "effective_rank",
    "gram",
    "moved",
    "narrowed",
    "pad",
    "padded_width",
    "truncated_svd",
    "turned",
    "without_biases",
]
