"""Features of rows or columns: what is known of each line beside its entries, as a matrix F (lines, q).

They enter the prior of the factors of one side,

    w_i ~ N(mu + B^T f_i, Lambda^-1),   rows of B ~ N(0, (lb Lambda)^-1).

With F = U diag(s) V^T (thin), W - mu = M + noise with M = F B, and the rows of U^T M are independent a priori,
N(0, s^2 / lb Lambda^-1). So B can be integrated out, W - mu ~ N(0, C (x) Lambda^-1) with C = I + F F^T / lb, and all
that is needed is Z = U^T (W - mu):

    C^-1 = I - U diag(g) U^T,  g = s^2 / (s^2 + lb);      M | W: U (g Z + sqrt(g) E),  rows of E ~ N(0, Lambda^-1)

Directions with s^2 far below lb are shrunk to nothing (g is about s^2 / lb), so a truncated F is as good.

The point estimate is the same without noise. Factored regularizers are taken at deviations from what features expect,

    min over B of ||W - F B||^2 + lb ||B||^2 = tr(W^T C^-1 W),

so that they see W^T C^-1 W where they would see W^T W: with it they are those of C_rows^(-1/2) X C_cols^(-1/2).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from lorank import kernels
from lorank.errors import InputError
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers
from lorank.side_information.base import several
from lorank.side_information.encoding import (
    COUNTS,
    IMPLICIT,
    Encoding,
    FeatureTable,
    in_order,
    table_of,
    table_of_counts,
)
from lorank.types import Array

# All directions are kept if there are no more than DENSE; beyond, DIRECTIONS of them.
DENSE, DIRECTIONS = 500, 256
# lb where nothing chooses it.
RIDGE = 2.0
# Lines that are multiplied at a time: blocks do not depend on the number of threads, and so neither do the bits.
BLOCK = 1024
# Of the subspace iteration that finds the leading directions.
OVERSAMPLING, PASSES = 16, 2


@dataclass(frozen=True)
class Directions:
    """The singular vectors U (lines, r) of F, float32, and the squares s^2 (r,) of its singular values.

    `unknown` are the lines whose features nobody knows; there U is zero.
    """

    U: Array
    squares: Array
    unknown: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def mean_square(self) -> float:
        """The mean over lines whose features are known of the squared norm of what the directions have of them."""
        return float(self.squares.sum()) / max(len(self.U) - self.unknown.size, 1)

    @property
    def ones(self) -> Array:
        """U^T 1 (r,)."""
        return self.project(np.ones((len(self.U), 1)))[:, 0]

    def project(self, M: Array, workers: kernels.Workers | None = None) -> Array:
        """U^T M in float64."""
        return self._project(M, workers).astype(np.float64, copy=False)

    def _project(self, M: Array, workers: kernels.Workers | None) -> Array:
        """U^T M as the sum over blocks of lines, in the precision of U."""
        U, M = self.U, M.astype(self.U.dtype, copy=False)
        out = np.empty((-(-len(U) // BLOCK), U.shape[1], M.shape[1]), U.dtype)

        def blocks(first: int, end: int) -> None:
            for block in range(first, end):
                at = slice(block * BLOCK, (block + 1) * BLOCK)
                np.matmul(U[at].T, M[at], out=out[block])

        self._run(blocks, out.shape[0], M.shape[1], workers)
        return out[0] if len(out) == 1 else np.asarray(out.sum(axis=0))

    def smooth(self, M: Array, gain: Array, workers: kernels.Workers | None = None) -> Array:
        """U diag(gain) U^T M (lines, p)."""
        U = self.U
        Z = self._project(M, workers) * gain.astype(U.dtype)[:, None]
        out = np.empty((len(U), M.shape[1]), U.dtype)

        def blocks(first: int, end: int) -> None:
            for block in range(first, end):
                at = slice(block * BLOCK, (block + 1) * BLOCK)
                np.matmul(U[at], Z, out=out[at])

        self._run(blocks, -(-len(U) // BLOCK), M.shape[1], workers)
        return out

    def _run(self, blocks: Any, count: int, width: int, workers: kernels.Workers | None) -> None:
        if workers is None:
            blocks(0, count)
        else:
            workers.run_evenly(blocks, count, work_per_line=BLOCK * self.U.shape[1] * width)


@dataclass(frozen=True, eq=False)
class FeaturePrior:
    """Where features with the ridge lb expect the lines of a factor, given the lines: M = U diag(g) U^T W."""

    directions: Directions
    ridge: float
    workers: kernels.Workers | None = None

    @cached_property
    def gain(self) -> Array:
        """g (r,)."""
        return self.directions.squares / (self.directions.squares + self.ridge)

    def expected(self, W: Array) -> Array:
        """M (lines, p) of W (lines, p): F B with the best B."""
        return self.directions.smooth(W, self.gain, self.workers)

    def middle(self, a: Array) -> tuple[float, float]:
        """1^T C^-1 1 and 1^T C^-1 a / 1^T C^-1 1 of numbers a (lines,): how many they count for, and their mean."""
        ones = 1 - self.expected(np.ones((len(a), 1), a.dtype))[:, 0].astype(np.float64)
        return float(ones.sum()), float(ones @ a) / float(ones.sum())

    def explained(self, W: Array) -> Array:
        """W^T M = W^T W - W^T C^-1 W (p, p), in float64."""
        Z = self.directions.project(W, self.workers)
        return Z.T @ (self.gain[:, None] * Z)


@dataclass(frozen=True, eq=False)
class Features:
    """Features of rows or of columns, as they are used: dense or sparse (lines, q), rows of norm 1 on average.

    `of` makes them from what users have. `ridge` is lb, how strongly B is held at zero beside what lines have for
    themselves, for the methods that do not draw it; None leaves it to a search, or takes RIDGE. At 1 a line is expected
    to be as much by its features as by itself. Lines of which no feature is known are `unknown`, which is not the same
    as features that are zero: a line that nobody has rated yet may be liked by anybody.
    """

    matrix: Any
    ridge: float | None = None
    encodings: tuple[Encoding, ...] = ()
    unknown: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    _found: list[Directions] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, given: Any, ids: Identifiers | None = None) -> Features:
        """From an array, a sparse matrix or a DataFrame; sparse matrices are taken as they are, but for their norm.

        A DataFrame with an index is put in the order of `ids`, if the data has ids; a line whose id it does not know is
        zero, which is the mean.
        """
        if isinstance(given, Features):
            return given
        given = table_of(given)
        encoding, matrix = Encoding.learn(given)
        if ids is not None and isinstance(given, FeatureTable) and given.ids is not None:
            matrix = in_order(matrix, given.ids, ids.values)
        return cls(matrix, encodings=(encoding,))

    @classmethod
    def implicit(cls, observations: Observations, counts: bool = False) -> tuple[Features, Features]:
        """Who rated what, of rows and of columns: f_i has 1/sqrt(n_i) at the columns that row i has.

        With `counts` it also has functions of n_i itself (`table_of_counts`), for a prior that is drawn. (Point
        estimates were worse with them, by about 1% on ratings.)
        """
        found = []
        for lines, size in _sides(observations):
            n = np.diff(lines.pointers)
            matrix, encodings = who_rated_what(lines, size), [Encoding(IMPLICIT, size)]
            if counts:
                encoding, further = Encoding.learn(table_of_counts(n))
                matrix = sp.csr_array(sp.hstack([matrix, further], format="csr"))
                encodings.append(replace(encoding, kind=COUNTS))
            found.append(cls(matrix, encodings=tuple(encodings), unknown=np.flatnonzero(n == 0)))
        return found[0], found[1]

    @property
    def size(self) -> int:
        """Lines that it has features of."""
        return int(self.matrix.shape[0])

    def beside(self, other: Features) -> Features:
        """These features and others of the same lines, of which something is known then."""
        parts = (self.matrix, other.matrix)
        if self.size != other.size:
            raise InputError(f"Features of {self.size} lines do not go beside those of {other.size}.")
        matrix = sp.csr_array(sp.hstack(parts, format="csr")) if any(map(sp.issparse, parts)) else np.hstack(parts)
        ridge = self.ridge if other.ridge is None else other.ridge
        return Features(matrix, ridge, (*self.encodings, *other.encodings))

    def scaled(self, factor: float) -> Features:
        """Themselves: how much features count is learnt from the data."""
        return self

    def with_ridge(self, ridge: float | None) -> Features:
        """The same features with this ridge, unless they have one; what is known of their directions stays."""
        other = replace(self, ridge=ridge if self.ridge is None else self.ridge)
        object.__setattr__(other, "_found", self._found)
        return other

    def lift(self) -> Array:
        """(q, r): f lift are the coordinates along U of a line with the features f; V diag(1/s), F = U diag(s) V^T."""
        found = self.directions()
        return np.asarray(self.matrix.T @ found.U / found.squares, np.float32)

    def prior(self, dtype: npt.DTypeLike, workers: kernels.Workers | None = None) -> FeaturePrior:
        """What they expect of factors in this precision."""
        found = self.directions(workers)
        found = replace(found, U=found.U.astype(dtype, copy=False))
        return FeaturePrior(found, RIDGE if self.ridge is None else self.ridge, workers)

    def directions(self, workers: kernels.Workers | None = None) -> Directions:
        """The leading directions: all of them if there are at most DENSE. They are found once."""
        if not self._found:
            self._found.append(self._directions(workers))
        return self._found[0]

    def _directions(self, workers: kernels.Workers | None) -> Directions:
        F, size = self.matrix, min(self.matrix.shape)
        exact = size <= DENSE
        U, squares = _exact(F) if exact else _leading(F, DIRECTIONS, workers or kernels.Workers())
        keep = squares > 1e-7 * squares.max(initial=1e-300)
        U = np.ascontiguousarray(U[:, keep], np.float32)
        U[self.unknown] = 0
        return Directions(U, squares[keep], self.unknown)


def projected(U: Array, M: Array) -> Array:
    """U^T M of some lines, both in the precision of M."""
    return np.asarray(Directions(U.astype(M.dtype, copy=False), np.zeros(0)).project(M))


def features_of(side: Any) -> Features | None:
    """The features among what is known of one side."""
    return next((part for part in several(side) if isinstance(part, Features)), None)


def _sides(observations: Observations) -> tuple[tuple[Any, int], tuple[Any, int]]:
    m, n = observations.shape
    return (observations.by_row, n), (observations.by_col, m)


def who_rated_what(lines: Any, size: int) -> sp.csr_array:
    """1/sqrt(n_i) at the entries of line i (lines, size)."""
    counts = np.diff(lines.pointers)
    data = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
    return sp.csr_array((data, lines.indices, lines.pointers), shape=(counts.size, size))


def _exact(F: Any) -> tuple[Array, Array]:
    """U and s^2, descending, from the smaller of F F^T and F^T F."""
    wide = F.shape[0] <= F.shape[1]
    gram: Any = F @ F.T if wide else F.T @ F
    gram = gram.toarray() if hasattr(gram, "toarray") else np.asarray(gram)
    squares, vectors = scipy.linalg.eigh(gram.astype(np.float64), driver="evd", overwrite_a=True)
    squares, vectors = np.maximum(squares[::-1], 0), vectors[:, ::-1]
    if wide:
        return vectors, squares
    positive = squares > 1e-10 * max(squares[0], 1e-300)
    return (F @ vectors[:, positive]) / np.sqrt(squares[positive]), squares[positive]


def _leading(F: Any, r: int, workers: kernels.Workers) -> tuple[Array, Array]:
    """The r leading directions by subspace iteration from random vectors (seed fixed: the features are data)."""
    width = -(-(r + OVERSAMPLING) // kernels.LANES) * kernels.LANES
    forth, back = _product(F, workers), _product(F.T, workers)
    Q = np.random.default_rng(0).standard_normal((F.shape[1], width)).astype(np.float32)
    for _ in range(PASSES):
        Q = _near_orthogonal(back(forth(Q)))
    Y = forth(_near_orthogonal(Q))
    squares, rotation = np.linalg.eigh((Y.T @ Y).astype(np.float64))
    squares, rotation = squares[::-1][:r], rotation[:, ::-1][:, :r]
    return (Y @ rotation.astype(np.float32)) / np.sqrt(np.maximum(squares, 1e-30)).astype(np.float32), squares


def _near_orthogonal(Y: Array) -> Array:
    """Y L^-T with Y^T Y = L L^T but for a little ridge."""
    root = near_triangle(np.asarray(Y.T @ Y.astype(np.float64))).astype(np.float32)
    return np.ascontiguousarray(scipy.linalg.solve_triangular(root, Y.T, lower=True).T)


def near_triangle(gram: Array) -> Array:
    """L with L L^T = gram but for a little ridge: where F has fewer directions than asked for.

    In double precision, since rounding must stay below the ridge.
    """
    gram = gram.astype(np.float64)
    gram[np.diag_indices(len(gram))] += 1e-6 * np.trace(gram) / len(gram)
    return np.linalg.cholesky(gram)


def _product(F: Any, workers: kernels.Workers) -> Any:
    """Q -> F Q in float32; by the line kernels if F is sparse."""
    if not sp.issparse(F):
        return lambda Q: np.asarray(F, np.float32) @ Q
    F = sp.csr_array(cast(Any, F))
    pointers, indices, values = F.indptr.astype(np.int64), F.indices.astype(np.int32), F.data.astype(np.float32)

    def product(Q: Array) -> Array:
        out: Array = kernels.aligned_zeros((F.shape[0], Q.shape[1]), np.float32)
        args = (pointers, indices, values, Q, out)
        workers.run(kernels.multiply_lines, pointers, *args, work_per_entry=Q.shape[1])
        return out

    return product
