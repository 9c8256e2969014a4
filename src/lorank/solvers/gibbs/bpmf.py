"""Bayesian probabilistic matrix factorization, by Gibbs sampling.

    O_ij ~ N(x_ij, 1/alpha),  x_ij = <w_i, h_j>  or  offset + a_i + b_j + <w_i, h_j>
    (w_i, a_i) ~ N(mu_W, Lambda_W^-1),  (mu_W, Lambda_W) ~ Gaussian-Wishart,  the same for columns,  alpha ~ Gamma

Nothing is tuned: the weights that other methods call lam are drawn too. All conditionals are Gaussian, Gaussian-Wishart
or Gamma, and rows are independent given the columns, so a sweep costs what a sweep of alternating least squares does.
A graph on the rows multiplies the density by exp(-alpha gamma/2 tr(X^T L X)), which ties them (`bayes.graphs`); gamma
is that of the other methods, and alpha is drawn from the graph's term too, as from one residual for each tied number.

References
----------
Salakhutdinov, Mnih, "Bayesian probabilistic matrix factorization using Markov chain Monte Carlo", ICML 2008.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lorank import kernels
from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.linalg.blas import one_blas_thread
from lorank.observations import Observations
from lorank.side_information.base import Added
from lorank.solvers import Callback, Checkpoint, History, Progress, Result, Status
from lorank.solvers.gibbs.chain import Chain, Sampler
from lorank.solvers.gibbs.posterior import Posterior
from lorank.solvers.loop import _Clock
from lorank.types import Array


@dataclass(frozen=True)
class SampledResult(Result):
    """The outcome of sampling: `factors` is the posterior mean (as wide as all draws together), `posterior` tells more.

    `objective`, and its column of the history, is the root mean squared residual of a draw on the training entries.
    """

    posterior: Posterior

    @property
    def summary(self) -> Factors:
        """Factors of the rank that was asked for, nearest to the posterior mean."""
        return self.posterior.summary


@dataclass(frozen=True)
class BPMF:
    """Settings of the sampler.

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

    # What a graph on rows or columns must have; see `Solver.coupling`.
    coupling: ClassVar[tuple[str, ...]] = ("energy",)
    samples: ClassVar[bool] = True
    distributes: ClassVar[bool] = False

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

    def sample(
        self,
        observations: Observations,
        rank: int,
        *,
        biases: bool = False,
        sweeps: int = 500,
        max_seconds: float | None = None,
        start: Factors | None = None,
        validation: Observations | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        seed: int | None = None,
        n_jobs: int | None = None,
        graphs: tuple[Added | None, Added | None] = (None, None),
    ) -> SampledResult:
        """Draw `sweeps` times, the burn-in among them; graphs are those of rows and columns.

        Ctrl-C, a callback that returns True and the time limit end it with the draws so far. The validation error in
        the history is that of the running mean of the predictions.
        """
        burn_in = min(20, sweeps // 2) if self.burn_in is None else self.burn_in
        if sweeps <= burn_in:
            raise InputError(f"{sweeps} sweeps leave no draw after a burn-in of {burn_in}; ask for more sweeps.")
        if start is not None and (start.k, start.biased, start.shape) != (rank, biases, observations.shape):
            raise InputError(
                f"The start has rank {start.k}, shape {start.shape} and biases={start.biased}; "
                f"rank {rank}, shape {observations.shape} and biases={biases} are needed."
            )
        seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        sampler = Sampler(observations, rank, biases, self.noise, seed, kernels.Workers(n_jobs), graphs)
        with one_blas_thread():
            try:
                chain = sampler.start(start, self.kept, 0 if validation is None else validation.nnz)
                return _run(sampler, chain, burn_in, sweeps, max_seconds, validation, callbacks, checkpoint)
            finally:
                sampler.workers.close()


def _run(
    sampler: Sampler,
    chain: Chain,
    burn_in: int,
    sweeps: int,
    max_seconds: float | None,
    validation: Observations | None,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
) -> SampledResult:
    clock, history, t = _Clock(), History(), 0
    if checkpoint is not None and checkpoint.exists():
        chain, _, saved = checkpoint.load(chain)
        history, t, clock.before = History(**saved["history"]), saved["iteration"], saved["seconds"]
    status, message = Status.SAMPLED, f"Drew {sweeps - burn_in} times after a burn-in of {burn_in} sweeps."
    try:
        while t < sweeps:
            following, mean = sampler.sweep(chain, t + 1, wide=t < burn_in / 2)
            if not (np.isfinite(following.residual) and following.factors.is_finite()):
                status, message = Status.DIVERGED, f"Diverged at sweep {t + 1}; the draws before it are kept."
                break
            if t >= burn_in:
                following = _count(following, mean, validation, sampler.workers, clock)
            chain, t = following, t + 1
            clock.pause()
            error = np.nan
            if validation is not None and chain.draws.offered:
                off = chain.held_out / chain.draws.offered - validation.values
                error = float(np.sqrt(np.mean(off**2)))
            history.append(t, clock.before, chain.residual, sampler.k, error)
            progress = Progress(t, clock.before, chain.residual, sampler.k, error, chain.factors)
            answers = [callback(progress) for callback in callbacks]
            if checkpoint is not None:
                checkpoint.offer(chain, chain, _progress_of(history, t, clock))
            if any(answers):
                status, message = Status.STOPPED, f"A callback stopped it at sweep {t}."
                break
            if max_seconds is not None and clock.before >= max_seconds and t < sweeps:
                status, message = Status.TIME_LIMIT, f"Stopped at the limit of {max_seconds:g} s after {t} sweeps."
                break
            clock.resume()
    except KeyboardInterrupt:
        status, message = Status.STOPPED, f"Interrupted after {t} sweeps; the draws so far are kept."
    if checkpoint is not None:
        if status in (Status.STOPPED, Status.TIME_LIMIT):
            checkpoint.save(chain, chain, _progress_of(history, t, clock))
        elif status is Status.SAMPLED:
            checkpoint.remove()
    if not chain.draws.count:
        message += " That is within the burn-in: its last draw stands for the posterior; allow more sweeps or time."
        last = chain.draws.offer(chain.factors, chain.factors.left)
        chain = replace(chain, draws=last, variances=1 / chain.precision)
    if status in (Status.TIME_LIMIT, Status.DIVERGED):
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    posterior = chain.draws.finish(chain.variances / chain.draws.offered)
    return SampledResult(posterior.mean, float(chain.residual), status, message, t, clock.before, history, posterior)


def _count(
    chain: Chain, mean: Array, validation: Observations | None, workers: kernels.Workers, clock: _Clock
) -> Chain:
    """The chain with its last draw counted; predicting the validation entries is not on the clock."""
    draws = chain.draws.offer(chain.factors, mean)
    held_out = chain.held_out
    if validation is not None:
        clock.pause()
        expected = replace(chain.factors, left=mean)
        held_out = held_out + expected.predict(validation.rows, validation.cols, workers)
        clock.resume()
    return replace(chain, draws=draws, variances=chain.variances + 1 / chain.precision, held_out=held_out)


def _progress_of(history: History, t: int, clock: _Clock) -> dict[str, Any]:
    columns = {name: list(column) for name, column in vars(history).items()}
    return {"history": columns, "iteration": t, "seconds": clock.before}
