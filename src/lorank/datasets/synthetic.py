"""The paper's synthetic problem: a low-rank matrix, seen in a few noisy entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.observations import Observations
from lorank.types import Array

# Cells of the matrix that are held at a time while errors are summed (32 MB of float64).
CELLS = 1 << 22


@dataclass(frozen=True)
class SyntheticProblem:
    """Noisy entries of G = W H^T, and the truth.

    Attributes
    ----------
    train, validation : Observations, shape (m, n), disjoint entries of G plus noise.
    W, H : arrays (m, rank) and (n, rank), the true factors.
    """

    train: Observations
    validation: Observations
    W: Array
    H: Array

    def nmse(self, W: npt.ArrayLike, H: npt.ArrayLike) -> float:
        """Error of X = W H^T where training saw nothing: ||P(X - G)||_F / ||P(G)||_F, P the entries outside
        `train`.

        The paper's definition (Section 6.1.2): a ratio of norms, not of squares, against G without its noise.
        Summed over blocks of rows, so that no m x n array is made; Gram matrices would be cheaper, but lose
        small errors to cancellation.

        Parameters
        ----------
        W, H : arrays (m, k) and (n, k), any k.
        """
        m, n = self.train.shape
        W_hat, H_hat = np.asarray(W, dtype=np.float64), np.asarray(H, dtype=np.float64)
        if W_hat.ndim != 2 or H_hat.ndim != 2 or (len(W_hat), len(H_hat)) != (m, n) or W_hat.shape[1] != H_hat.shape[1]:
            raise InputError(f"The factors must be {m} x k and {n} x k; got shapes {W_hat.shape} and {H_hat.shape}.")
        W_true, H_true = self.W.astype(np.float64), self.H.astype(np.float64)
        rows, cols = self.train.rows, self.train.cols
        error = scale = 0.0
        height = max(1, CELLS // n)
        for top in range(0, m, height):
            block = slice(top, top + height)
            G = W_true[block] @ H_true.T
            # Row-major triplets: the entries of these rows lie together.
            seen = slice(*np.searchsorted(rows, (top, top + height)))
            G[rows[seen] - top, cols[seen]] = 0
            scale += float(np.vdot(G, G))
            difference = W_hat[block] @ H_hat.T
            difference[rows[seen] - top, cols[seen]] = 0
            difference -= G
            error += float(np.vdot(difference, difference))
        return float(np.sqrt(error / scale))


def synthetic(
    m: int = 1000,
    n: int | None = None,
    rank: int = 5,
    noise: float = 0.1,
    density: float = 1.0,
    train_fraction: float = 1.0,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float64,
) -> SyntheticProblem:
    """Noisy entries of a random low-rank matrix, as in Section 6.2 of the paper.

    G = W H^T with standard normal W (m x rank) and H (n x rank); an observed entry is G_ij + e_ij, e_ij ~
    N(0, noise^2). The number of sampled entries is |Omega| = density * (m + n) * rank * ln(max(m, n)), which
    for a square matrix and density 1 is the paper's 2 m k ln(m).

    Parameters
    ----------
    m, n : shape of the matrix; n is m when not given.
    rank : true rank k.
    noise : standard deviation of the noise.
    density : multiple of the paper's number of entries.
    train_fraction : 1 trains on all of Omega and validates on a second, disjoint sample of the same size: the
        only reading under which the paper's errors can be reached. Less than 1 trains on that share of Omega
        and validates on the rest of it; 0.5 is what the paper's text says.
    seed : the same seed gives the same problem, in either dtype up to rounding.
    dtype : float32 or float64.

    Examples
    --------
    >>> problem = synthetic(m=200)
    >>> problem.nmse(problem.W, problem.H)
    0.0
    """
    n = m if n is None else n
    if min(m, n, rank) < 1 or noise < 0 or density <= 0 or not 0 < train_fraction <= 1:
        raise InputError(
            "A synthetic problem needs m, n, rank >= 1, noise >= 0, density > 0, train_fraction in (0, 1]; "
            f"got {m=}, {n=}, {rank=}, {noise=}, {density=}, {train_fraction=}."
        )
    sampled = round(density * (m + n) * rank * np.log(max(m, n)))
    training = round(train_fraction * sampled)
    total = 2 * sampled if train_fraction == 1 else sampled
    if not 0 < training < total < m * n:
        raise InputError(
            f"A {m} x {n} matrix cannot give {training} training and {total - training} validation entries "
            "and still have unobserved ones; choose a larger matrix, another density or train_fraction."
        )
    rng = np.random.default_rng(seed)
    W, H = rng.standard_normal((m, rank)), rng.standard_normal((n, rank))
    cells = _distinct(total, m * n, rng)
    rows, cols = np.divmod(cells, n)
    values = np.einsum("ek,ek->e", W[rows], H[cols]) + noise * rng.standard_normal(total)
    train, validation = (
        Observations.from_coo(rows[part], cols[part], values[part].astype(dtype), shape=(m, n))
        for part in (slice(training), slice(training, None))
    )
    return SyntheticProblem(train, validation, W.astype(dtype), H.astype(dtype))


def _distinct(count: int, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """`count` distinct integers below `size`, in random order, in memory of the order of `count`."""
    if 2 * count > size:
        return rng.permutation(size)[:count]
    # Each round draws exactly what is still lacking, so that none is thrown away and every set stays equally
    # likely.
    cells = np.empty(0, np.int64)
    while cells.size < count:
        cells = np.sort(np.concatenate([cells, rng.integers(size, size=count - cells.size)]))
        cells = cells[np.diff(cells, prepend=-1) > 0]  # np.unique is sixty times slower on millions of distinct ones
    return rng.permutation(cells)
