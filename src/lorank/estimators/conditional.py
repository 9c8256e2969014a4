"""What a sampled model says of a row of codes: its columns are normal, with a mean and a covariance.

    z ~ N(mu, S),  S = H cov(w) H^T + diag(noise),  averaged over draws

For tables of few columns missing codes are expected given the observed ones, all rows by a few operations; that costs
width^3 for each pattern of missing codes, where folding in costs draws * rank^3 for each row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lorank.solvers import Posterior
from lorank.types import Array

# Numbers in the inverses that are held at a time.
AT_A_TIME = 2**21


def column_moments(posterior: Posterior, floor: float = 0.0) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) of the columns, with the noise of a usual row, of which `floor` is a bound."""
    n, draws, width = len(posterior.mean.right), posterior.draws, posterior.width
    mu, S = np.zeros(n), np.zeros((n, n))
    for s in range(draws):
        at = slice(s * width, (s + 1) * width)
        right = posterior.mean.right[:, at].astype(np.float64)
        left = draws * posterior.mean.left[:, at].astype(np.float64) + posterior.deviations[:, at]
        centre = left.mean(axis=0)
        left -= centre
        mu += right @ centre / draws
        S += right @ (left.T @ left / len(left)) @ right.T / draws
    usual = 1 / np.mean(1 / posterior.noise.left[:, :draws].astype(np.float64), axis=0)  # each is 1/draws of a variance
    return mu, S + np.diag(np.maximum(posterior.noise.right[:, :draws] @ usual, floor))


def conditional(mu: Array, S: Array, codes: Array) -> tuple[Array, Array]:
    """Means and standard deviations of missing codes given the observed ones of their row; zero elsewhere.

    With K the inverse of the observed part of S: mu_m + S_mo K (z_o - mu_o), and the roots of diag(S_mm - S_mo K S_om).
    """
    gaps = np.isnan(codes)
    off, mean, std = np.where(gaps, 0.0, codes - mu), np.zeros(codes.shape), np.zeros(codes.shape)
    for at, which, K in _inverses(S, ~gaps):
        mean[at] = mu + np.einsum("ijk,ik->ij", K[which], off[at]) @ S
        explained = np.einsum("uij,ij->ui", S @ K, S)
        std[at] = np.sqrt(np.maximum(np.diag(S) - explained, 0.0))[which]
    return np.where(gaps, mean, 0.0), np.where(gaps, std, 0.0)


def without_itself(mu: Array, S: Array, codes: Array, owners: Array) -> tuple[Array, Array]:
    """What would be expected if each observed cell in turn were missing, given the other cells of its row alone.

    Of the cell's own codes (rows, width), zero at missing ones; and by how much the missing codes of its row would be
    expected elsewhere (cells of a row, rows, width), zero at observed ones. With K as above, the error of the
    expectation of the codes z_b of a cell is e = (K_bb)^-1 (K (z - mu))_b, and missing codes move by -S_mo K_ob e.
    `owners` (width,) says to which column of cells a code belongs.
    """
    seen = ~np.isnan(codes)
    off, out = np.where(seen, codes - mu, 0.0), np.zeros(codes.shape)
    moved = np.zeros((int(owners.max()) + 1, *codes.shape))
    for at, which, K in _inverses(S, seen):
        pulled, slopes = np.einsum("ijk,ik->ij", K[which], off[at]), S @ K
        for owner in np.unique(owners):
            own = np.flatnonzero(owners == owner)
            there = np.flatnonzero(seen[at, own[0]])
            block = K[:, own[:, None], own][which[there]]
            errors = np.linalg.solve(block, pulled[there][:, own, None])
            here = at.start + there
            out[np.ix_(here, own)] = codes[np.ix_(here, own)] - errors[:, :, 0]
            moved[owner, here] = -np.where(seen[here], 0.0, (slopes[:, :, own][which[there]] @ errors)[:, :, 0])
    return out, moved


def _inverses(S: Array, seen: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Some rows at a time, which of their patterns each has, and for each pattern the inverse of the observed part of
    S, with zeros where a code is missing."""
    step = max(1, AT_A_TIME // S.size)
    for first in range(0, len(seen), step):
        at = slice(first, first + step)
        patterns, which = np.unique(seen[at], axis=0, return_inverse=True)
        both = patterns[:, :, None] & patterns[:, None, :]
        # Lines and columns of the identity at missing codes do not touch the others.
        yield at, which.reshape(-1), np.where(both, np.linalg.inv(np.where(both, S, np.eye(len(S)))), 0.0)
