"""The columns of a table as numbers on one scale, side by side, with the loss of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

import numpy as np

from lorank.estimators.codes import Code, Indicators, OrdinalScores, Scores, Standardised
from lorank.estimators.columns import Column
from lorank.estimators.likelihoods import Counts, OneOfMany, ProbitLevels, Robust, TwoClasses
from lorank.losses import MAX_LEVELS, SQUARED, ByColumn, Loss
from lorank.types import Array

# How columns are put on one scale: normal scores, mean and standard deviation, the mean alone, or each by its own loss.
SCALES = ("scores", "standard", "none", "losses")
# Decimals of codes, of which a column has a standard deviation of about 1.
DIGITS = 9


class Coding:
    """The codes of all columns, side by side.

    Parameters
    ----------
    columns : sequence of Column
    cells : (rows, columns) array
        As `Layout.cells` gives them.
    scale : "scores", "standard", "none" or "losses"
        For columns of numbers: normal scores, mean and standard deviation, or the mean alone. "losses" is "standard"
        with a loss of its own for each column that is not one of real numbers.
    weights : (rows,) array, optional
        How much each row counts.
    """

    def __init__(self, columns: Sequence[Column], cells: Array, scale: str, weights: Array | None = None) -> None:
        mass = np.ones(len(cells)) if weights is None else weights
        self.scale = scale
        self.codes = [_code(column, cells[:, j], mass, scale, j) for j, column in enumerate(columns)]
        ends = np.cumsum([code.width for code in self.codes])
        self.blocks = [slice(int(end) - code.width, int(end)) for code, end in zip(self.codes, ends)]
        self.width = int(ends[-1])

    @property
    def owners(self) -> Array:
        """Which column of the table each column of the codes belongs to (width,)."""
        return np.repeat(np.arange(len(self.codes)), [code.width for code in self.codes])

    @property
    def classes(self) -> dict[int, Indicators]:
        """The columns of the table that hold classes without an order, of which more than one was seen."""
        codes = enumerate(self.codes)
        return {j: code for j, code in codes if isinstance(code, Indicators) and (code.means > 0).sum() > 1}

    @property
    def loss(self) -> Loss:
        """Of an entry of the codes: the squared one if all columns have it."""
        terms = [term for code in self.codes for term in code.terms()]
        if all(term.loss == SQUARED for term in terms):
            return SQUARED
        return ByColumn(tuple(term.loss for term in terms), tuple(term.offset for term in terms))

    @property
    def importance(self) -> Array | None:
        """How much each column of the codes counts (width,), as `ByColumn` wants it; None if all count the same."""
        terms = [term for code in self.codes for term in code.terms()]
        weights = np.array([term.weight * term.loss.curvature for term in terms])
        return None if (weights == 1).all() else weights

    def with_loss(self, loss: Loss) -> Coding:
        """With what this loss has learnt, after a fit."""
        if not isinstance(loss, ByColumn):
            return self
        other = copy(self)
        other.codes = [code.with_losses(loss.kinds[at]) for code, at in zip(self.codes, self.blocks)]
        return other

    def encode(self, cells: Array) -> Array:
        """(rows, width) from (rows, columns)."""
        codes = np.hstack([code.encode(cells[:, j]) for j, code in enumerate(self.codes)])
        # The last digits depend on the unit of a column, and trees would make more of them.
        return codes if self.scale == "none" else np.round(codes, DIGITS)

    def expected(self, mean: Array, std: Array, where: Array) -> Array:
        """What to fill in (rows, columns), from means and standard deviations of the codes; zero but for `where`."""
        out = np.zeros(where.shape)
        for j, (code, at) in enumerate(zip(self.codes, self.blocks)):
            here = where[:, j]
            out[here, j] = code.expected(mean[here, at], std[here, at])
        return out

    def drawn(self, mean: Array, std: Array, rng: np.random.Generator, exponent: float = 1.0) -> Array:
        """Draws of cells (rows, columns), from means and standard deviations of the codes."""
        normal, uniform = rng.standard_normal(mean.shape), rng.random((len(mean), len(self.codes)))
        return np.column_stack(
            [
                code.drawn(mean[:, at], std[:, at], normal[:, at], uniform[:, j], exponent)
                for j, (code, at) in enumerate(zip(self.codes, self.blocks))
            ]
        )


def _code(column: Column, numbers: Array, weights: Array, scale: str, block: int) -> Code:
    """The code of a column of this kind."""
    if scale == "losses" and column.kind == "categorical":
        return OneOfMany.of(column, numbers, weights, block)
    makers: dict[str, Callable[[Column, Array, Array], Code]] = {
        "ordinal": OrdinalScores.of,
        "binary": Indicators.of,
        "categorical": Indicators.of,
    }
    if scale == "losses":
        makers |= {"count": Counts.of, "heavy-tailed": Robust.of, "binary": TwoClasses.of}
        if column.levels is not None and column.levels.size <= MAX_LEVELS:
            makers["ordinal"] = ProbitLevels.of
    numeric = {"scores": Scores.of, "none": Standardised.centred}.get(scale, Standardised.of)
    return makers.get(column.kind, numeric)(column, numbers, weights)
