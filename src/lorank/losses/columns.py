"""Losses that depend on where an entry stands: one for each column, and classes that take several columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lorank.kernels import Workers
from lorank.losses.ordinal import Ordinal
from lorank.losses.pointwise import Likelihood, Loss
from lorank.types import Array


@dataclass(frozen=True)
class Multinomial(Likelihood):
    """-sum_b o_b log p_b with p = softmax(x) over the entries of a row: one of them is 1, the one that was chosen.

    Entries that are missing are no choices: p is that of the others. The second derivatives, diag(p) - p p^T, are at
    most 1/2 in any direction (Boehning), so that each entry has a step of its own.

    Parameters
    ----------
    block : int
        Which columns belong together, as losses of `ByColumn`: those with equal blocks.

    References
    ----------
    Boehning, "Multinomial logistic regression algorithm", Ann. Inst. Statist. Math. 1992.
    """

    block: int = 0
    curvature = 0.5

    def at(self, rows: Array, cols: Array) -> Loss:
        return _OneOfRow(rows)

    def losses(self, x: Array, o: Array) -> Array:
        """The entries are those of one row."""
        return _OneOfRow(np.zeros(x.size, np.int64)).losses(x, o)

    def derivative(self, x: Array, o: Array) -> Array:
        return _OneOfRow(np.zeros(x.size, np.int64)).derivative(x, o)


class _OneOfRow(Likelihood):
    """The multinomial loss of entries at these rows (entries,)."""

    curvature = 0.5

    def __init__(self, rows: Array) -> None:
        self.rows = np.unique(rows, return_inverse=True)[1].astype(np.int64)

    def losses(self, x: Array, o: Array) -> Array:
        return np.asarray(-o * self._logarithms(x))

    def derivative(self, x: Array, o: Array) -> Array:
        chosen = np.bincount(self.rows, o)[self.rows] if o.size else o
        return np.asarray(chosen * np.exp(self._logarithms(x)) - o, x.dtype)

    def _logarithms(self, x: Array) -> Array:
        """log p."""
        if not x.size:
            return x.astype(np.float64)
        top = np.full(int(self.rows.max()) + 1, -np.inf)
        np.maximum.at(top, self.rows, x)
        centred = x - top[self.rows]
        return np.asarray(centred - np.log(np.bincount(self.rows, np.exp(centred)))[self.rows])


@dataclass(frozen=True)
class ByColumn(Likelihood):
    """f_j(x + offset_j, o) / L_j for an entry of column j, L_j being the bound on the second derivative of f_j.

    All have the curvature 1, so that one least squares problem is a step for all of them. How much a column counts is
    said by the weights of its entries: with weights w_j L_j they add up to sum_j w_j f_j.

    Parameters
    ----------
    kinds : tuple of Loss
        f_j of each column.
    offsets : tuple of floats
        Where x = 0 stands.

    References
    ----------
    Udell, Horn, Zadeh, Boyd, "Generalized low rank models", Foundations and Trends in Machine Learning 2016.
    """

    kinds: tuple[Loss, ...]
    offsets: tuple[float, ...]

    @property
    def learns(self) -> bool:
        return any(kind.learns for kind in self.kinds)

    def fresh(self) -> ByColumn:
        return replace(self, kinds=tuple(kind.fresh() for kind in self.kinds))

    def at(self, rows: Array, cols: Array) -> Loss:
        return _Placed(self, rows, cols)

    def losses(self, x: Array, o: Array) -> Array:
        """x and o (rows, columns)."""
        rows, cols = np.indices(x.shape)
        return self.at(rows.ravel(), cols.ravel()).losses(x.ravel(), o.ravel()).reshape(x.shape)

    def derivative(self, x: Array, o: Array) -> Array:
        """x and o (rows, columns)."""
        rows, cols = np.indices(x.shape)
        return self.at(rows.ravel(), cols.ravel()).derivative(x.ravel(), o.ravel()).reshape(x.shape)


class _Placed(Likelihood):
    """The losses of entries at these rows and columns."""

    def __init__(self, whole: ByColumn, rows: Array, cols: Array) -> None:
        self.whole, self.rows, self.cols = whole, rows, cols
        self.offsets = np.array(whole.offsets)[cols]

    @cached_property
    def _parts(self) -> list[tuple[Array, Loss]]:
        """Which entries have the same loss, and that loss."""
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(self.whole.kinds))}
        which = np.array([numbers[kind] for kind in self.whole.kinds])[self.cols]
        found = [(np.flatnonzero(which == number), kind) for kind, number in numbers.items()]
        return [(index, kind.at(self.rows[index], self.cols[index])) for index, kind in found]

    def losses(self, x: Array, o: Array) -> Array:
        out, x = np.empty(x.size), x + self.offsets
        for index, kind in self._parts:
            out[index] = kind.losses(x[index], o[index]) / kind.curvature
        return out

    def each(self, x: Array, o: Array) -> Array:
        """Losses of entries that are held out; of a scale, which may have levels that are new, half the squares."""
        out, x = np.empty(x.size), x + self.offsets
        for index, kind in self._parts:
            if isinstance(kind, Ordinal):
                out[index] = kind.each(kind.predicted(x[index]), o[index]) / 2
            else:
                out[index] = kind.losses(x[index], o[index]) / kind.curvature
        return out

    def error(self, x: Array, o: Array, weights: Array | None = None) -> float:
        return float(np.average(self.each(x, o), weights=weights))

    def derivative(self, x: Array, o: Array) -> Array:
        out, shifted = np.empty_like(x), x + self.offsets
        for index, kind in self._parts:
            out[index] = kind.derivative(shifted[index], o[index]) / kind.curvature
        return out

    def learnt(self, x: Array, o: Array, weights: Array | None = None, workers: Workers | None = None) -> ByColumn:
        """The losses of all columns, with what those learn that have entries here."""
        kinds, shifted = list(self.whole.kinds), x + self.offsets
        for j in np.unique(self.cols):
            if kinds[j].learns:
                index = np.flatnonzero(self.cols == j)
                part = None if weights is None else weights[index]
                kinds[j] = kinds[j].learnt(shifted[index], o[index], part, workers)
        return replace(self.whole, kinds=tuple(kinds))
