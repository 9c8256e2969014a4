"""The Markov chain: one sweep of draws, each from its conditional distribution.

    o_ij ~ N(x_ij, 1 / (alpha c_i d_j omega_ij)),  x_ij = offset + a_i + b_j + <w_i, h_j>,  omega the given weights or 1
    (w_i, a_i) and (h_j, b_j) as in `hyper`, c_i and d_j as in `noise`
    or, for values on a scale, o_ij = level of z_ij ~ N(x_ij, 1 / (alpha c_i d_j omega_ij)) between cuts (`levels`)

A chain starts at the offsets of empirical Bayes and with factors that explain START of the noise's variance. Starting
elsewhere, a direction may take the place of the offsets with random signs, or stay at zero for hundreds of sweeps. For
the latter reason too, hyperparameters stay where they start for the first HELD sweeps: a direction that has not yet
found anything would be shrunk to nothing before it does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors, pad
from lorank.losses import SQUARED, Ordinal
from lorank.observations.checks import LARGEST, SMALLEST
from lorank.problems import BaseProblem, FactoredProblem
from lorank.problems.offsets import Offsets, empirical_bayes_offsets
from lorank.solvers.gibbs.convergence import Probes
from lorank.solvers.gibbs.hyper import Hyper, Prior
from lorank.solvers.gibbs.levels import Levels
from lorank.solvers.gibbs.noise import draw_weights
from lorank.solvers.gibbs.tied import draw_tied
from lorank.solvers.posterior import Draws
from lorank.types import Array

# Rounds of the offsets that a chain starts from: they are drawn anew in its first sweep.
START_ROUNDS = 20
START, HELD = 1 / 4, 8
# The prior of the noise counts as one residual of this part of the data's variance.
NOISE_PART = 1e-3
# What random numbers of a sweep are for, beside the two sides (0 and 1).
LATENT, START_STREAM = 2, 3
# In which draws are kept, and the variances of the noise beside them.
KEPT = np.dtype(np.float32)
# Where nu of the noise's weights starts.
FIRST_NU = 10.0


@dataclass(frozen=True)
class Side:
    """A draw of what belongs to one side beside its factors: hyperparameters; the noise's weights, nu and slope."""

    hyper: Hyper
    weights: Array
    nu: float = FIRST_NU
    slope: float = 0.0


@dataclass(frozen=True)
class Chain:
    """A state of the sampler: the last draw, and what is kept so far.

    precision is alpha, and `objective` the root mean squared residual of the draw on the training entries, weighted by
    c_i d_j. `mean` holds the means of its rows given its columns (padded), `cuts` those between levels. `held_out` is
    the sum of predictions of the validation entries over the `draws.offered` draws after burn-in. `seed` and `scale`,
    the variance of the data, stay the same from sweep to sweep.
    """

    factors: Factors
    mean: Array
    precision: float
    rows: Side
    cols: Side
    draws: Draws
    probes: Probes
    seed: int
    scale: float
    objective: float = np.inf
    cuts: Array = field(default_factory=lambda: np.zeros(0))
    held_out: Array = field(default_factory=lambda: np.zeros(0))
    iteration: int = 0
    stalled: bool = False

    @property
    def rank(self) -> int:
        return self.factors.k

    def noise_variances(self, rows: Array, cols: Array) -> Array:
        """Of values at pairs: 1 / (alpha c_i d_j)."""
        return np.asarray(1 / (self.precision * self.rows.weights[rows] * self.cols.weights[cols]))

    def watched(self, problem: BaseProblem) -> Chain:
        """With its last draw among those that are watched."""
        x = self.factors.predict(self.probes.rows, self.probes.cols, problem.workers)
        return replace(self, probes=self.probes.add(x))

    def counted(self) -> Chain:
        """With its last draw among those that count."""
        sides = (1 / (self.precision * self.rows.weights), 1 / self.cols.weights)
        priors = [(own.hyper.mu, own.hyper.Lambda, own.hyper.coefficients) for own in (self.rows, self.cols)]
        return replace(self, draws=self.draws.offer(self.factors, self.mean, sides, self.cuts, priors))


def first_chain(problem: BaseProblem, factors: Factors | None, kept: int, noise: float | None, seed: int) -> Chain:
    """A chain before its first sweep, at given factors or at offsets and random ones, with room for `kept` draws."""
    observations, k, biased = problem.observations, problem.rank, problem.biased
    dtype, values = observations.dtype, observations.values.astype(np.float64)
    scale = float(np.average((values - biased * observations.mean) ** 2, weights=observations.weights)) or 1.0
    check_size(observations.mean, scale)
    if factors is None:
        offsets = empirical_bayes_offsets(observations, START_ROUNDS, workers=problem.workers) if biased else None
        variance, deviations = first_scales(k, scale, offsets)
        padded = []
        for side, lines in enumerate(observations.shape):
            factor = deviations[side, 0] * np.random.Generator(first_numbers(seed, side)).standard_normal((lines, k))
            bias = None if offsets is None else (offsets.a, offsets.b)[side].astype(dtype)
            padded.append(pad(factor.astype(dtype), bias))
        factors = Factors(padded[0], padded[1], k, biased, 0.0 if offsets is None else offsets.mu)
    else:
        factors = factors.astype(dtype)
        x = factors.predict(observations.rows, observations.cols, problem.workers)
        variance = max(2 * SQUARED.value(x, observations.values) / observations.nnz, 1e-6 * scale)
        deviations = np.array([side[:, : k + biased].std(axis=0) for side in (factors.left, factors.right)], float)
    precision = 1 / variance if noise is None else noise**-2
    prior = Prior(k, biased, scale)
    rows, cols = (Side(prior.start(deviations[i]), np.ones(lines)) for i, lines in enumerate(observations.shape))
    levels = Levels(problem, 1 / precision) if isinstance(problem.pointwise, Ordinal) else None
    cuts = np.zeros(0) if levels is None else levels.start()
    found = [problem.directions(transposed) for transposed in (False, True)]
    rows_of, cols_of = (0 if directions is None else directions.squares.size for directions in found)
    draws, probes = Draws.empty(factors, kept, cuts.size, (rows_of, cols_of)), Probes.of(observations, seed)
    return Chain(factors, factors.left, precision, rows, cols, draws, probes, seed, scale, cuts=cuts)


def check_size(mean: float, variance: float) -> None:
    """Refuse data with this mean and variance if its draws cannot be kept."""
    size = max(abs(mean), variance**0.5)
    if not SMALLEST[KEPT] <= size <= LARGEST[KEPT]:
        raise InputError(
            f"The sampler keeps its draws in single precision, which values of about {size:.0e} do not fit in; "
            "scale the data."
        )


def first_scales(k: int, scale: float, offsets: Offsets | None) -> tuple[float, Array]:
    """Where a chain of factors of rank k starts on data of this variance: the noise's variance, and the standard
    deviations of rows and of columns (2, k, or k + 1 with offsets)."""
    variance = max(scale / 2 if offsets is None else offsets.s2, 1e-8 * scale)
    deviations = np.full((2, k), (START * variance / k) ** 0.25)
    if offsets is None:
        return variance, deviations
    return variance, np.column_stack([deviations, np.sqrt([offsets.va, offsets.vb])])


def first_numbers(seed: int, side: int) -> np.random.PCG64:
    """Where the random numbers of the first rows (side 0) or columns (1) are from."""
    return np.random.PCG64([seed, 0, START_STREAM, side])


class Sampler:
    """Sweeps over one problem. Sweep t takes its random numbers from the seed and t alone, on any number of threads.

    noise is the standard deviation of the noise if it is known. A known noise is the same everywhere, and so is one
    beside a graph, whose term is in units of alpha; otherwise rows and columns have weights of their own.
    """

    def __init__(self, problem: FactoredProblem, noise: float | None, chain: Chain) -> None:
        self.problem, self.seed, self.scale = problem, chain.seed, chain.scale
        self.k, self.p = problem.rank, problem.rank + problem.biased
        self.graphs = problem.added(False), problem.added(True)
        self.levels = Levels(problem, 1 / chain.precision) if isinstance(problem.pointwise, Ordinal) else None
        self.weighted = noise is None and not problem.coupled
        self.fixed = noise is not None or self.levels is not None
        # Cuts say where the middle of a scale is, so that no offset needs to.
        centred = self.levels is not None
        self.priors = [
            Prior(self.k, problem.biased, chain.scale, problem.directions(transposed), centred)
            for transposed in (False, True)
        ]

    def sweep(self, chain: Chain, t: int) -> Chain:
        """Cuts and z given x; columns given rows, rows given columns, noise given both."""
        rng = np.random.default_rng([self.seed, t])
        seen, latent = self.problem.observations, None
        if self.levels is not None:
            own, roots = chain.precision * chain.rows.weights, np.sqrt(chain.cols.weights)
            stream = 4 * t + LATENT
            cuts, latent = self.levels.draw(chain.factors, chain.cuts, own, roots, self.seed, stream, rng)
            chain = replace(chain, cuts=cuts)
        factors = chain.factors
        cols, _, right, _ = self._draw_side(factors.transposed(), chain, True, t, rng, latent)
        chain, factors = replace(chain, cols=cols), replace(factors, right=right)
        rows, mean, left, loss = self._draw_side(factors, chain, False, t, rng, latent)
        factors, precision = replace(factors, left=left), chain.precision
        if not self.fixed:
            count, energy = self._graph_residuals(factors)
            precision = rng.gamma((1 + seen.nnz + count) / 2) / (NOISE_PART * self.scale / 2 + loss + energy)
        objective = float(np.sqrt(2 * loss / seen.nnz))
        return replace(
            chain, factors=factors, mean=mean, precision=precision, rows=rows, objective=objective, iteration=t
        )

    def _draw_side(
        self,
        factors: Factors,
        chain: Chain,
        transposed: bool,
        t: int,
        rng: np.random.Generator,
        latent: Array | None = None,
    ) -> tuple[Side, Array, Array, float]:
        """Draw the left side given the right one: what belongs to it, the means of its lines, its lines (padded), and
        half the squared residuals, weighted. Latent values (row-major) take the place of those that were observed."""
        lines = self.problem.lines(transposed)
        if latent is not None:
            by_col = self.problem.observations.by_col_order
            lines = replace(lines, values=latent[by_col] if transposed else latent)
        side, other = (chain.cols, chain.rows) if transposed else (chain.rows, chain.cols)
        prior, precision, p, dtype = self.priors[transposed], chain.precision, self.p, factors.dtype
        hyper = side.hyper if t <= HELD else prior.draw(side.hyper, factors.left[:, :p], rng)
        ridge = hyper.Lambda / precision
        pull = prior.means(hyper, len(factors.left), dtype, rng) @ ridge.astype(dtype)
        graph, beside = self.graphs[transposed], self.graphs[not transposed]
        H = factors.H.astype(np.float64)
        if beside is not None:
            ridge = ridge + H.T @ beside.dot(H)
        if graph is not None:
            workers = self.problem.workers
            mean, out, energy = draw_tied(graph, lines, factors, H.T @ H, ridge, pull, precision, rng, workers)
            return replace(side, hyper=hyper), mean, out, energy
        mean, out, loss = self.problem.line_draws(
            factors,
            *(side.weights.astype(dtype), np.sqrt(other.weights).astype(dtype), ridge.astype(dtype), pull),
            *(float(precision**-0.5), (self.seed, 4 * t + transposed), transposed, lines),
        )
        weights, nu, slope = side.weights, side.nu, side.slope
        if self.weighted:
            weights, nu, slope = draw_weights(loss, np.diff(lines.pointers), precision, nu, slope, rng)
        return Side(hyper, weights, nu, slope), mean, out, float(weights @ loss)

    def _graph_residuals(self, factors: Factors) -> tuple[int, float]:
        """How many residuals the graphs' terms count for, one for each number that they tie, and the terms."""
        count, energy = 0, 0.0
        for graph, side in zip(self.graphs, (factors, factors.transposed())):
            if graph is not None:
                H = side.H.astype(np.float64)
                count, energy = count + side.W.size, energy + graph.energy(side.W, H.T @ H)
        return count, energy
