"""Regularizers: of singular values (`Spectral`), of factors (`Factored`)."""

from lorank.regularizers.base import Factored, Separable, Spectral, SpectralValue
from lorank.regularizers.concave import LSP, MCP, CappedL1, SchattenP
from lorank.regularizers.fgsr import FactoredGSR, FactoredGSRTwoThirds, group_sparse
from lorank.regularizers.nnfn import NNFN, FactoredNNFN, TruncatedL12
from lorank.regularizers.nuclear import FactoredNuclear, Nuclear

__all__ = [
    "LSP",
    "MCP",
    "NNFN",
    "CappedL1",
    "Factored",
    "FactoredGSR",
    "FactoredGSRTwoThirds",
    "FactoredNNFN",
    "FactoredNuclear",
    "Nuclear",
    "SchattenP",
    "Separable",
    "Spectral",
    "SpectralValue",
    "TruncatedL12",
    "group_sparse",
]
