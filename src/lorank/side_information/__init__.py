"""Side information about rows or columns: features, graphs, kernels, coordinates on the earth."""

from lorank.side_information.features import Features
from lorank.side_information.graph import GraphLaplacian
from lorank.side_information.kernel import KernelPrior, Whitening

__all__ = ["Features", "GraphLaplacian", "KernelPrior", "Whitening"]
