"""Half-steps: the left factor given the right one.

Without side information every row is a ridge regression of its own (`FactoredProblem.ridge_regressions`). A graph or a
kernel ties the rows to each other, and the half-step is one large linear system. With H fixed, G_i = H_i^T H_i the
normal equations of row i and M the regularizer's multiplier, the new W solves

    graph:   G_i w_i + gamma (L W)_i H^T H + w_i M = H_i^T o_i
    kernel:  W = C U,  C^T [G_i w_i]_i + U M = C^T [H_i^T o_i]_i

by conjugate gradients from the W of before, so that the half-step lowers its quadratic however early it ends. If row i
has seen the fraction s_i of its entries, G_i is close to s_i H^T H, and the system with that in its place is solved
exactly: diag(s) + gamma L, or C^T diag(s) C, is diagonalised once in a fit, (H^T H, M) in every half-step, and the rest
is a division. That is the preconditioner; where the observed rows are complete it is the solution. A sparse graph,
whose eigenvectors would be dense, takes the k x k blocks of its rows instead.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from lorank import kernels
from lorank.linalg import Factors, pad
from lorank.observations import Lines
from lorank.problems import FactoredProblem
from lorank.side_information.base import Added, Whitened
from lorank.types import Array

Map = Callable[[Array], Array]

# Conjugate gradients end when the preconditioned residual has fallen to this part of what it was at the start (which is
# the factor of the sweep before, so that every sweep gains a digit), or after so many iterations.
TOLERANCE = 0.03
MAX_ITER = 40
# A residual of this part of the right side is rounding.
ROUNDING = 1e-14


def half_step(
    problem: FactoredProblem, factors: Factors, ridge: Array, pull: Array | None = None, transposed: bool = False
) -> tuple[Array, float]:
    """The left factor (padded) for a ridge and a pull on it, both k x k, and the loss there.

    The graph of the other side is a ridge on this one: gamma/2 tr(W^T L W H^T H) is 1/2 <H (gamma W^T L W), H>.
    """
    graph, prior, other = problem.added(transposed), problem.whitened(transposed), problem.added(not transposed)
    beside = None
    if other is not None:
        H = factors.H.astype(np.float64)
        beside = H.T @ other.dot(H)
    if graph is None and prior is None:
        regressions = problem.improved_regressions if problem.improves(factors.k) else problem.ridge_regressions
        return regressions(factors, ridge, pull, transposed, beside=beside)
    gram = problem.gram(factors.right, factors.k)
    if graph is not None:
        return graph_half_step(problem, graph, factors, gram, gram, ridge, pull, transposed, beside)
    assert prior is not None
    return kernel_half_step(
        problem, prior, factors, gram, ridge if beside is None else ridge + beside, pull, transposed
    )


def graph_half_step(
    problem: FactoredProblem,
    graph: Added,
    factors: Factors,
    gram: Array,
    graph_gram: Array,
    ridge: Array,
    pull: Array | None,
    transposed: bool,
    beside: Array | None = None,
) -> tuple[Array, float]:
    """Left factor of the half-step with gamma/2 tr(W^T L W graph_gram), and the loss there.

    graph_gram is H^T H for the term a(W H^T), the identity for a(W); gram is H^T H in both. ridge and pull are on
    deviations from what features expect, if there are any, `beside` is a ridge on W.
    """
    G, B, squares = normal_equations(problem.lines(transposed), factors, problem.workers)
    W = factors.W.astype(np.float64)
    own = problem.deviations(W, transposed)
    right = B if own is W else B + (W - own) @ ridge
    if pull is not None:
        right = right + own @ pull
    if beside is not None:
        ridge = ridge + beside
    system, precondition = graph_system(graph, G, problem.fractions(transposed), gram, graph_gram, ridge)
    W = conjugate_gradients(system, right, W, precondition)
    return pad(W.astype(factors.dtype)), half_squares(G, B, squares, W)


def graph_system(
    graph: Added, G: Array, fractions: Array, gram: Array, graph_gram: Array, ridge: Array
) -> tuple[Map, Map]:
    """W -> G_i w_i + W ridge + gamma L W graph_gram, and a map near its inverse; fractions are those of rows seen."""
    ridge = _lifted(ridge, gram)

    def system(W: Array) -> Array:
        return _rowwise(G, W) + W @ ridge + graph.dot(W) @ graph_gram

    if graph.sparse or graph_gram is not gram:
        blocks = np.linalg.inv(G + ridge + (graph.weight * graph.diagonal)[:, None, None] * graph_gram)

        def precondition(R: Array) -> Array:
            return _rowwise(blocks, R)
    else:
        values, Q = graph.modes(fractions)
        divide = _division(values, gram, ridge)

        def precondition(R: Array) -> Array:
            # In the precision of the modes: a preconditioner need not be exact.
            return np.asarray(Q @ divide(Q.T @ R.astype(Q.dtype)).astype(Q.dtype), np.float64)

    return system, precondition


def kernel_half_step(
    problem: FactoredProblem,
    prior: Whitened,
    factors: Factors,
    gram: Array,
    ridge: Array,
    pull: Array | None,
    transposed: bool,
) -> tuple[Array, float]:
    """Left factor of the half-step over U with W = C U, and the loss there; ridge and pull act on U."""
    G, B, squares = normal_equations(problem.lines(transposed), factors, problem.workers)
    G, B = G[prior.observed], B[prior.observed]
    ridge = _lifted(ridge, gram)
    U = prior.latent(factors.W)
    C = prior.root

    def system(U: Array) -> Array:
        return C.T @ _rowwise(G, C @ U) + U @ ridge

    right = C.T @ B if pull is None else C.T @ B + U @ pull
    U = conjugate_gradients(system, right, U, _division(prior.values, gram, ridge))
    W = prior.expand(U)
    return pad(W.astype(factors.dtype)), half_squares(G, B, squares, W[prior.observed])


def normal_equations(lines: Lines, factors: Factors, workers: kernels.Workers) -> tuple[Array, Array, float]:
    """G (m, k, k) with G_i = H_i^T C_i H_i, B (m, k) with b_i = H_i^T C_i o_i, and the sum of c o^2; in float64."""
    k, q = factors.k, factors.right.shape[1]
    out = np.empty((len(lines.pointers) - 1, q, q), factors.dtype)
    args = (*lines.arrays, factors.right, k, out)
    workers.run(kernels.gram_lines, lines.pointers, *args, work_per_entry=(k + 1) * (k + 2) / 2)
    G = np.tril(out[:, :k, :k]).astype(np.float64)
    G += np.tril(G, -1).transpose(0, 2, 1)
    return G, out[:, k, :k].astype(np.float64), float(out[:, k, k].sum(dtype=np.float64))


def conjugate_gradients(
    system: Map, right: Array, start: Array, precondition: Map, tolerance: float | None = None
) -> Array:
    """x with system(x) = right, from a start; never further from it than the start, in the system's own norm."""
    tolerance = TOLERANCE if tolerance is None else tolerance
    x = start
    residual = right - system(x)
    direction = step = precondition(residual)
    now = float(np.sum(residual * step))
    enough = max(tolerance**2 * now, ROUNDING**2 * float(np.sum(right * precondition(right))))
    for _ in range(MAX_ITER):
        if not now > enough:
            break
        image = system(direction)
        length = now / float(np.sum(direction * image))
        x = x + length * direction
        residual = residual - length * image
        step = precondition(residual)
        before, now = now, float(np.sum(residual * step))
        direction = step + (now / before) * direction
    return x


def _division(values: Array, gram: Array, ridge: Array) -> Map:
    """R -> X with diag(values) X gram + X ridge = R."""
    g, T = scipy.linalg.eigh(gram, ridge)
    scale = 1 / (np.maximum(values, 0.0)[:, None] * np.maximum(g, 0.0) + 1)
    return lambda R: (R @ T * scale) @ T.T


def _lifted(ridge: Array, gram: Array) -> Array:
    """The ridge, with enough on its diagonal to be invertible: NNFN takes it off the strongest direction."""
    floor = 1e-10 * (np.trace(gram) + np.trace(ridge)) / len(ridge) + 1e-300
    return ridge + floor * np.eye(len(ridge))


def _rowwise(blocks: Array, W: Array) -> Array:
    """Rows blocks_i w_i."""
    return np.matmul(blocks, W[:, :, None])[:, :, 0]


def half_squares(G: Array, B: Array, squares: float, W: Array) -> float:
    """1/2 the sum of squared residuals at W, from the normal equations."""
    return 0.5 * max(squares + float(np.sum(W * (_rowwise(G, W) - 2 * B))), 0.0)
