"""Side information about rows or columns: graphs, kernels, coordinates on the earth."""

from lorank.side_information.graph import GraphLaplacian
from lorank.side_information.kernel import KernelPrior, Whitening

__all__ = ["GraphLaplacian", "KernelPrior", "Whitening"]
