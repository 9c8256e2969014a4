"""The Markov chain: one sweep of draws, each from its exact conditional distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from lorank import kernels
from lorank.linalg import Factors, pad
from lorank.observations import Lines, Observations
from lorank.problems import squared_error
from lorank.side_information.base import Added
from lorank.solvers.gibbs.graphs import draw_tied
from lorank.solvers.gibbs.posterior import Draws
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
    """A state of the sampler: the last draw and what is kept so far.

    precision is alpha; `variances` is the sum of 1/alpha, and `held_out` that of predictions of the validation entries,
    over the `draws.offered` draws after burn-in.
    """

    factors: Factors
    precision: float
    residual: float
    draws: Draws
    variances: float
    held_out: Array


class Sampler:
    """Sweeps over one data set. Sweep t takes its random numbers from the seed and t alone.

    graphs are those of rows and of columns, if there are any; they do not go with biases.
    """

    def __init__(
        self,
        observations: Observations,
        rank: int,
        biased: bool,
        noise: float | None,
        seed: int,
        workers: kernels.Workers,
        graphs: tuple[Added | None, Added | None] = (None, None),
    ) -> None:
        values = observations.values.astype(np.float64)
        self.observations, self.biased, self.noise = observations, biased, noise
        self.k, self.p = rank, rank + biased
        self.seed, self.workers, self.graphs = seed, workers, graphs
        self.offset = float(values.mean()) if biased else 0.0
        self.scale = float(np.mean((values - self.offset) ** 2)) or 1.0
        self.wide = Prior.of(self.scale, rank, biased)
        self.narrow = replace(self.wide, scatter=PRIOR_SCALE * self.wide.scatter)

    def start(self, factors: Factors | None, kept: int, held_out: int) -> Chain:
        if factors is None:
            # Small factors and a modest precision: the chain anneals itself while it learns the noise.
            rng = np.random.default_rng([self.seed, 0])
            size = 0.3 * (self.scale / self.k) ** 0.25
            left, right = (
                pad((size * rng.standard_normal((lines, self.k))).astype(self.observations.dtype))
                for lines in self.observations.shape
            )
            factors, variance = Factors(left, right, self.k, self.biased, self.offset), self.scale / 2
        else:
            dtype = self.observations.dtype
            factors = replace(factors, left=factors.left.astype(dtype), right=factors.right.astype(dtype))
            variance = squared_error(factors, self.observations, self.workers) / self.observations.nnz
            variance = max(variance, 1e-6 * self.scale)
        precision = 1 / variance if self.noise is None else self.noise**-2
        return Chain(factors, precision, np.inf, Draws.empty(factors, kept), 0.0, np.zeros(held_out))

    def sweep(self, chain: Chain, t: int, wide: bool = False) -> tuple[Chain, Array]:
        """Columns given rows, rows given columns, noise given both; and the means of the rows (padded).

        A chain begins with `wide` sweeps, whose prior expects factors of full size: under the narrow one a direction
        that starts small, but is needed, can take very long to grow, above all in a small matrix.
        """
        rng = np.random.default_rng([self.seed, t])
        factors, by = chain.factors, self.observations
        prior = self.wide if wide else self.narrow
        _, right, _ = self._draw_side(by.by_col, factors.transposed(), chain.precision, prior, rng, transposed=True)
        factors = replace(factors, right=right)
        mean, left, loss = self._draw_side(by.by_row, factors, chain.precision, prior, rng)
        factors = replace(factors, left=left)
        precision = chain.precision
        if self.noise is None:
            count, energy = self._graph_residuals(factors)
            precision = rng.gamma((1 + by.nnz + count) / 2) / (NOISE_PART * self.scale / 2 + loss + energy)
        return replace(chain, factors=factors, precision=precision, residual=np.sqrt(2 * loss / by.nnz)), mean

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
            return draw_tied(graph, lines, factors, H.T @ H, ridge, pull, precision, rng, self.workers)
        noise = rng.standard_normal((len(factors.left), p), dtype.type) * dtype.type(precision**-0.5)
        mean, out, loss = np.zeros_like(factors.left), np.zeros_like(factors.left), np.empty(len(factors.left))
        data = (lines.pointers, lines.indices, lines.values, factors.right, k, self.biased, dtype.type(factors.offset))
        self.workers.run(
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
