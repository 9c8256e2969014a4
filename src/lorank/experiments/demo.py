"""The demo: the paper's synthetic matrix, completed by several methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lorank import plots
from lorank.datasets import SyntheticProblem, synthetic
from lorank.estimators import MatrixCompletion
from lorank.results_table import Cell, Table
from lorank.solvers import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What is compared: its name, its method and its solver; Algorithm 1 as the paper has it, but for momentum.
METHODS = {
    "factored NNFN": ("nnfn", "auto"),
    "NNFN by Algorithm 1": ("nnfn-prox", "proximal-momentum"),
    "factored nuclear norm": ("factored-nuclear", "auto"),
}
# Weights that are tried for each row of the table; the validation set chooses.
WEIGHTS = (0.03, 0.3, 0.6, 1.0, 1.5)


@dataclass
class Run:
    """One row of the demo's table."""

    name: str
    rank: int
    lam: float
    nmse: float
    found_rank: int
    seconds: float
    iterations: int
    sigma: npt.NDArray[Any]
    curve: tuple[list[float], list[float]] = field(repr=False)


def least_squares_nmse(entries: int, m: int, rank: int, noise: float) -> float:
    """NMSE of least squares at the true rank: noise sqrt(d / (n - d)) / sqrt(k), d = 2 m k - k^2 free numbers."""
    free = 2 * m * rank - rank**2
    return float(noise * np.sqrt(free / (entries - free)) / np.sqrt(rank))


def run_demo(
    m: int = 1000, seed: int = 0, advance: Callable[[float, float], None] = lambda done, of: None
) -> tuple[SyntheticProblem, list[Run]]:
    """Fit each method at the true rank 5 and at rank 10, with the weight that has the least validation error.

    `advance` is called with the number of runs that are done, and that of all.
    """
    problem = synthetic(m=m, seed=seed)
    for method, solver in METHODS.values():  # compile first: it happens once on a machine, and is not compared
        MatrixCompletion(method, 2, 10.0, solver=solver, max_iter=3, tol=1.0, random_state=seed).fit(problem.train)
    runs = []
    for rank in (5, 10):
        for name in METHODS:
            runs.append(_best_run(problem, name, rank, seed))
            advance(len(runs), 2 * len(METHODS))
    return problem, runs


def _best_run(problem: SyntheticProblem, name: str, rank: int, seed: int) -> Run:
    method, solver = METHODS[name]
    fits = [MatrixCompletion(method, rank, lam, solver=solver, random_state=seed).fit(problem.train) for lam in WEIGHTS]
    lam = WEIGHTS[int(np.argmax([model.score(problem.validation) for model in fits]))]
    seconds: list[float] = []
    errors: list[float] = []

    def measure(progress: Progress) -> None:
        seconds.append(progress.seconds)
        errors.append(problem.nmse(progress.factors.W, progress.factors.H))

    model = MatrixCompletion(method, rank, lam, solver=solver, random_state=seed)
    model.fit(problem.train, callbacks=[measure])
    return Run(
        name=name,
        rank=rank,
        lam=lam,
        nmse=problem.nmse(*model.factors_),
        found_rank=model.rank_,
        seconds=model.result_.seconds,
        iterations=model.n_iter_,
        sigma=model.singular_values_,
        curve=(seconds, errors),
    )


def table_of(runs: list[Run], m: int) -> Table:
    """The runs on an m x m matrix as a table."""
    rows = [
        {
            "method": run.name,
            "rank": run.rank,
            "lam": run.lam,
            "NMSE": Cell(f"{run.nmse:.4f}", run.nmse),
            "rank found": run.found_rank,
            "seconds": Cell(f"{run.seconds:.3f}", run.seconds),
            "iterations": run.iterations,
        }
        for run in runs
    ]
    return Table(rows, f"Completing a {m} x {m} matrix of rank 5 from noisy entries")


def draw_demo(problem: SyntheticProblem, runs: list[Run]) -> Figure:
    """Three panels: NMSE against time, spectra against the truth, shrinkage of every regularizer."""
    m, k = problem.W.shape
    drawn, (errors, spectra, shrinkage) = plots.figure(3)
    curves = {f"{run.name}, rank {run.rank}": run.curve for run in runs}
    plots.draw_error_against_time(errors, curves, "NMSE", least_squares_nmse(problem.train.nnz, m, k, 0.1))
    errors.set_title(f"{m} x {m}, {problem.train.nnz} entries seen", fontsize=10)
    truth = np.linalg.svd(np.linalg.qr(problem.W).R @ np.linalg.qr(problem.H).R.T, compute_uv=False)
    plots.draw_spectra(spectra, truth, {run.name: run.sigma for run in runs if run.rank == 10})
    spectra.set_title("singular values found with rank 10 allowed", fontsize=10)
    plots.draw_shrinkage(shrinkage, plots.shrinkage_examples())
    shrinkage.set_title("shrinkage, all tuned to be zero up to 5", fontsize=10)
    return drawn
