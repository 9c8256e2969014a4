"""Bayesian probabilistic matrix factorization, by Gibbs sampling.

    O_ij ~ N(x_ij, 1 / (alpha c_i d_j omega_ij)),  x_ij = <w_i, h_j>  or  offset + a_i + b_j + <w_i, h_j>
    (w_i, a_i) ~ N(mu + B^T f_i, Lambda^-1) with the features f_i of row i if there are any; the same for columns

Nothing is tuned: the weights that other methods call lam are drawn too, and so are those of the noise, c and d;
omega are the weights that entries came with.
Rows are independent given the columns, so a sweep costs what a sweep of alternating least squares does.
A graph on the rows multiplies the density by exp(-alpha gamma/2 tr(X^T L X)), which ties them; gamma
is that of the other methods, and alpha is drawn from the graph's term too, as from one residual for each tied number.

References
----------
Salakhutdinov, Mnih, "Bayesian probabilistic matrix factorization using Markov chain Monte Carlo", ICML 2008.
Simm et al., "Macau: scalable Bayesian factorization with high-dimensional side information using MCMC", MLSP 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.losses import MAX_LEVELS, SQUARED, Loss, Ordinal
from lorank.observations import Observations
from lorank.problems import BaseProblem, FactoredProblem
from lorank.solvers.base import Solver
from lorank.solvers.gibbs.chain import Chain, Sampler, first_chain
from lorank.solvers.gibbs.levels import Levels
from lorank.solvers.posterior import Posterior

# Sweeps before the first draw that counts, where nothing is said: this many, or half of all.
BURN_IN = 20
# Of a short chain that is compared with others: burn-in, the fewest and the most draws, and the Monte Carlo error at
# which it ends. Of little data it may be as long as a fit is, for it costs nothing and finds what a fit finds: up to so
# many entries over all draws there are more than the fewest.
TRIAL_BURN_IN, TRIAL_DRAWS, TRIAL_TOLERANCE, TRIAL_ENTRIES = 20, (80, 400), 5e-3, 2_000_000
# The part of the tolerance that is asked for by an effort.
EFFORT = {"fast": 2.0, "balanced": 1.0, "best": 0.25}
# Draws that are kept at most and at least, and the bytes that are to be enough for them.
KEPT, BUDGET = (64, 8), 512 * 10**6


@dataclass(frozen=True)
class BPMF(Solver):
    """The Gibbs sampler; see the module's description.

    The validation error in the history is that of the running mean of the predictions.

    Parameters
    ----------
    burn_in : int, optional
        Sweeps before the first draw that may count; None for 20, or half of all if there are fewer than 40. It grows
        by as many as make the Monte Carlo error smallest, up to half of the draws.
    kept : int, optional
        Draws that are kept, spread evenly over the chain; predictions average over them. They take
        4 kept ((2 m + n) (rank, or rank + 2 with biases) + m + n) bytes; None for 64, or as many as fit into 512 MB
        but no fewer than 8.
    noise : float, optional
        Standard deviation of the noise, if it is known and the same everywhere; otherwise it is drawn as well.
    tolerance : float
        The chain ends when the Monte Carlo error of its mean makes predictions worse by less than this part of their
        error (by batch means at a thousand entries), or after max_iter sweeps; 0 for all sweeps.
    """

    samples: ClassVar[bool] = True
    distributes: ClassVar[bool] = True
    coupling: ClassVar[tuple[str, ...]] = ("energy", "directions")
    held: ClassVar[tuple[float, float]] = (6.5, 1.0)
    # What makes a sweep.
    sampler: ClassVar[type[Sampler]] = Sampler

    burn_in: int | None = None
    kept: int | None = None
    noise: float | None = None
    tolerance: float = 2e-3

    def __post_init__(self) -> None:
        if self.burn_in is not None and (not isinstance(self.burn_in, Integral) or self.burn_in < 0):
            raise InputError(f"burn_in must be a whole number, not negative, or None; got {self.burn_in!r}.")
        if self.kept is not None and (not isinstance(self.kept, Integral) or self.kept < 1):
            raise InputError(f"kept must be a whole number of at least 1, or None; got {self.kept!r}.")
        if self.noise is not None and not 0 < self.noise < np.inf:
            raise InputError(f"noise must be a positive standard deviation or None; got {self.noise!r}.")

        if not 0 <= self.tolerance < np.inf:
            raise InputError(f"tolerance must be a number, not negative; got {self.tolerance!r}.")

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        if isinstance(problem.pointwise, Ordinal) and np.unique(problem.observations.values).size > MAX_LEVELS:
            raise InputError(
                f"loss='ordinal' is for values on a scale of at most {MAX_LEVELS} levels, and the data has more; "
                "use the squared loss."
            )

    def check_loss(self, loss: Loss) -> None:
        if not isinstance(loss, Ordinal) and loss != SQUARED:
            raise InputError(
                f"The sampler takes the squared loss and the ordinal one; {type(loss).__name__} needs a factored "
                "method such as 'nnfn'."
            )

    def planned(self, max_iter: int) -> BPMF:
        """With its burn-in as a number; a fit without a draw after it is refused."""
        burn_in = min(BURN_IN, max_iter // 2) if self.burn_in is None else self.burn_in
        if max_iter <= burn_in:
            raise InputError(f"{max_iter} sweeps leave no draw after a burn-in of {burn_in}; ask for more sweeps.")
        return replace(self, burn_in=burn_in)

    def with_effort(self, effort: str) -> BPMF:
        """With a tolerance that goes with it."""
        return replace(self, tolerance=self.tolerance * EFFORT[effort])

    def for_trial(self, entries: int) -> tuple[BPMF, int]:
        """A short chain on so many entries, and its length."""
        tolerance = max(self.tolerance, TRIAL_TOLERANCE)
        draws = int(np.clip(TRIAL_ENTRIES // max(entries, 1), *TRIAL_DRAWS))
        short = replace(self, burn_in=TRIAL_BURN_IN, kept=min(draws, KEPT[0]), tolerance=tolerance)
        return short, TRIAL_BURN_IN + draws

    def init(self, problem: BaseProblem, start: Factors | None, seed: int | None) -> Chain:
        rank, biases, shape = problem.rank, problem.biased, problem.observations.shape
        if start is not None and (start.k, start.biased, start.shape) != (rank, biases, shape):
            raise InputError(
                f"The start has rank {start.k}, shape {start.shape} and biases={start.biased}; "
                f"rank {rank}, shape {shape} and biases={biases} are needed."
            )
        seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        return first_chain(problem, start, self.room(shape, rank, biases), self.noise, seed)

    def step(self, problem: FactoredProblem, state: Chain) -> Chain:
        """One sweep; after the burn-in its draw is counted."""
        burn_in = BURN_IN if self.burn_in is None else self.burn_in
        chain = self.sampler(problem, self.noise, state).sweep(state, state.iteration + 1)
        # A draw that is not finite ends the chain: nothing of it is kept.
        if chain.iteration <= burn_in or not (np.isfinite(chain.objective) and chain.factors.is_finite()):
            return chain
        return chain.watched(problem).counted()

    def enough(self, state: Chain) -> bool:
        """Whether the Monte Carlo error is below the tolerance."""
        return _excess(state) < self.tolerance

    def validated(self, problem: BaseProblem, state: Chain, held_out: Observations) -> tuple[Chain, float]:
        """The error of the running mean of the predictions; NaN before the first draw that counts."""
        if not state.draws.offered:
            return state, np.nan
        rows, cols = held_out.rows, held_out.cols
        expected = replace(state.factors, left=state.mean).predict(rows, cols, problem.workers).astype(np.float64)
        if isinstance(problem.pointwise, Ordinal):
            drawn = state.factors.predict(rows, cols, problem.workers)
            levels, roots = Levels(problem, 1 / state.precision), state.noise_variances(rows, cols) ** -0.5
            # A draw and its mirror image.
            both = [levels.expected(x, roots, state.cuts) for x in (drawn, 2 * expected - drawn)]
            expected = np.mean(both, axis=0)
        total = expected if state.draws.offered == 1 else state.held_out + expected
        off = total / state.draws.offered - held_out.values
        return replace(state, held_out=total), float(np.sqrt(np.mean(off**2)))

    def remark(self, state: Chain) -> str:
        if state.draws.count:
            excess, draws, early = _excess(state), state.draws, state.probes.burn_in()[0]
            error = f"; their Monte Carlo error adds {excess:.1%} to that of predictions" if excess < np.inf else ""
            left, count = draws.count - draws.before(early), draws.offered - early
            kept = "" if left == count else f", of which {left} are kept"
            return f"{count} draws count after a burn-in of {state.iteration - count} sweeps{kept}{error}."
        return "That is within the burn-in: its last draw stands for the posterior; allow more sweeps or time."

    def posterior(self, problem: BaseProblem, state: Chain) -> Posterior:
        """The posterior of the kept draws after the burn-in, whose arrays it takes over."""
        chain = state if state.draws.count else replace(state, mean=state.factors.left).counted()
        levels = problem.levels[0] if isinstance(problem.pointwise, Ordinal) else None
        return chain.draws.finish(levels, chain.probes.burn_in()[0])

    def memory(self, shape: tuple[int, int], entries: int, rank: int, itemsize: int, biased: bool) -> int:
        """As for every solver, and the kept draws."""
        return super().memory(shape, entries, rank, itemsize, biased) + self.kept_bytes(shape, rank, biased)

    def kept_bytes(self, shape: tuple[int, int], rank: int, biased: bool) -> int:
        """Of the draws that are kept of a matrix of this shape."""
        return self.room(shape, rank, biased) * _bytes(*shape, rank, biased)

    def room(self, shape: tuple[int, int], rank: int, biased: bool) -> int:
        """How many draws are kept of a matrix of this shape."""
        most, least = KEPT
        return self.kept or max(least, min(most, BUDGET // _bytes(*shape, rank, biased)))


def _bytes(m: int, n: int, rank: int, biased: bool) -> int:
    """Of one kept draw."""
    return 4 * ((2 * m + n) * (rank + 2 * biased) + m + n)


def _excess(chain: Chain) -> float:
    """What the Monte Carlo error adds to that of predictions, as a part of it: its variance / 2 that of the noise."""
    probes, variance = chain.probes, chain.probes.burn_in()[1]
    if variance == np.inf:  # as it is in most sweeps of a short chain
        return variance
    return variance / (2 * float(chain.noise_variances(probes.rows, probes.cols).mean()))
