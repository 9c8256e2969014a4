"""The problem that users state and solvers take."""

from __future__ import annotations

from dataclasses import dataclass

from lorank.problems.factored import FactoredProblem
from lorank.problems.spectral import SpectralProblem


@dataclass(frozen=True)
class Problem(FactoredProblem, SpectralProblem):
    """What was observed, and what is preferred among the matrices that fit it.

    A solver says by its annotations which part it works with: `FactoredProblem` at X = W H^T, `SpectralProblem` at
    X = U diag(sigma) V^T, or what both have in common, `BaseProblem`.

    Parameters
    ----------
    observations : Observations
    regularizer : Spectral or Factored
        None where the solver has priors of its own.
    rank : int
        Width k of the factors, or the largest rank of a spectral solver.
    bias_ridges : (float, float), optional
        Ridges of the row and of the column biases, both positive. With them X_ij = offset + a_i + b_j + <w_i, h_j>.
    n_jobs : int, optional
        Threads; None for all cores.
    pointwise : Loss
        Of an entry; squared by default.
    row_side, col_side : Features, GraphLaplacian or KernelPrior, or a tuple of features and a graph, optional
        What is known of rows or columns beforehand. With a graph gamma/2 tr(X^T L X) is added, and with a kernel prior
        the regularizer is taken at the whitened factor; biases are then fitted first. Features say where factors are
        expected, and the regularizer is taken at what is left of them.
    unobserved : Unobserved, optional
        With it every entry that was not observed is a value with a small weight.
    frequency_power : float
        0 regularizes all lines alike, 1 in proportion to their weight; see `BaseProblem.shares`.

    Examples
    --------
    >>> problem = Problem(Observations.from_dense(X), FactoredNNFN(lam=0.1), rank=5)
    >>> solve(Alternating(), problem).factors
    """
