"""Regularizers: of singular values (`Spectral`), of factors (`Factored`)."""

from lorank.regularizers.base import Factored, Separable, Spectral, SpectralValue
from lorank.regularizers.concave import LSP, MCP, CappedL1, SchattenP
from lorank.regularizers.factored import FactoredGSR, FactoredGSRTwoThirds, FactoredNNFN, FactoredNuclear, group_sparse
from lorank.regularizers.spectral import NNFN, Nuclear, TruncatedL12

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
