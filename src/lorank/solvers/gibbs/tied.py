"""Rows that a graph ties to each other: their conditional is one Gaussian of all rows together.

With the graph's density exp(-alpha gamma/2 tr(W^T L W H^T H)) beside the priors, the rows given the columns have the
precision alpha P and the mean P^-1 b with

    (P W)_i = (G_i + Lambda/alpha) w_i + gamma (L W)_i H^T H,   b_i = H_i^T o_i + Lambda mu / alpha.

P is that of a half-step of alternating least squares, so that its conjugate gradients serve here too. A draw is the
mean for a right side that was disturbed by noise of covariance P / alpha: P^-1 (b + e) has the covariance P^-1 / alpha.

References
----------
Papandreou, Yuille, "Gaussian sampling by local perturbations", NeurIPS 2010.
"""

from __future__ import annotations

import numpy as np

from lorank import kernels
from lorank.linalg import Factors, pad
from lorank.observations import Lines
from lorank.side_information.base import Added
from lorank.solvers.half_steps import conjugate_gradients, graph_system, half_squares, normal_equations
from lorank.types import Array

# Of the linear systems of tied rows: what is left of the error is far below the spread of the draws.
TIED_TOLERANCE = 1e-5


def draw_tied(
    graph: Added,
    lines: Lines,
    factors: Factors,
    gram: Array,
    ridge: Array,
    pull: Array,
    precision: float,
    rng: np.random.Generator,
    workers: kernels.Workers,
) -> tuple[Array, Array, float]:
    """Means and a draw (padded) of the left factor given the right one, and half the squared residuals at the draw.

    gram is H^T H (k, k); ridge (k, k) and pull (k,) or (lines, k) are those of the prior, in units of the
    noise's precision alpha.
    """
    G, B, squares = normal_equations(lines, factors, workers)
    fractions = np.diff(lines.pointers) / len(factors.right)
    system, precondition = graph_system(graph, G, fractions, gram, gram, ridge)
    right = B + pull
    root = graph.root
    own = np.linalg.cholesky(G + ridge) @ rng.standard_normal((*B.shape, 1))
    tied = root @ rng.standard_normal((root.shape[1], factors.k)) @ _root(gram).T
    noise = (own[:, :, 0] + tied) / np.sqrt(precision)
    mean = conjugate_gradients(system, right, factors.W.astype(np.float64), precondition, TIED_TOLERANCE)
    draw = mean + conjugate_gradients(system, noise, precondition(noise), precondition, TIED_TOLERANCE)
    loss = half_squares(G, B, squares, draw)
    return pad(mean.astype(factors.dtype)), pad(draw.astype(factors.dtype)), loss


def _root(gram: Array) -> Array:
    """A root of a Gram, which may be singular."""
    values, Q = np.linalg.eigh(gram)
    return Q * np.sqrt(np.maximum(values, 0.0))
