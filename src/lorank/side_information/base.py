"""The three kinds of side information about rows or columns, by what solvers ask of them.

One with `energy` is a term that is added to the objective: it is smooth, and its gradient by X is
`dot(X)`. One with `covariance` changes variables, W = C U, and the regularizer is taken at U.
One with `directions` says where the prior of the factors has its mean (`features`).
"""

from __future__ import annotations

from typing import Any, Protocol

from lorank.types import Array


class Added(Protocol):
    """gamma/2 tr(X^T L X), added to the objective."""

    @property
    def weight(self) -> float:
        """gamma."""

    @property
    def norm(self) -> float:
        """At least the largest eigenvalue of L."""

    @property
    def diagonal(self) -> Array:
        """That of L (m,)."""

    @property
    def sparse(self) -> bool:
        """Whether m x m arrays, such as `modes`, are too much."""

    @property
    def root(self) -> Any:
        """R (m, q) with R R^T = gamma L."""

    def dot(self, W: Array) -> Array:
        """gamma L W (m, k)."""

    def energy(self, W: Array, other_gram: Array) -> float:
        """gamma/2 tr(W^T L W H^T H) from W (m, k) and H^T H (k, k)."""

    def modes(self, fractions: Array) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of diag(fractions) + gamma L."""


class Whitened(Protocol):
    """W = C U on the observed rows, with C^T diag(share) C = diag(values)."""

    @property
    def observed(self) -> Array:
        """Positions of the observed rows (s,)."""

    @property
    def root(self) -> Array:
        """C (s, p)."""

    @property
    def values(self) -> Array:
        """(p,)"""

    def latent(self, W: Array) -> Array:
        """U (p, k) of W (m, k)."""

    def expand(self, U: Array) -> Array:
        """W (m, k) of U (p, k), unobserved rows included."""

    def gram(self, W: Array) -> Array:
        """U^T U (k, k)."""


def several(given: Any) -> tuple[Any, ...]:
    """Side information of one side as a tuple: none, one, or several in a list or tuple, which is no matrix itself."""
    if given is None:
        return ()
    kinds = ("shape", "columns", "scaled")
    whole = isinstance(given, (list, tuple)) and all(suits(part, kinds) for part in given)
    return tuple(given) if whole else (given,)


def suits(side: Any, abilities: tuple[str, ...]) -> bool:
    """Whether features, a graph or a prior can do at least one of these, by the names of its methods."""
    return any(hasattr(side, name) for name in abilities)
