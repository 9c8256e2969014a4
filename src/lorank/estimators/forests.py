"""What low rank leaves over: trees that predict each column of codes from the others.

A column of codes is predicted by extremely randomised trees from the other columns, missing ones filled in by the
low-rank model, and from what that model says of the column itself: of an observed cell, without this cell. Then once
more, with the other columns filled in by the trees. How much the trees count is found out for each column on
out-of-bag cells: z = (1 - share) low rank + share trees, share between 0 and 1 and of least squares.

References
----------
Geurts, Ernst, Wehenkel, "Extremely randomized trees", Machine Learning 2006.
Stekhoven, Buehlmann, "MissForest", Bioinformatics 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank.solvers import Posterior
from lorank.types import Array

# Trees of a column, cells in a leaf at least, and how often the columns are gone through.
TREES, LEAF, ROUNDS = 30, 3, 2
# Fewer observed cells of a column say nothing, and more rows than this are not needed.
FEWEST_CELLS, MOST_ROWS = 40, 2000
# Tables of more columns of codes are left to low rank.
MOST_WIDTH = 50
# Trees of less weight are left out.
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Tree:
    """The forest of one column, how much it counts, and by what the standard deviation is multiplied."""

    forest: Any
    share: float
    ratio: float


@dataclass(frozen=True)
class Forests:
    """Rounds of forests, one for each column that has one, and the columns that belong to the same cell."""

    rounds: list[dict[int, Tree]]
    owners: Array

    def corrected(self, codes: Array, mean: Array, std: Array) -> tuple[Array, Array]:
        """Means and standard deviations of missing codes, from those of the low-rank model; row by row."""
        gaps = np.isnan(codes)
        filled, ratio = np.where(gaps, mean, codes), np.ones(codes.shape[1])
        for trees in self.rounds:
            new = filled.copy()
            for j, tree in trees.items():
                at = np.flatnonzero(gaps[:, j])
                if at.size:
                    given = _inputs(filled[at], self.owners, j, mean[at, j])
                    new[at, j] = (1 - tree.share) * mean[at, j] + tree.share * tree.forest.predict(given)
                ratio[j] = tree.ratio
            filled = new
        return np.where(gaps, filled, 0.0), std * ratio


def fit_forests(posterior: Posterior, codes: Array, mean: Array, owners: Array, seed: int) -> Forests | None:
    """Forests of all columns of these codes, whose missing ones have these means; None if the table is too wide."""
    from sklearn.ensemble import ExtraTreesRegressor

    gaps = np.isnan(codes)
    if codes.shape[1] > MOST_WIDTH or np.unique(owners).size < 2:
        return None
    left_out = np.where(gaps, mean, without_itself(posterior, codes))
    filled, rounds = np.where(gaps, mean, codes), []
    rng = np.random.default_rng(seed)
    for _ in range(ROUNDS):
        new, trees = filled.copy(), {}
        for j in np.flatnonzero((~gaps).sum(axis=0) >= FEWEST_CELLS).tolist():
            seen = np.flatnonzero(~gaps[:, j])
            seen = np.sort(rng.choice(seen, MOST_ROWS, replace=False)) if seen.size > MOST_ROWS else seen
            forest = ExtraTreesRegressor(
                TREES, min_samples_leaf=LEAF, bootstrap=True, oob_score=_nothing, random_state=seed, n_jobs=1
            )
            truth, plain = codes[seen, j], left_out[seen, j]
            forest.fit(_inputs(filled[seen], owners, j, plain), truth)
            ours = forest.oob_prediction_
            gain = ours - plain
            share = float(np.clip(gain @ (truth - plain) / max(gain @ gain, 1e-12), 0.0, 1.0))
            if share < LEAST_SHARE:
                continue
            errors = [float(np.mean((truth - guess) ** 2)) for guess in (plain, plain + share * gain)]
            trees[j] = Tree(forest, share, float(np.sqrt(errors[1] / max(errors[0], 1e-12))))
            at = np.flatnonzero(gaps[:, j])
            if at.size:
                predicted = forest.predict(_inputs(filled[at], owners, j, mean[at, j]))
                new[at, j] = (1 - share) * mean[at, j] + share * predicted
        rounds.append(trees)
        filled = new
    return Forests(rounds, owners) if any(rounds) else None


def without_itself(posterior: Posterior, codes: Array) -> Array:
    """What each observed code is expected to be, given the others of its row alone (anything at missing ones).

    With the covariance S of the columns, noise and all, and K the inverse of its observed part, the error of the
    expectation of z_j without itself is (K (z - mu))_j / K_jj.
    """
    mu, S = np.zeros(codes.shape[1]), np.zeros((codes.shape[1], codes.shape[1]))
    for s in range(posterior.draws):
        factors, rows, cols = posterior.draw(s)
        X = factors.dense().astype(np.float64)
        mu += X.mean(axis=0) / posterior.draws
        S += (np.cov(X.T, bias=True) + np.diag(rows.mean() * cols)) / posterior.draws
    out = codes.copy()
    for i, row in enumerate(codes):
        seen = np.flatnonzero(~np.isnan(row))
        K = np.linalg.inv(S[np.ix_(seen, seen)])
        out[i, seen] = row[seen] - K @ (row[seen] - mu[seen]) / np.diag(K)
    return out


def _inputs(filled: Array, owners: Array, j: int, plain: Array) -> Array:
    """What a forest sees: the columns of other cells, and what low rank says."""
    return np.column_stack([filled[:, owners != owners[j]], plain])


def _nothing(truth: Array, predicted: Array) -> float:
    """In place of R^2, which is not asked for."""
    return 0.0
