"""Several fits of the same problem: from different random starts, or chains of a sampler side by side."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import numpy as np

from lorank import kernels
from lorank.estimators import running
from lorank.estimators.parameters import Parameters
from lorank.linalg import Factors
from lorank.linalg.blas import one_blas_thread
from lorank.observations import Observations
from lorank.solvers import Callback, Checkpoint, Progress, Result
from lorank.solvers.gibbs.convergence import split_rhat
from lorank.tuning.setting import Setting

# Entries at which chains are compared.
COMPARED = 1000


def solve_all(
    asked: Parameters,
    observations: Observations,
    setting: Setting,
    start: Factors | None,
    held_out: Observations | None,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    seed: int,
) -> Result:
    """The average of asked.n_fits fits. Chains share the threads; the same bits come out for any number of them.

    Only the first starts at `start`, is kept in the checkpoint and, of chains, is seen by the callbacks; when it is
    told to stop, so are the others.
    """
    first = (asked, observations, setting, start, held_out)
    if asked.n_fits == 1:
        return running.solve(*first, callbacks, checkpoint, seed)
    others = (observations, setting, None, held_out)
    seeds = range(seed + 1, seed + asked.n_fits)
    if not running.build_solver(asked).samples or asked.backend != running.LOCAL:
        results = [running.solve(*first, callbacks, checkpoint, seed)]
        return running.averaged(results + [running.solve(asked, *others, callbacks, seed=each) for each in seeds])
    threads = kernels.Workers(asked.n_jobs).threads
    each_asked = replace(asked, n_jobs=max(1, threads // asked.n_fits))
    stop = Event()

    def watched(progress: Progress) -> bool:
        return stop.is_set()

    def first_watched(progress: Progress) -> bool:
        answers = [callback(progress) for callback in callbacks]
        if any(answers):
            stop.set()
        return stop.is_set()

    quiet = replace(each_asked, verbose=False)
    with one_blas_thread(), ThreadPoolExecutor(min(threads, asked.n_fits)) as pool:
        try:
            futures = [pool.submit(running.solve, each_asked, *first[1:], [first_watched], checkpoint, seed)]
            futures += [pool.submit(running.solve, quiet, *others, [watched], None, each) for each in seeds]
            results = [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise
    return _agreement(running.averaged(results), results, observations)


def _agreement(joined: Result, results: Sequence[Result], observations: Observations) -> Result:
    """The joined result, with a word about whether the chains agree."""
    rng = np.random.default_rng(0)
    rows, cols = (rng.integers(0, lines, COMPARED) for lines in observations.shape)
    draws = [result.posterior.samples(rows, cols) for result in results if result.posterior is not None]
    return replace(joined, message=f"{joined.message} Split R-hat of predictions: {split_rhat(draws):.2f}.")
