"""What low rank leaves over: trees that predict each column from the others.

The codes of a column are predicted by extremely randomised trees from the other columns, missing ones filled in by the
low-rank model, and from what that model says of the column itself: for an observed cell, both without this cell, which
will be missing where the trees are asked. Then once more, with the other columns filled in by the trees; what the trees
of both rounds say is averaged. How much they count is found out for each column on cells that a tree was not grown on:
z = (1 - share) low rank + share trees, share between 0 and 1 and of least squares. What they say of classes is
corrected by logistic regressions instead, see `chances`.

References
----------
Geurts, Ernst, Wehenkel, "Extremely randomized trees", Machine Learning 2006.
Stekhoven, Buehlmann, "MissForest", Bioinformatics 2012.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lorank import kernels
from lorank.estimators.chances import Chances
from lorank.estimators.codes import Indicators
from lorank.estimators.coding import DIGITS
from lorank.estimators.conditional import conditional, without_itself
from lorank.types import Array

# Trees of a column, cells in a leaf at least, the part of the cells that each is grown on, and how often the columns
# are gone through.
TREES, LEAF, PART, ROUNDS = 40, 3, 0.75, 2
# Fewer observed cells of a column say nothing, and more rows than this are not needed.
FEWEST_CELLS, MOST_ROWS = 40, 2000
# Tables of more columns of codes are left to low rank.
MOST_WIDTH = 50
# Trees of less weight are left out, and those that gain less than half a standard error of their gain.
LEAST_SHARE, LEAST_WON = 0.1, 0.5


@dataclass(frozen=True)
class Forest:
    """Trees as `kernels.grow_trees` has them, how much they count, and by what the standard deviation is multiplied.

    Of a column of classes, its code and the regression that makes chances of what trees say.
    """

    trees: tuple[Array, Array, Array, Array]
    share: float = 1.0
    ratio: float = 0.0
    classes: tuple[Indicators, Chances] | None = None

    def predict(self, inputs: Array, workers: kernels.Workers) -> Array:
        """What the trees say of rows with these inputs (d, rows): (rows, w)."""
        out = np.empty((inputs.shape[1], self.trees[-1].shape[2]))
        work = 20.0 * len(self.trees[0])
        workers.run_evenly(kernels.ask_trees, len(out), inputs, *self.trees, out, work_per_line=work)
        return out

    def combined(self, plain: Array, said: Array, others: Array) -> Array:
        """Codes (rows, w) from what low rank and what trees say, and from the codes of the other columns (d, rows)."""
        if self.classes is None:
            return (1 - self.share) * plain + self.share * said
        code, chances = self.classes
        return code.of_shares(chances(code.shares(said), others))


@dataclass(frozen=True)
class Forests:
    """Rounds of forests, one for each column that has one; owners (width,) says to which column a code belongs."""

    rounds: list[dict[int, Forest]]
    owners: Array

    def corrected(self, codes: Array, mean: Array, std: Array, n_jobs: int | None) -> tuple[Array, Array]:
        """Means and standard deviations of missing codes, from those of the low-rank model; row by row."""
        gaps, workers = np.isnan(codes), kernels.Workers(n_jobs)
        filled, said, ratio = np.where(gaps, mean, codes), np.zeros(codes.shape), np.ones(codes.shape[1])
        for number, forests in enumerate(self.rounds):
            new = filled.copy()
            for owner, forest in forests.items():
                _add(forest, number, new, said, filled, mean, gaps, self.owners == owner, workers)
                ratio[self.owners == owner] = forest.ratio
            filled = new
        workers.close()
        return np.where(gaps, filled, 0.0), std * ratio


def fit_forests(
    mu: Array,
    S: Array,
    codes: Array,
    owners: Array,
    seed: int,
    n_jobs: int | None,
    classes: Mapping[int, Indicators] | None = None,
) -> Forests | None:
    """Forests of all columns of these codes, with this mean and covariance; None if the table is too wide.

    `owners` (width,) says to which column a code belongs, `classes` which of the columns are classes, with their code.
    """
    if codes.shape[1] > MOST_WIDTH or np.unique(owners).size < 2:
        return None
    if len(codes) > MOST_ROWS:
        codes = codes[np.sort(np.random.default_rng(seed).choice(len(codes), MOST_ROWS, replace=False))]
    gaps, workers = np.isnan(codes), kernels.Workers(n_jobs)
    mean, _ = conditional(mu, S, codes)
    left_out, moved = without_itself(mu, S, codes, owners)
    filled, rounds, tried = np.where(gaps, mean, codes), [], np.unique(owners).tolist()
    # What trees say, on average over the rounds: of missing codes, and of observed ones that they were not grown on.
    said, heard = np.zeros(codes.shape), np.zeros(codes.shape)
    for number in range(ROUNDS):
        new, forests = filled.copy(), {}
        for owner in tried:
            own = owners == owner
            seen = np.flatnonzero(~gaps[:, own].any(axis=1))
            if seen.size < FEWEST_CELLS:
                continue
            truth, plain, here = codes[seen][:, own], left_out[seen][:, own], np.ix_(seen, np.flatnonzero(own))
            key = np.random.default_rng([seed, number, owner]).integers(2**63)
            inputs = _inputs(filled[seen] + moved[owner, seen], plain, own)
            trees, ours = grow(inputs, truth, int(key), workers)
            heard[here] += (ours - heard[here]) / (number + 1)
            code = (classes or {}).get(owner)
            if code is None:
                forest = _weighed(trees, plain, heard[here], truth)
            else:
                others = inputs[: -own.sum()]
                forest = Forest(trees, classes=(code, Chances.of(code.shares(heard[here]), others, code.shares(truth))))
            if forest is None:
                continue
            forests[owner] = forest
            _add(forest, number, new, said, filled, mean, gaps, own, workers)
        rounds.append(forests)
        filled, tried = new, list(forests)
    workers.close()
    return Forests(rounds, owners) if any(rounds) else None


def _weighed(trees: tuple[Array, Array, Array, Array], plain: Array, heard: Array, truth: Array) -> Forest | None:
    """A forest of a column of numbers, and how much it counts; None if it gains too little.

    What low rank says, what trees say, and what is there (rows, w).
    """
    gain, left = heard - plain, truth - plain
    share = float(np.clip((gain * left).sum() / max((gain**2).sum(), 1e-12), 0.0, 1.0))
    before, after = (left**2).sum(axis=1), ((left - share * gain) ** 2).sum(axis=1)
    won = before - after
    if share < LEAST_SHARE or won.mean() < LEAST_WON * won.std() / np.sqrt(won.size):
        return None
    return Forest(trees, share, float(np.sqrt(after.mean() / max(before.mean(), 1e-12))))


def grow(
    inputs: Array, outputs: Array, key: int, workers: kernels.Workers
) -> tuple[tuple[Array, Array, Array, Array], Array]:
    """Trees that predict outputs (rows, w) from inputs (d, rows), and what they say of rows they were not grown on."""
    rows, width = outputs.shape
    part = int(np.ceil(PART * rows))
    nodes = 2 * (part // LEAF) + 1
    feature, below = np.full((TREES, nodes), -1, np.int32), np.zeros((TREES, nodes), np.int32)
    trees = (feature, np.zeros((TREES, nodes)), below, np.zeros((TREES, nodes, width)))
    said = np.full((TREES, width, rows), np.nan)
    workers.run_evenly(
        kernels.grow_trees,
        TREES,
        *(inputs, np.ascontiguousarray(outputs.T), part, LEAF, np.uint64(key), *trees, said),
        work_per_line=20.0 * rows * len(inputs),
    )
    counts = np.maximum((~np.isnan(said)).sum(axis=0), 1)
    return trees, (np.nansum(said, axis=0) / counts).T


def _add(
    forest: Forest,
    number: int,
    new: Array,
    said: Array,
    filled: Array,
    mean: Array,
    gaps: Array,
    own: Array,
    workers: kernels.Workers,
) -> None:
    """Put what low rank and trees say together into the gaps of the codes `own` of `new`.

    `said` is the mean of what the trees of the rounds before say, and then that of this round too.
    """
    at = np.flatnonzero(gaps[:, own].any(axis=1))
    if at.size:
        plain, here = mean[at][:, own], np.ix_(at, np.flatnonzero(own))
        inputs = _inputs(filled[at], plain, own)
        said[here] += (forest.predict(inputs, workers) - said[here]) / (number + 1)
        new[here] = forest.combined(plain, said[here], inputs[: -own.sum()])


def _inputs(filled: Array, plain: Array, own: Array) -> Array:
    """What a forest sees (d, rows): the codes of other columns, and what low rank says.

    Rounded, since what is computed without a cell depends on it by its last digits, which trees would find.
    """
    return np.round(np.vstack([filled.T[~own], plain.T]), DIGITS)
