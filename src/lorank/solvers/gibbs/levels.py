"""Values on a scale: the cuts between levels and the latent values z, given x.

    level l where g_l < z_ij <= g_{l+1},   z_ij ~ N(x_ij, s2 / (c_i d_j omega_ij)),   g_l ~ N(offset, CUT_SPREAD^2 s2)

s2 is fixed: the data cannot tell the scale of x from that of the noise. It is that of the noise around the offsets, so
that x and the cuts are about in the unit of the data.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.special import ndtr

from lorank import kernels
from lorank.linalg import Factors
from lorank.problems import BaseProblem
from lorank.types import Array

# Standard deviation of a cut a priori, in units of the noise's.
CUT_SPREAD = 10.0


class Levels:
    """Draws of cuts and latent values for one problem; own and roots are c_i / s2 and sqrt(d_j)."""

    def __init__(self, problem: BaseProblem, variance: float) -> None:
        self.problem, self.workers, self.variance = problem, problem.workers, variance
        self.values, self.level = problem.levels

    def start(self) -> Array:
        """Cuts half way between the levels."""
        return (self.values[:-1] + self.values[1:]) / 2

    def draw(
        self, factors: Factors, cuts: Array, own: Array, roots: Array, seed: int, stream: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Cuts by a Metropolis step whose proposal is Newton's, with z integrated out; then z (row-major)."""
        seen = self.problem.observations
        x = factors.predict(seen.rows, seen.cols, self.workers)
        if cuts.size:
            cuts = self._draw_cuts(x, cuts, factors.offset, own, roots, rng)
        z, rows = np.empty_like(x), seen.by_row
        args = (rows.pointers, rows.indices, rows.weights, self.level, x, own, roots, cuts, np.uint64(seed), stream, z)
        self.workers.run(kernels.draw_latent, rows.pointers, *args, work_per_entry=200)
        return cuts, z

    def _draw_cuts(
        self, x: Array, cuts: Array, offset: float, own: Array, roots: Array, rng: np.random.Generator
    ) -> Array:
        value, centre, root = self._proposal(x, cuts, offset, own, roots)
        new: Array = centre + scipy.linalg.solve_triangular(root.T, rng.standard_normal(cuts.size), lower=False)
        accept = np.log(rng.random())
        if (np.diff(new) <= 0).any():
            return cuts
        there, back, its_root = self._proposal(x, new, offset, own, roots)
        ratio = there + _log_density(cuts, back, its_root) - value - _log_density(new, centre, root)
        return new if accept < ratio else cuts

    def _proposal(self, x: Array, cuts: Array, offset: float, own: Array, roots: Array) -> tuple[float, Array, Array]:
        """Log posterior of the cuts, Newton's next cuts from here, and the Cholesky factor of minus the Hessian."""
        c, seen = cuts.size, self.problem.observations
        blocks = -(-x.size // kernels.LEVEL_BLOCK)
        out = np.empty((blocks, 1 + 3 * c))
        args = (seen.rows, seen.cols, seen.weights, self.level, x, own, roots, cuts, out)
        self.workers.run_evenly(kernels.cut_terms, blocks, *args, work_per_line=100 * kernels.LEVEL_BLOCK)
        terms = out.sum(axis=0)
        ridge, off = 1 / (CUT_SPREAD**2 * self.variance), cuts - offset
        beside = terms[1 + 2 * c : 3 * c]
        minus = np.diag(ridge - terms[1 + c : 1 + 2 * c]) - np.diag(beside, 1) - np.diag(beside, -1)
        L = np.linalg.cholesky(minus)
        step = scipy.linalg.cho_solve((L, True), terms[1 : 1 + c] - ridge * off)
        return float(terms[0] - ridge * off @ off / 2), cuts + step, L

    def expected(self, x: Array, roots: Array, cuts: Array) -> Array:
        """Expected values of entries with the latent mean x and the noise 1 / roots."""
        above = ndtr((x[:, None] - cuts) * roots[:, None])
        return np.asarray(self.values[0] + above @ np.diff(self.values))


def _log_density(at: Array, centre: Array, L: Array) -> float:
    """Log density of N(centre, (L L^T)^-1), up to a constant."""
    off = L.T @ (at - centre)
    return float(np.log(np.diag(L)).sum() - off @ off / 2)
