"""Bayesian probabilistic matrix factorization, by Gibbs sampling.

    O_ij ~ N(x_ij, 1/alpha),  x_ij = <w_i, h_j>  or  offset + a_i + b_j + <w_i, h_j>
    (w_i, a_i) ~ N(mu_W, Lambda_W^-1),  (mu_W, Lambda_W) ~ Gaussian-Wishart,  the same for columns,  alpha ~ Gamma

Nothing is tuned: the weights that other methods call lam are drawn too. All conditionals are Gaussian, Gaussian-Wishart
or Gamma, and rows are independent given the columns, so a sweep costs what a sweep of alternating least squares does.
A graph on the rows multiplies the density by exp(-alpha gamma/2 tr(X^T L X)), which ties them; gamma
is that of the other methods, and alpha is drawn from the graph's term too, as from one residual for each tied number.

References
----------
Salakhutdinov, Mnih, "Bayesian probabilistic matrix factorization using Markov chain Monte Carlo", ICML 2008.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar

import numpy as np

from lorank.errors import InputError
from lorank.linalg import Factors, padded_width
from lorank.observations import Observations
from lorank.problems import BaseProblem
from lorank.solvers.base import Solver
from lorank.solvers.gibbs.chain import Chain, Sampler, first_chain
from lorank.solvers.posterior import Posterior

# Sweeps before the first draw that counts, where nothing is said: this many, or half of all.
BURN_IN = 20


@dataclass(frozen=True)
class BPMF(Solver):
    """The Gibbs sampler; see the module's description.

    The validation error in the history is that of the running mean of the predictions.

    Parameters
    ----------
    burn_in : int, optional
        Sweeps before the first draw that counts; None for 20, or half of all if there are fewer than 40.
    kept : int
        Draws that are kept, spread evenly over the chain; predictions average over them. They take
        kept * (2 m + n) * (rank, or rank + 2 with biases) numbers of the data's precision.
    noise : float, optional
        Standard deviation of the noise, if it is known; otherwise it is drawn as well.
    """

    samples: ClassVar[bool] = True
    coupling: ClassVar[tuple[str, ...]] = ("energy",)
    held: ClassVar[tuple[float, float]] = (6.5, 1.0)

    burn_in: int | None = None
    kept: int = 64
    noise: float | None = None

    def __post_init__(self) -> None:
        if self.burn_in is not None and (not isinstance(self.burn_in, Integral) or self.burn_in < 0):
            raise InputError(f"burn_in must be a whole number, not negative, or None; got {self.burn_in!r}.")
        if not isinstance(self.kept, Integral) or self.kept < 1:
            raise InputError(f"kept must be a whole number of at least 1; got {self.kept!r}.")
        if self.noise is not None and not 0 < self.noise < np.inf:
            raise InputError(f"noise must be a positive standard deviation or None; got {self.noise!r}.")

    def planned(self, max_iter: int) -> BPMF:
        """With its burn-in as a number; a fit without a draw after it is refused."""
        burn_in = min(BURN_IN, max_iter // 2) if self.burn_in is None else self.burn_in
        if max_iter <= burn_in:
            raise InputError(f"{max_iter} sweeps leave no draw after a burn-in of {burn_in}; ask for more sweeps.")
        return replace(self, burn_in=burn_in)

    def init(self, problem: BaseProblem, start: Factors | None, seed: int | None) -> Chain:
        rank, biases, shape = problem.rank, problem.biased, problem.observations.shape
        if start is not None and (start.k, start.biased, start.shape) != (rank, biases, shape):
            raise InputError(
                f"The start has rank {start.k}, shape {start.shape} and biases={start.biased}; "
                f"rank {rank}, shape {shape} and biases={biases} are needed."
            )
        seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        return first_chain(problem, start, self.kept, self.noise, seed)

    def step(self, problem: BaseProblem, state: Chain) -> Chain:
        """One sweep; after the burn-in its draw is counted."""
        burn_in = BURN_IN if self.burn_in is None else self.burn_in
        sampler = Sampler(problem, self.noise, state.seed, state.scale)
        chain = sampler.sweep(state, state.iteration + 1, wide=state.iteration < burn_in / 2)
        # A draw that is not finite ends the chain: nothing of it is kept.
        counts = chain.iteration > burn_in and np.isfinite(chain.objective) and chain.factors.is_finite()
        return _counted(chain) if counts else chain

    def validated(self, problem: BaseProblem, state: Chain, held_out: Observations) -> tuple[Chain, float]:
        """The error of the running mean of the predictions; NaN before the first draw that counts."""
        if not state.draws.offered:
            return state, np.nan
        expected = replace(state.factors, left=state.mean)
        total = expected.predict(held_out.rows, held_out.cols, problem.workers)
        total = total.astype(np.float64) if state.draws.offered == 1 else state.held_out + total
        off = total / state.draws.offered - held_out.values
        return replace(state, held_out=total), float(np.sqrt(np.mean(off**2)))

    def remark(self, state: Chain) -> str:
        if state.draws.count:
            return f"{state.draws.offered} draws count after a burn-in of {self.burn_in} sweeps."
        return "That is within the burn-in: its last draw stands for the posterior; allow more sweeps or time."

    def posterior(self, problem: BaseProblem, state: Chain) -> Posterior:
        """The posterior of the kept draws, whose arrays it takes over."""
        chain = state if state.draws.count else _counted(replace(state, mean=state.factors.left))
        return chain.draws.finish(chain.variances / chain.draws.offered)

    def memory(self, shape: tuple[int, int], entries: int, rank: int, itemsize: int, biased: bool) -> int:
        """As for every solver, and the kept draws."""
        m, n = shape
        draws = (2 * m + n) * padded_width(self.kept * (rank + 2 * biased)) * itemsize
        return super().memory(shape, entries, rank, itemsize, biased) + draws


def _counted(chain: Chain) -> Chain:
    """The chain with its last draw among those that count."""
    draws = chain.draws.offer(chain.factors, chain.mean)
    return replace(chain, draws=draws, variances=chain.variances + 1 / chain.precision)
