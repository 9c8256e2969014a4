"""Iterates of the spectral solvers: X = U diag(sigma) V^T, its entries on Omega, and biases beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lorank.linalg import Factors, SparsePlusLowRank
from lorank.problems import Problem
from lorank.types import Array


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
        offset, rows, cols = split_bias(self.bias, len(W))
        return Factors.of(W, H, rows.astype(W.dtype), cols.astype(W.dtype), offset)


def gradient_step(problem: Problem, state: ProximalState, beta: float) -> SparsePlusLowRank:
    """Z = Y - P_Omega(Y - O) at Y = X + beta (X - X_before)."""
    observations = problem.observations
    dtype = observations.dtype
    U, V, model = state.U * state.sigma.astype(dtype), state.V, state.entries
    if beta > 0:
        before = state.U_before * state.sigma_before.astype(dtype)
        U = np.hstack([dtype.type(1 + beta) * U, -dtype.type(beta) * before])
        V = np.hstack([V, state.V_before])
        model = model + dtype.type(beta) * (model - state.entries_before)
    residual = observations.values - model - bias_entries(problem, state.bias)
    if problem.coupled:
        step = 1 / problem.lipschitz
        residual = dtype.type(step) * residual
        U, V = problem.graph_descent(U, V, step)
    return SparsePlusLowRank(
        U,
        V,
        replace(observations.by_row, values=residual),
        replace(observations.by_col, values=residual[observations.by_col_order]),
        problem.workers,
    )


def entries_of(problem: Problem, U: Array, sigma: Array, V: Array) -> Array:
    """P_Omega(U diag(sigma) V^T), row-major."""
    observations = problem.observations
    if not sigma.size:
        return np.zeros(observations.nnz, observations.dtype)
    scaled = (U * sigma.astype(U.dtype)).astype(U.dtype)
    return Factors.of(scaled, V).predict(observations.rows, observations.cols, problem.workers)


def objective_of(problem: Problem, U: Array, sigma: Array, V: Array, entries: Array, bias: Array) -> float:
    """F at X = U diag(sigma) V^T, whose entries on Omega are known, and biases."""
    residual = (problem.observations.values - entries - bias_entries(problem, bias)).astype(np.float64)
    ridge = 0.0
    if problem.bias_weight is not None:
        ridge = 0.5 * problem.bias_weight * float(np.sum(bias[1:] ** 2) + (bias[0] - problem.mean) ** 2)
    regularizer: Any = problem.regularizer
    return (
        0.5 * float(residual @ residual) + float(regularizer.value(sigma)) + ridge + problem.spectral_graph(U, sigma, V)
    )


def svd_of(factors: Factors) -> tuple[Array, Array, Array]:
    """Thin SVD of W H^T from its factors."""
    (QW, RW), (QH, RH) = np.linalg.qr(factors.W), np.linalg.qr(factors.H)
    u, sigma, vt = np.linalg.svd(RW @ RH.T)
    return QW @ u, sigma.astype(np.float64), QH @ vt.T


def split_bias(bias: Array, m: int) -> tuple[float, Array, Array]:
    """Offset, row biases and column biases."""
    return float(bias[0]), bias[1 : 1 + m], bias[1 + m :]


def bias_entries(problem: Problem, bias: Array) -> Any:
    """offset + a_i + b_j at the observed entries, or 0 without biases."""
    if not bias.size:
        return 0
    offset, rows, cols = split_bias(bias, problem.observations.shape[0])
    return (offset + rows[problem.observations.rows] + cols[problem.observations.cols]).astype(
        problem.observations.dtype
    )


def updated_bias(problem: Problem, bias: Array, target: Array) -> Array:
    """Row biases, then column biases, each the exact minimiser given the rest; then both centred into the offset."""
    if problem.bias_weight is None:
        return bias
    observations = problem.observations
    m = observations.shape[0]
    offset, rows, cols = split_bias(bias.copy(), m)
    for side, index, other, other_index in (
        (rows, observations.rows, cols, observations.cols),
        (cols, observations.cols, rows, observations.rows),
    ):
        sums = np.bincount(index, weights=target - offset - other[other_index], minlength=len(side))
        # With no weight, a line without observations keeps bias 0 instead of 0 / 0.
        side[:] = sums / np.maximum(np.bincount(index, minlength=len(side)) + problem.bias_weight, 1e-12)
    rows, cols, offset = problem.centred_biases(rows, cols, offset)
    return np.concatenate([[offset], rows, cols])
