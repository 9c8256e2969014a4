"""Features of a folder's rows and columns: their directions in shards, and point estimates that are expected by them.

What features expect of a factor is M = U diag(g) U^T W (`lorank.side_information.features`). Z = U^T W (r, p) is a sum
over the parts. The driver has it beside the Grams, and what goes to the owners is a matrix (r, p) by which each of them
knows where its lines are expected. The arithmetic is that of `FeaturePrior`, but for the order of these sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lorank.distributed.directions import ShardDirections, lift_of, who_rated_what
from lorank.distributed.drag import Drag
from lorank.distributed.factor_shards import FactorShards
from lorank.distributed.feature_tables import SideFeatures
from lorank.distributed.parts import COLS, ROWS
from lorank.distributed.problem import SIDES, FolderProblem, Known
from lorank.distributed.sampling import lines_at
from lorank.linalg import Factors
from lorank.problems.offsets import Offsets
from lorank.side_information.encoding import IMPLICIT, Encoding
from lorank.side_information.features import RIDGE
from lorank.side_information.new_lines import FeatureMap
from lorank.solvers import Result
from lorank.types import Array

Maps = tuple[FeatureMap | None, FeatureMap | None]


@dataclass(frozen=True)
class FolderData:
    """The entries of a folder in an engine, and what is known of their lines: tables of rows and of columns, and who
    rated what.

    plain : a problem of these entries, whatever its rank and regularizer. Directions are found once, when they are
    first asked for.
    """

    plain: FolderProblem
    tables: Sequence[SideFeatures | None] = (None, None)

    def near(self, variances: Offsets | None) -> FolderData:
        """The same, with variances that those of its offsets are near."""
        return replace(self, plain=replace(self.plain, near=variances))

    @cached_property
    def of_tables(self) -> Known:
        """Directions of the tables, of sides that have one."""
        rows, cols = (
            None if table is None else table.directions(self.plain.engine, side)
            for table, side in zip(self.tables, (ROWS, COLS))
        )
        return rows, cols

    @cached_property
    def with_who_rated_what(self) -> Known:
        """Directions of who rated what, beside tables where there are any."""
        return who_rated_what(self.plain.engine, self.plain.observations.shape, self.of_tables)

    def known(self, features: str | None) -> Known:
        """Directions of all features, who rated what among them if these are "implicit"."""
        return self.with_who_rated_what if features else self.of_tables

    def maps(self, problem: FolderProblem, result: Result) -> Maps:
        """What a fitted model keeps of features, by which lines are folded in."""
        found: list[FeatureMap | None] = []
        for table, transposed in zip(self.tables, (False, True)):
            known = problem.known[transposed]
            if known is not None and known.numbers is not None:
                found.append(self._map_with_who_rated_what(table, known, transposed))
            elif table is None:
                found.append(None)
            elif isinstance(problem, FeaturedFolderProblem):
                factors = result.factors.transposed() if transposed else result.factors
                lift = table.features.lift() @ problem.coefficients(factors.left, transposed)
                gram = problem.prior_gram(factors, transposed)
                found.append(FeatureMap(table.features.encodings, np.asarray(lift, np.float64), gram))
            else:
                found.append(FeatureMap.of_posterior(table.features))
        return found[0], found[1]

    def _map_with_who_rated_what(
        self, table: SideFeatures | None, known: ShardDirections, transposed: bool
    ) -> FeatureMap | None:
        """The same with what new lines have rated; None if that is too large."""
        engine, shape = self.plain.engine, self.plain.observations.shape
        lift = lift_of(engine, SIDES[transposed], shape, known)
        if lift is None or known.numbers is None:
            return None
        encodings = Encoding(IMPLICIT, shape[not transposed]), known.numbers
        if table is None:
            return FeatureMap(encodings, lift)
        U = lines_at(known.U, table.positions)[:, : known.squares.size]
        own = np.asarray(table.features.matrix.T @ U / known.squares, np.float32)
        return FeatureMap((*table.features.encodings, *encodings), np.vstack([own, lift]))


@dataclass(frozen=True)
class FeaturedFolderProblem(FolderProblem):
    """A problem whose regularizer is taken at deviations from what features with the ridge lb expect."""

    feature_ridge: float | None = field(default=None, kw_only=True)

    def gain(self, known: ShardDirections) -> Array:
        """g (r,)."""
        return known.squares / (known.squares + (RIDGE if self.feature_ridge is None else self.feature_ridge))

    def coefficients(self, factor: Any, transposed: bool) -> Array:
        """C = diag(g) U^T W (r, p) of a side with features: line i is expected at u_i C."""
        known = self.known[transposed]
        assert known is not None
        return self.gain(known)[:, None] * self._projection(factor, known)

    def drag(self, left: FactorShards, full: Array, pull: Array | None, transposed: bool) -> Drag:
        drag, known = super().drag(left, full, pull, transposed), self.known[transposed]
        if known is None:
            return drag
        C = self.coefficients(left, transposed)
        E = C @ full
        if drag.pull is not None:
            E[:, : left.k] -= C[:, : left.k] @ drag.pull
        U: Any = known.U
        return Drag(drag.own, drag.pull, U, E)

    def prior_gram(self, factors: Factors, transposed: bool = False) -> Array:
        gram, k = super().prior_gram(factors, transposed), factors.k
        return gram - self._explained(factors.left, transposed)[:k, :k]

    def own_square(self, bias: Any, transposed: bool) -> float:
        return super().own_square(bias, transposed) - float(self._explained(bias, transposed)[-1, -1])

    def _middle(self, bias: Any, transposed: bool) -> tuple[float, float]:
        known = self.known[transposed]
        if known is None:
            return super()._middle(bias, transposed)
        g = self.gain(known)
        count = len(bias) - float(g @ known.ones**2)
        return count, (bias.bias_sums[0] - float((g * known.ones) @ self._projection(bias, known)[:, -1])) / count

    def _projection(self, factor: Any, known: ShardDirections) -> Array:
        """U^T W (r, p), with the biases in the last column."""
        U: Any = known.U
        return self.engine.projection(factor, U, known.squares.size)[:, : factor.k + self.biased]

    def _explained(self, factor: Any, transposed: bool) -> Array:
        """W^T M (p, p); nothing without features."""
        known = self.known[transposed]
        if known is None:
            return np.zeros((factor.k, factor.k))
        Z = self._projection(factor, known)
        return Z.T @ (self.gain(known)[:, None] * Z)
