"""Regularizers: of singular values (`Spectral`), of factors (`Factored`), and what is known of rows and columns."""

from lorank.regularizers.base import Factored, Separable, Spectral, SpectralValue
from lorank.regularizers.concave import LSP, MCP, CappedL1, SchattenP
from lorank.regularizers.factored import FactoredGSR, FactoredGSRTwoThirds, FactoredNNFN, FactoredNuclear, group_sparse
from lorank.regularizers.graph import GraphLaplacian
from lorank.regularizers.prior import KernelPrior, Whitening
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
    "GraphLaplacian",
    "KernelPrior",
    "Nuclear",
    "SchattenP",
    "Separable",
    "Spectral",
    "SpectralValue",
    "TruncatedL12",
    "Whitening",
    "group_sparse",
]
