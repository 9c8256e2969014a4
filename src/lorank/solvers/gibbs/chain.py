"""The Markov chain: one sweep of draws, each from its exact conditional distribution.

A graph ties the rows to each other, and their conditional is one Gaussian of all rows together. With the graph's
density exp(-alpha gamma/2 tr(W^T L W H^T H)) beside the priors, the rows given the columns have the precision alpha P
and the mean P^-1 b with

    (P W)_i = (G_i + Lambda/alpha) w_i + gamma (L W)_i H^T H,   b_i = H_i^T o_i + Lambda mu / alpha.

P is that of a half-step of alternating least squares, so that its conjugate gradients serve here too. A draw is the
mean for a right side that was disturbed by noise of covariance P / alpha: P^-1 (b + e) has the covariance P^-1 / alpha.

References
----------
Papandreou, Yuille, "Gaussian sampling by local perturbations", NeurIPS 2010.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from lorank import kernels
from lorank.linalg import Factors, pad
from lorank.observations import Lines
from lorank.problems import BaseProblem
from lorank.side_information.base import Added
from lorank.solvers.half_steps import conjugate_gradients, graph_system, half_squares, normal_equations
from lorank.solvers.posterior import Draws
from lorank.types import Array

# The prior expects factors of this part of the variance that would explain the data. It weighs little beside many rows,
# and yet it decides what becomes of directions that the data does not need: they shrink to about this. At 1, as is
# usual, they fit noise: rank 20 on synthetic data of rank 5 (m = 500) has an error of 0.027 at 1, and of 0.0203 at
# 0.001, which is that of rank 5 itself.
PRIOR_SCALE = 1e-3
# A bias is expected to explain this part of what the factors do together.
BIAS_PART = 0.1
# The prior of the noise counts as one residual of this part of the data's variance.
NOISE_PART = 1e-3
# The prior mean of a factor counts as much as this many rows.
PRIOR_ROWS = 2.0
# Of the linear systems of tied rows: what is left of the error is far below the spread of the draws.
TIED_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Prior:
    """Gaussian-Wishart prior of a side: Lambda ~ Wishart(scatter^-1, dof), mu ~ N(0, (rows Lambda)^-1)."""

    scatter: Array
    dof: float
    rows: float = PRIOR_ROWS

    @classmethod
    def of(cls, scale: float, k: int, biased: bool) -> Prior:
        """For factors that explain this variance; multiplying the data multiplies every draw."""
        p = k + biased
        variances = np.full(p, np.sqrt(scale / k))
        variances[k:] = BIAS_PART * scale
        return cls(p * np.diag(variances), float(p))

    def draw(self, factor: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """mu (p,) and Lambda (p, p) given the rows of a factor (n, p), whose conditional is Gaussian-Wishart again."""
        factor = factor.astype(np.float64)
        n, p = factor.shape
        mean = factor.mean(axis=0)
        centred = factor - mean
        scatter = self.scatter + centred.T @ centred + self.rows * n / (self.rows + n) * np.outer(mean, mean)
        # Bartlett: B = L^-T A has B B^T ~ Wishart(scatter^-1, dof), scatter = L L^T.
        A = np.tril(rng.standard_normal((p, p)), -1)
        A[np.diag_indices(p)] = np.sqrt(rng.chisquare(self.dof + n - np.arange(p)))
        B = scipy.linalg.solve_triangular(np.linalg.cholesky(scatter), A, lower=True, trans="T")
        deviation = np.linalg.solve(B.T, rng.standard_normal(p)) / np.sqrt(self.rows + n)
        return n * mean / (self.rows + n) + deviation, B @ B.T


@dataclass(frozen=True)
class Chain:
    """A state of the sampler: the last draw, and what is kept so far.

    precision is alpha, and `objective` the root mean squared residual of the draw on the training entries. `mean` holds
    the means of its rows given its columns (padded). `variances` is the sum of 1/alpha, and `held_out` that of
    predictions of the validation entries, over the `draws.offered` draws after burn-in. `seed` and `scale`, the
    variance of the data, stay the same from sweep to sweep.
    """

    factors: Factors
    mean: Array
    precision: float
    objective: float
    draws: Draws
    seed: int
    scale: float
    variances: float
    held_out: Array
    iteration: int = 0
    stalled: bool = False

    @property
    def rank(self) -> int:
        return self.factors.k


def first_chain(problem: BaseProblem, factors: Factors | None, kept: int, noise: float | None, seed: int) -> Chain:
    """A chain before its first sweep, at given factors or at small random ones, with room for `kept` draws."""
    observations, k = problem.observations, problem.rank
    dtype, values = observations.dtype, observations.values.astype(np.float64)
    offset = float(values.mean()) if problem.biased else 0.0
    scale = float(np.mean((values - offset) ** 2)) or 1.0
    if factors is None:
        # Small factors and a modest precision: the chain anneals itself while it learns the noise.
        rng = np.random.default_rng([seed, 0])
        size = 0.3 * (scale / k) ** 0.25
        left, right = (pad((size * rng.standard_normal((lines, k))).astype(dtype)) for lines in observations.shape)
        factors, variance = Factors(left, right, k, problem.biased, offset), scale / 2
    else:
        factors = replace(factors, left=factors.left.astype(dtype), right=factors.right.astype(dtype))
        variance = max(2 * problem.loss(factors) / observations.nnz, 1e-6 * scale)
    precision = 1 / variance if noise is None else noise**-2
    draws = Draws.empty(factors, kept)
    return Chain(factors, factors.left, precision, np.inf, draws, seed, scale, 0.0, np.zeros(0))


class Sampler:
    """Sweeps over one problem. Sweep t takes its random numbers from the seed and t alone.

    noise is the standard deviation of the noise if it is known, and scale the variance of the data.
    """

    def __init__(self, problem: BaseProblem, noise: float | None, seed: int, scale: float) -> None:
        self.problem, self.noise, self.seed, self.scale = problem, noise, seed, scale
        self.k, self.p = problem.rank, problem.rank + problem.biased
        self.graphs = problem.added(False), problem.added(True)
        self.wide = Prior.of(scale, self.k, problem.biased)
        self.narrow = replace(self.wide, scatter=PRIOR_SCALE * self.wide.scatter)

    def sweep(self, chain: Chain, t: int, wide: bool = False) -> Chain:
        """Columns given rows, rows given columns, noise given both.

        A chain begins with `wide` sweeps, whose prior expects factors of full size: under the narrow one a direction
        that starts small, but is needed, can take very long to grow, above all in a small matrix.
        """
        rng = np.random.default_rng([self.seed, t])
        factors, by = chain.factors, self.problem.observations
        prior = self.wide if wide else self.narrow
        _, right, _ = self._draw_side(by.by_col, factors.transposed(), chain.precision, prior, rng, transposed=True)
        factors = replace(factors, right=right)
        mean, left, loss = self._draw_side(by.by_row, factors, chain.precision, prior, rng)
        factors = replace(factors, left=left)
        precision = chain.precision
        if self.noise is None:
            count, energy = self._graph_residuals(factors)
            precision = rng.gamma((1 + by.nnz + count) / 2) / (NOISE_PART * self.scale / 2 + loss + energy)
        objective = float(np.sqrt(2 * loss / by.nnz))
        return replace(chain, factors=factors, mean=mean, precision=precision, objective=objective, iteration=t)

    def _draw_side(
        self,
        lines: Lines,
        factors: Factors,
        precision: float,
        prior: Prior,
        rng: np.random.Generator,
        transposed: bool = False,
    ) -> tuple[Array, Array, float]:
        """Means and draws (padded) of the left side given the right one, and half the squared residuals there."""
        k, p, dtype = self.k, self.p, factors.dtype
        mu, Lambda = prior.draw(factors.left[:, :p], rng)
        graph, other = self.graphs[transposed], self.graphs[not transposed]
        ridge, pull = Lambda / precision, Lambda @ mu / precision
        H = factors.H.astype(np.float64)
        if other is not None:
            ridge = ridge + H.T @ other.dot(H)
        if graph is not None:
            return draw_tied(graph, lines, factors, H.T @ H, ridge, pull, precision, rng, self.problem.workers)
        noise = rng.standard_normal((len(factors.left), p), dtype.type) * dtype.type(precision**-0.5)
        mean, out, loss = np.zeros_like(factors.left), np.zeros_like(factors.left), np.empty(len(factors.left))
        biased, offset = self.problem.biased, dtype.type(factors.offset)
        data = (lines.pointers, lines.indices, lines.values, factors.right, k, biased, offset)
        self.problem.workers.run(
            kernels.sample_lines,
            lines.pointers,
            *data,
            ridge.astype(dtype),
            pull.astype(dtype),
            noise,
            mean,
            out,
            loss,
            work_per_entry=(p + 1) * (p + 2) / 2,
            work_per_line=p**3 / 6 + 2 * p**2,
        )
        return mean, out, float(loss.sum())

    def _graph_residuals(self, factors: Factors) -> tuple[int, float]:
        """How many residuals the graphs' terms count for, one for each number that they tie, and the terms."""
        count, energy = 0, 0.0
        for graph, side in zip(self.graphs, (factors, factors.transposed())):
            if graph is not None:
                H = side.H.astype(np.float64)
                count, energy = count + side.W.size, energy + graph.energy(side.W, H.T @ H)
        return count, energy


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

    gram is H^T H (k, k); ridge (k, k) and pull (k,) are those of the prior, in units of the noise's precision alpha.
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
