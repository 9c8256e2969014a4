"""Graphs on rows or columns: a term gamma/2 tr(X^T L X) that is small where neighbours have similar rows.

With L = D - A it is gamma/4 sum_ij A_ij ||x_i - x_j||^2. For X = W H^T it is gamma/2 tr(W^T L W H^T H): no m x n array.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from lorank.errors import InputError
from lorank.observations.checks import unmasked
from lorank.observations.sparse import as_format
from lorank.regularizers.base import require
from lorank.side_information.coordinates import EARTH_RADIUS, check_coordinates, haversine
from lorank.types import Array

# Up to so many places every pair is joined, in a dense matrix; beyond, each place with its nearest neighbours.
DENSE_LIMIT = 2000
NEIGHBOURS = 10


@dataclass(frozen=True, eq=False)
class GraphLaplacian:
    """A graph on the rows or columns of X, whose neighbours should be similar.

        gamma/2 tr(X^T L X) = gamma/4 sum_ij A_ij ||x_i - x_j||^2,   L = D - A,   D = diag(sum_j A_ij)

    It is added to the objective; x_i are rows of X, or of X^T for a graph on the columns.

    Parameters
    ----------
    matrix : array or scipy sparse, (m, m)
        L, symmetric; D - A of a graph, or any other precision matrix that is positive semidefinite.
    weight : float
        gamma, finite and >= 0.

    References
    ----------
    Rao, Yu, Ravikumar, Dhillon, "Collaborative filtering with graph information", NeurIPS 2015.
    """

    matrix: Any
    weight: float = 1.0
    # Eigenvalues and -vectors of diag(fractions) + gamma L for the last fractions seen; see `modes`.
    _modes: dict[bytes, tuple[Array, Array]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        require(0 <= self.weight < np.inf, "graph weight", self.weight, "a finite number >= 0")
        object.__setattr__(self, "matrix", _symmetric(self.matrix, "A graph Laplacian"))
        if (self.matrix.diagonal() < 0).any():
            raise InputError("A graph Laplacian has no negative diagonal; this matrix has (is its sign turned?).")
        if (np.asarray(abs(self.matrix).sum(axis=0)).ravel()[self.matrix.diagonal() == 0] > 0).any():
            # Of a positive semidefinite matrix, a row with 0 on the diagonal is 0.
            raise InputError(
                "A graph Laplacian has sums of weights on its diagonal, and this matrix has zeros there: is it an "
                "adjacency? GraphLaplacian.from_adjacency takes one."
            )

    @classmethod
    def from_adjacency(cls, adjacency: Any, weight: float = 1.0) -> GraphLaplacian:
        """D - A of a graph: a scipy sparse matrix, an array, or a networkx graph; weights symmetric and >= 0."""
        if hasattr(adjacency, "adjacency") and hasattr(adjacency, "nodes"):
            import networkx

            adjacency = networkx.to_scipy_sparse_array(adjacency, dtype=np.float64, format="csr")
        A: Any = _symmetric(adjacency, "An adjacency")
        values = A.data if hasattr(A, "tocsr") else A
        if (values < 0).any():
            raise InputError("An adjacency has no negative weights: give similarities, not differences.")
        degree = np.asarray(A.sum(axis=0)).ravel()
        # A weight of a place with itself is in D and in A, and falls out.
        return cls((sp.diags_array(degree) - A).tocsr() if hasattr(A, "tocsr") else np.diag(degree) - A, weight)

    @classmethod
    def from_coordinates(
        cls,
        latitude: npt.ArrayLike,
        longitude: npt.ArrayLike,
        kernel: Literal["exponential", "gaussian"] = "exponential",
        rate: float = 2.0,
        neighbours: int | None = None,
        weight: float = 1.0,
    ) -> GraphLaplacian:
        """From places on the Earth: A_ij = exp(-rate b_ij), or exp(-rate b_ij^2), b the Haversine distance in 1000 km.

        Parameters
        ----------
        latitude, longitude : (m,), degrees.
        kernel, rate : the paper's are "exponential" and 2.
        neighbours : int, optional
            Join each place with so many nearest ones, in a sparse matrix. None joins all pairs up to 2,000 places, and
            10 nearest ones beyond.
        """
        if kernel not in ("exponential", "gaussian"):
            raise InputError(f"Unknown kernel {kernel!r} of a graph; there are exponential, gaussian.")
        require(0 < rate < np.inf, "rate", rate, "a finite number > 0")
        lat, lon = check_coordinates(latitude, longitude)
        power = 1 if kernel == "exponential" else 2
        if neighbours is None and lat.size <= DENSE_LIMIT:
            A: Any = np.exp(-rate * haversine(lat, lon) ** power)
            np.fill_diagonal(A, 0.0)
            return cls.from_adjacency(A, weight)
        from sklearn.neighbors import BallTree

        count = min(NEIGHBOURS if neighbours is None else neighbours, lat.size - 1)
        if count < 1:
            raise InputError(f"A graph of {lat.size} places cannot have {count} neighbours each; give at least 1.")
        places = np.radians(np.column_stack([lat, lon]))
        distance, nearest = BallTree(places, metric="haversine").query(places, count + 1)
        rows = np.repeat(np.arange(lat.size), count)
        similarity = np.exp(-rate * (EARTH_RADIUS * distance[:, 1:].ravel()) ** power)
        A = sp.csr_array((similarity, (rows, nearest[:, 1:].ravel())), shape=(lat.size, lat.size))
        return cls.from_adjacency(A.maximum(A.T), weight)

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return int(self.matrix.shape[0])

    @property
    def sparse(self) -> bool:
        return bool(sp.issparse(self.matrix))

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of L."""
        return np.asarray(self.matrix.diagonal())

    @cached_property
    def norm(self) -> float:
        """An upper bound of the largest eigenvalue of L: the largest absolute row sum."""
        return float(np.max(abs(self.matrix).sum(axis=0)))

    @cached_property
    def root(self) -> Any:
        """R (m, q) with R R^T = gamma L: an edge a column if L is sparse, else eigenvectors."""
        if not self.sparse:
            values, Q = scipy.linalg.eigh(self.weight * self.matrix)
            return Q * np.sqrt(np.maximum(values, 0.0))
        edges = sp.triu(self.matrix, 1).tocoo()
        own = self.diagonal - (abs(self.matrix).sum(axis=1) - self.diagonal)
        if own.min() < -1e-9 * self.norm:
            raise InputError("A sparse matrix that is not diagonally dominant has no root here; give it as an array.")
        size, sign = np.sqrt(abs(edges.data)), np.sign(edges.data)
        which = np.arange(edges.nnz)
        joined = sp.coo_array(
            (np.concatenate([size, sign * size]), (np.concatenate([edges.row, edges.col]), np.tile(which, 2))),
            shape=(self.size, edges.nnz),
        )
        return np.sqrt(self.weight) * sp.hstack([joined, sp.diags_array(np.sqrt(np.maximum(own, 0.0)))], format="csr")

    def dot(self, W: Array) -> Array:
        """gamma L W (m, k)."""
        return self.weight * (self.matrix @ W)

    def energy(self, W: Array, other_gram: Array) -> float:
        """gamma/2 tr(W^T L W H^T H), from W (m, k) and H^T H (k, k)."""
        W = W.astype(np.float64)
        return 0.5 * float(np.sum((W.T @ self.dot(W)) * other_gram))

    def plus(self, other: GraphLaplacian) -> GraphLaplacian:
        """Both graphs on the same lines: the sum of their terms."""
        if self.size != other.size:
            raise InputError(f"Two graphs on the same lines have {self.size} and {other.size} nodes.")
        total = self.weight * self.matrix + other.weight * other.matrix
        return GraphLaplacian(total if sp.issparse(total) else np.asarray(total))

    def scaled(self, factor: float) -> GraphLaplacian:
        """The same graph with so many times the weight."""
        return GraphLaplacian(self.matrix, self.weight * factor)

    def bind(self, fractions: Array) -> GraphLaplacian:
        """Itself, after a warning if some rows are joined to nothing that was observed.

        fractions : (m,), how much of each row was observed.
        """
        if self.size != fractions.size:
            raise InputError(f"The graph has {self.size} nodes, and the matrix {fractions.size} lines along it.")
        _, part = sp.csgraph.connected_components(sp.csr_array(self.matrix), directed=False)
        seen = np.zeros(part.max() + 1, bool)
        seen[part[fractions > 0]] = True
        lost = int(np.count_nonzero(~seen[part]))
        if lost:
            warnings.warn(
                f"{lost} rows lie in parts of the graph without any observation; they fall back to the mean "
                "(0 in the unit of the data that are fitted).",
                UserWarning,
                stacklevel=4,
            )
        return self

    def modes(self, fractions: Array) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of diag(fractions) + gamma L, a dense m x m matrix; kept for the next call.

        In single precision, which halves the time and is enough for a preconditioner.
        """
        key = fractions.tobytes()
        if key not in self._modes:
            self._modes.clear()
            self._modes[key] = scipy.linalg.eigh(
                (np.diag(fractions) + self.weight * self.matrix).astype(np.float32), overwrite_a=True, driver="evd"
            )
        return self._modes[key]


def _symmetric(matrix: Any, what: str) -> Any:
    """A square symmetric float64 matrix, dense or CSR; `what` names it in the error."""
    A: Any = as_format(matrix, "csr") if hasattr(matrix, "tocsr") else unmasked(matrix)
    A = A.astype(np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.shape[0] < 1:
        raise InputError(f"{what} must be a square matrix; this one has the shape {A.shape}.")
    values = A.data if hasattr(A, "tocsr") else A
    if not np.isfinite(values).all():
        raise InputError(f"{what} must be finite; this one holds NaN or infinity.")
    gap = float(abs(A - A.T).max())
    if gap > 1e-10 * max(float(abs(A).max()), 1e-300):
        raise InputError(f"{what} must be symmetric; this one differs from its transpose by up to {gap:.3g}.")
    return A
