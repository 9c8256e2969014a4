"""Observed entries of a matrix: values and where they are.

`Observations` keeps every observed value twice, by rows and by columns, with its position. A stored zero is an observed
zero, NaN is missing, and a cell that is given twice is an error. Everything that lorank fits is turned into
this first, by `observe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lorank import kernels
from lorank.errors import DuplicateError, InputError, printable
from lorank.observations import checks
from lorank.observations.dataframes import read_columns, read_wide
from lorank.observations.identifiers import Identifiers
from lorank.observations.lines import Lines
from lorank.observations.sparse import as_format
from lorank.observations.weights import checked_weights, weights_of_entries
from lorank.types import Array


class Observations:
    """The observed entries of an m x n matrix.

    Parameters
    ----------
    shape : (m, n)
    by_row : Lines
        The m rows, columns ascending in each. Use `from_coo` and the other constructors rather than this. They are
        checked (`lorank.observations.checks`), but for entries that are kept in files, which are checked there.
    row_ids, col_ids : Identifiers, optional
        What the user calls the rows and columns; without them they are called by position.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        by_row: Lines,
        row_ids: Identifiers | None = None,
        col_ids: Identifiers | None = None,
    ) -> None:
        if all(isinstance(part, np.ndarray) for part in (by_row.pointers, by_row.indices, by_row.values)):
            checks.check_lines(by_row.pointers, by_row.indices, by_row.values, shape, by_row.weights)
        self.shape = shape
        self.by_row = by_row
        self.row_ids = row_ids
        self.col_ids = col_ids

    @classmethod
    def from_coo(
        cls,
        rows: npt.ArrayLike,
        cols: npt.ArrayLike,
        values: npt.ArrayLike,
        shape: tuple[int, int] | None = None,
        row_ids: Sequence[Any] | Array | Identifiers | None = None,
        col_ids: Sequence[Any] | Array | Identifiers | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> Observations:
        """From triplets: integer positions and values, in any order. NaN values are taken as missing.

        An entry of weight c counts as if it were there c times; one of weight 0 is not observed.
        """
        rows, cols, values = checks.same_shape(
            [checks.positions(rows, "row"), checks.positions(cols, "column"), checks.numbers(values)]
        )
        weights = checked_weights(weights, values)
        missing = np.isnan(values) if weights is None else np.isnan(values) | (weights == 0)
        if missing.any():
            rows, cols, values = rows[~missing], cols[~missing], values[~missing]
            weights = None if weights is None else weights[~missing]
        if shape is None:
            shape = (
                len(row_ids) if row_ids is not None else int(rows.max(initial=-1)) + 1,
                len(col_ids) if col_ids is not None else int(cols.max(initial=-1)) + 1,
            )
        shape = checks.two_numbers(shape)
        checks.check_bounds(rows, shape[0], "row")
        checks.check_bounds(cols, shape[1], "column")
        checks.check_shape(shape)
        checks.check_finite(values)
        index_type = checks.index_type(shape)
        pointers = np.zeros(shape[0] + 1, np.int64)
        if kernels.count_if_sorted(rows, cols, pointers):
            # Row-major already, as from a CSR matrix: nothing to sort, and no pair twice.
            lines = Lines(pointers, cols.astype(index_type), values.copy(), weights)
            return cls(shape, lines, Identifiers.of(row_ids), Identifiers.of(col_ids))
        moved = []
        for numbers in (values, weights):
            if numbers is not None:
                pointers, indices = np.zeros(shape[1] + 1, np.int64), np.empty(values.size, index_type)
                moved.append(np.empty_like(numbers))
                kernels.compress(cols, rows, numbers, pointers, indices, moved[-1])
        by_row = Lines(pointers, indices, *moved).transposed(shape[0])
        ids = Identifiers.of(row_ids), Identifiers.of(col_ids)
        twice = kernels.first_duplicate(by_row.pointers, by_row.indices)
        if twice >= 0:
            pair = int(np.searchsorted(by_row.pointers, twice, side="right")) - 1, int(by_row.indices[twice])
            row, col = (at if own is None else own.values[at] for at, own in zip(pair, ids))
            raise DuplicateError(
                f"The entry {printable(f'({row}, {col})')} is given more than once; keep one value for each pair."
            )
        return cls(shape, by_row, *ids)

    @classmethod
    def from_sparse(cls, X: Any, weights: Any = None) -> Observations:
        """From a scipy sparse matrix or array of any format; every stored entry is observed, zeros too.

        weights: a sparse matrix that stores the same entries, or a number for each in the order of `X.tocoo()`.
        """
        coo = as_format(X, "coo")
        if sp.issparse(weights):
            weights = weights_of_entries(weights, coo)
        return cls.from_coo(coo.row, coo.col, coo.data, coo.shape, weights=weights)

    @classmethod
    def from_dense(
        cls, X: npt.ArrayLike, row_ids: Any = None, col_ids: Any = None, weights: npt.ArrayLike | None = None
    ) -> Observations:
        """From a two-dimensional array in which NaN is missing; weights are another of its shape."""
        X = checks.unmasked(X)
        if X.ndim != 2:
            raise InputError(f"A matrix needs two dimensions; this array has {X.ndim}.")
        X = checks.numbers(X)
        checks.check_shape(X.shape)
        seen = ~np.isnan(X)
        if weights is not None:
            weights = np.asarray(weights)
            if weights.shape != X.shape:
                raise InputError(f"Weights of a matrix of shape {X.shape} have the same shape, not {weights.shape}.")
            kept = checked_weights(weights[seen], X[seen])
            if kept is not None and (kept == 0).any():
                seen[seen] = kept > 0
            weights = None if kept is None else kept[kept > 0]
        checks.check_finite(X[seen])
        index_type = checks.index_type(X.shape)
        pointers = np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64)
        lines = Lines(pointers, np.nonzero(seen)[1].astype(index_type), X[seen], weights)
        return cls((X.shape[0], X.shape[1]), lines, Identifiers.of(row_ids), Identifiers.of(col_ids))

    @classmethod
    def from_frame(cls, frame: Any, weights: Any = None) -> Observations:
        """From a wide DataFrame (pandas, polars, ...): its cells are the matrix, its column names the column ids.

        Weights are an array or a frame of the same shape.
        """
        values, row_ids, col_ids = read_wide(frame)
        return cls.from_dense(values, row_ids, col_ids, weights)

    @classmethod
    def from_table(cls, table: Any, row: str, col: str, value: str, weight: str | None = None) -> Observations:
        """From a long table with a row id, a column id, a value and perhaps a weight on each line.

        Ids are anything hashable.
        """
        row_names, col_names, values, *weights = read_columns(table, row, col, value, weight)
        return cls.from_ids(row_names, col_names, values, *weights)

    @classmethod
    def from_ids(
        cls,
        rows: npt.ArrayLike,
        cols: npt.ArrayLike,
        values: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
    ) -> Observations:
        """From triplets whose rows and columns are ids of any hashable type."""
        if any(np.ndim(part) > 1 for part in (rows, cols, values) if isinstance(part, np.ndarray)):
            rows, cols, values = checks.same_shape([np.asarray(rows), np.asarray(cols), checks.numbers(values)])
        row_ids, row_positions = Identifiers.number(rows)
        col_ids, col_positions = Identifiers.number(cols)
        shape = (len(row_ids), len(col_ids))
        return cls.from_coo(row_positions, col_positions, values, shape, row_ids, col_ids, weights)

    @cached_property
    def by_col(self) -> Lines:
        """The n columns, rows ascending in each."""
        return self.by_row.transposed(self.shape[1])

    @cached_property
    def by_col_order(self) -> Array:
        """Positions that take row-major values to column-major ones."""
        order = np.arange(self.nnz, dtype=np.int32 if self.nnz <= np.iinfo(np.int32).max else np.int64)
        return Lines(self.by_row.pointers, self.by_row.indices, order).transposed(self.shape[1]).values

    @cached_property
    def rows(self) -> Array:
        """Row of each entry, row-major."""
        return self.by_row.expanded

    @property
    def cols(self) -> Array:
        """Column of each entry, row-major."""
        return self.by_row.indices

    @property
    def values(self) -> Array:
        """Value of each entry, row-major."""
        return self.by_row.values

    @property
    def weights(self) -> Array | None:
        """Weight of each entry, row-major; None where all are 1."""
        return self.by_row.weights

    @cached_property
    def mean(self) -> float:
        """Mean of the values, weighted where there are weights."""
        if self.weights is None:
            return float(self.values.mean(dtype=np.float64))
        return float(np.average(self.values.astype(np.float64), weights=self.weights))

    @property
    def nnz(self) -> int:
        """Number of observed entries."""
        return int(self.by_row.values.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.by_row.values.dtype

    def astype(self, dtype: npt.DTypeLike) -> Observations:
        """The same observations in another precision; itself if it is that already."""
        if self.dtype == np.dtype(dtype):
            return self
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
            return self.with_values(self.values.astype(dtype))

    def to_fit(self) -> Observations:
        """Itself, unless it cannot be computed with: the square of its largest value overflows, or is nothing."""
        at = checks.extreme(self.values)
        if at >= 0:
            row, col = self.name_of_row(int(self.rows[at])), self.name_of_col(int(self.cols[at]))
            size = abs(float(self.values[at]))
            number = f", {size:.3g} in size," if np.isfinite(size) else ","  # infinite is what float32 could not hold
            raise InputError(f"The largest value, at ({row}, {col}){number} {checks.extremity(size, self.dtype)}")
        return self

    def with_values(self, values: Array) -> Observations:
        """Other values (row-major) at the same positions, with the same weights."""
        weights = None if self.weights is None else self.weights.astype(values.dtype, copy=False)
        lines = Lines(self.by_row.pointers, self.by_row.indices, np.ascontiguousarray(values), weights)
        return Observations(self.shape, lines, self.row_ids, self.col_ids)

    def with_weights(self, weights: npt.ArrayLike | None) -> Observations:
        """The same entries with these weights (row-major); None for weights of 1. Those of weight 0 are left out."""
        checked = checked_weights(weights, self.values)
        lines = Lines(*self.by_row.arrays[:3], checked)
        weighted = Observations(self.shape, lines, self.row_ids, self.col_ids)
        return weighted if checked is None or checked.all() else weighted.subset(checked > 0)

    def subset(self, chosen: Array) -> Observations:
        """The entries that a boolean mask (row-major) chooses, in a matrix of the same shape and names."""
        counted = np.concatenate([[0], np.cumsum(chosen)])
        weights = None if self.weights is None else self.weights[chosen]
        lines = Lines(counted[self.by_row.pointers].astype(np.int64), self.cols[chosen], self.values[chosen], weights)
        return Observations(self.shape, lines, self.row_ids, self.col_ids)

    def split(self, fraction: float, seed: int | None = 0) -> tuple[Observations, Observations]:
        """Two parts at random: the rest, and a held-out fraction of the entries."""
        if not 0 < fraction < 1:
            raise InputError(f"A held-out fraction lies between 0 and 1; got {fraction}.")
        count = min(max(1, round(fraction * self.nnz)), self.nnz - 1)
        if count < 1:
            raise InputError(f"{self.nnz} observed entries cannot be split in two.")
        held_out = np.zeros(self.nnz, bool)
        held_out[np.random.default_rng(seed).permutation(self.nnz)[:count]] = True
        return self.subset(~held_out), self.subset(held_out)

    def aligned_to(self, other: Observations) -> Observations:
        """The same observations in the rows and columns of another matrix, matched by id where there are ids."""
        if other.row_ids is None or other.col_ids is None or self.row_ids is None or self.col_ids is None:
            if self.shape != other.shape:
                raise InputError(
                    f"These observations are of a {self.shape[0]} x {self.shape[1]} matrix; "
                    f"{other.shape[0]} x {other.shape[1]} is needed."
                )
            return self
        rows = other.row_ids.positions(self.row_ids.values, "row")
        cols = other.col_ids.positions(self.col_ids.values, "column")
        placed = rows[self.rows], cols[self.cols], self.values
        return Observations.from_coo(*placed, other.shape, other.row_ids, other.col_ids, self.weights)

    def transposed(self) -> Observations:
        """The same observations of the transposed matrix."""
        return Observations((self.shape[1], self.shape[0]), self.by_col, self.col_ids, self.row_ids)

    def to_sparse(self) -> sp.csr_array:
        """As a scipy CSR array; observed zeros are stored zeros."""
        return sp.csr_array((self.values, self.by_row.indices, self.by_row.pointers), shape=self.shape)

    def name_of_row(self, position: int) -> Any:
        """What the user calls this row."""
        return position if self.row_ids is None else self.row_ids.values[position]

    def name_of_col(self, position: int) -> Any:
        """What the user calls this column."""
        return position if self.col_ids is None else self.col_ids.values[position]

    def __repr__(self) -> str:
        m, n = self.shape
        weighted = "" if self.weights is None else ", weighted"
        return f"Observations({m} x {n}, {self.nnz} entries, {self.dtype}{weighted})"
