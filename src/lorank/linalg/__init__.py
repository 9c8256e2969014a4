"""Low-rank factors, the operator low rank + sparse, and its truncated SVD."""

from lorank.linalg.balance import Frame, balance
from lorank.linalg.factors import Factors, pad, padded_width
from lorank.linalg.operators import SparsePlusLowRank
from lorank.linalg.truncated import TruncatedSVD, truncated_svd

__all__ = [
    "Factors",
    "Frame",
    "SparsePlusLowRank",
    "TruncatedSVD",
    "balance",
    "pad",
    "padded_width",
    "truncated_svd",
]
