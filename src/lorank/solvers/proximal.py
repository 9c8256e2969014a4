"""Algorithm 1 of the paper, for every spectral regularizer: proximal gradient on X, which is never formed.

    Z = Y - P_Omega(Y - O),   X = prox(Z),   Y = X + momentum (X - X_before)

X is kept as U diag(sigma) V^T and Z as low rank + sparse, so that an iteration costs O(nnz r + (m + n) r^2). Only
singular values above the regularizer's threshold are computed, from a warm start. The step is 1, since the gradient of
the loss is 1-Lipschitz; a graph, whose gradient gamma L Y is of low rank too, makes it 1 / (1 + gamma ||L||). F never
increases: a step that would raise it is done again without momentum and with a more exact SVD.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.linalg import Factors, SparsePlusLowRank, truncated_svd
from lorank.problems import Problem
from lorank.regularizers import GraphLaplacian, Spectral
from lorank.solvers.base import Solver

Array = npt.NDArray[Any]

# Relative accuracy of the singular values: first try, and when F did not fall.
COARSE, FINE = 1e-2, 1e-7


@dataclass(frozen=True)
class ProximalState:
    """X = U diag(sigma) V^T and its values on Omega, now and one iteration before.

    `bias` holds offset, row and column biases in one array (empty without), `subspace` the warm start of the next SVD.
    """

    U: Array
    sigma: Array
    V: Array
    entries: Array
    U_before: Array
    sigma_before: Array
    V_before: Array
    entries_before: Array
    bias: Array
    subspace: Array
    objective: float
    iteration: int = 0
    sweeps: int = 0
    stalled: bool = False

    @property
    def rank(self) -> int:
        return int(np.count_nonzero(self.sigma))

    @property
    def factors(self) -> Factors:
        root = np.sqrt(self.sigma).astype(self.U.dtype)
        W, H = self.U * root, self.V * root
        if not self.bias.size:
            return Factors.of(W, H)
        offset, rows, cols = _split_bias(self.bias, len(W))
        return Factors.of(W, H, rows.astype(W.dtype), cols.astype(W.dtype), offset)


class ProximalGradient(Solver):
    """Proximal gradient with low rank + sparse iterates; see the module's description.

    Parameters
    ----------
    accelerate : bool
        Momentum (n - 1) / (n + 2), restarted when F would rise. Without it, Algorithm 1 as printed.
    """

    requires = ("value", "prox", "threshold")
    coupling = (GraphLaplacian,)

    def __init__(self, accelerate: bool = True) -> None:
        self.accelerate = accelerate

    def init(self, problem: Problem, start: Factors | None, seed: int | None) -> ProximalState:
        m, n = problem.observations.shape
        dtype = problem.observations.dtype
        bias = np.zeros(0)
        if problem.biased:
            bias = np.zeros(1 + m + n)
            bias[0] = problem.mean
        if start is None:
            U, sigma, V = np.zeros((m, 0), dtype), np.zeros(0), np.zeros((n, 0), dtype)
        else:
            U, sigma, V = _svd_of(start)
            if problem.biased:
                bias = np.concatenate([[start.offset], start.row_bias, start.col_bias])
        entries = _entries(problem, U, sigma, V)
        objective = _objective(problem, sigma, entries, bias) + problem.spectral_graph(U, sigma, V)
        rng = np.random.default_rng(seed)
        subspace = np.hstack([V, rng.standard_normal((n, min(4, n))).astype(dtype)])
        subspace = np.linalg.qr(subspace)[0].astype(dtype)
        return ProximalState(U, sigma, V, entries, U, sigma, V, entries, bias, subspace, objective)

    def step(self, problem: Problem, state: ProximalState) -> ProximalState:
        momentum = max(state.sweeps - 1, 0) / (state.sweeps + 2) if self.accelerate else 0.0
        tries = [(momentum, COARSE)] if momentum > 0 else []
        for beta, tol in [*tries, (0.0, COARSE), (0.0, FINE)]:
            following = self._iterate(problem, state, beta, tol)
            if not following.objective > state.objective:
                sweeps = state.sweeps + 1 if beta == momentum else 1
                return replace(following, sweeps=sweeps, iteration=state.iteration + 1)
        return replace(state, stalled=True)

    def _iterate(self, problem: Problem, state: ProximalState, beta: float, tol: float) -> ProximalState:
        assert isinstance(problem.regularizer, Spectral)
        observations = problem.observations
        dtype = observations.dtype
        now, before = state.U * state.sigma.astype(dtype), state.U_before * state.sigma_before.astype(dtype)
        if beta > 0:
            U = np.hstack([dtype.type(1 + beta) * now, -dtype.type(beta) * before])
            V = np.hstack([state.V, state.V_before])
        else:
            U, V = now, state.V
        model = state.entries + dtype.type(beta) * (state.entries - state.entries_before)
        residual = observations.values - model - _bias_entries(problem, state.bias)
        step = 1 / problem.lipschitz
        if problem.coupled:
            residual = dtype.type(step) * residual
            U, V = problem.graph_descent(U, V, step)
        Z = SparsePlusLowRank(
            U,
            V,
            replace(observations.by_row, values=residual),
            replace(observations.by_col, values=residual[observations.by_col_order]),
            problem.workers,
        )
        rng = np.random.default_rng(state.iteration)
        found = truncated_svd(Z, state.subspace, problem.regularizer.threshold(step), problem.rank, rng, tol)
        sigma = problem.regularizer.prox(found.sigma.astype(np.float64), step)
        alive = max(1, int(np.count_nonzero(sigma)))
        U, sigma, V = found.U[:, :alive], sigma[:alive], found.V[:, :alive]
        entries = _entries(problem, U, sigma, V)
        bias = _updated_bias(problem, state.bias, observations.values - entries)
        objective = _objective(problem, sigma, entries, bias) + problem.spectral_graph(U, sigma, V)
        return ProximalState(
            U,
            sigma,
            V,
            entries,
            state.U,
            state.sigma,
            state.V,
            state.entries,
            bias,
            found.subspace,
            objective,
        )


def _entries(problem: Problem, U: Array, sigma: Array, V: Array) -> Array:
    """P_Omega(U diag(sigma) V^T), row-major."""
    observations = problem.observations
    if not sigma.size:
        return np.zeros(observations.nnz, observations.dtype)
    scaled = (U * sigma.astype(U.dtype)).astype(U.dtype)
    return Factors.of(scaled, V).predict(observations.rows, observations.cols, problem.workers)


def _objective(problem: Problem, sigma: Array, entries: Array, bias: Array) -> float:
    residual = (problem.observations.values - entries - _bias_entries(problem, bias)).astype(np.float64)
    ridge = 0.0
    if problem.bias_weight is not None:
        ridge = 0.5 * problem.bias_weight * float(np.sum(bias[1:] ** 2) + (bias[0] - problem.mean) ** 2)
    assert isinstance(problem.regularizer, Spectral)
    return 0.5 * float(residual @ residual) + problem.regularizer.value(sigma) + ridge


def _svd_of(factors: Factors) -> tuple[Array, Array, Array]:
    """Thin SVD of W H^T from its factors."""
    (QW, RW), (QH, RH) = np.linalg.qr(factors.W), np.linalg.qr(factors.H)
    u, sigma, vt = np.linalg.svd(RW @ RH.T)
    return QW @ u, sigma.astype(np.float64), QH @ vt.T


def _split_bias(bias: Array, m: int) -> tuple[float, Array, Array]:
    return float(bias[0]), bias[1 : 1 + m], bias[1 + m :]


def _bias_entries(problem: Problem, bias: Array) -> Any:
    """offset + a_i + b_j at the observed entries, or 0 without biases."""
    if not bias.size:
        return 0
    offset, rows, cols = _split_bias(bias, problem.observations.shape[0])
    return (offset + rows[problem.observations.rows] + cols[problem.observations.cols]).astype(
        problem.observations.dtype
    )


def _updated_bias(problem: Problem, bias: Array, target: Array) -> Array:
    """Row biases, then column biases, each the exact minimiser given the rest; then both centred into the offset."""
    if problem.bias_weight is None:
        return bias
    observations = problem.observations
    m = observations.shape[0]
    offset, rows, cols = _split_bias(bias.copy(), m)
    for side, index, other, other_index in (
        (rows, observations.rows, cols, observations.cols),
        (cols, observations.cols, rows, observations.rows),
    ):
        sums = np.bincount(index, weights=target - offset - other[other_index], minlength=len(side))
        # With no weight, a line without observations keeps bias 0 instead of 0 / 0.
        side[:] = sums / np.maximum(np.bincount(index, minlength=len(side)) + problem.bias_weight, 1e-12)
    rows, cols, offset = problem.centred_biases(rows, cols, offset)
    return np.concatenate([[offset], rows, cols])
