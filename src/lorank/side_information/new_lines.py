"""Where features expect lines that are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.observations import Lines, Observations
from lorank.observations.identifiers import Identifiers
from lorank.side_information.encoding import (
    COUNTS,
    IMPLICIT,
    Encoding,
    FeatureTable,
    check_shared,
    in_order,
    table_of,
    table_of_counts,
)
from lorank.side_information.features import FeaturePrior, Features, who_rated_what
from lorank.types import Array


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """What a model keeps of the features of one side.

    Attributes
    ----------
    encodings : how features become f (q,), one for each table of them.
    lift : (q, p) or (q, r)
        A line with the features f is expected at f lift, its bias in the last column. Of a posterior it is f lift C_s
        in draw s, with the coefficients C_s (r, p) that the posterior has.
    gram : (k, k), optional
        W^T C^-1 W of the fit, which the regularizer saw; None of a posterior.
    """

    encodings: tuple[Encoding, ...]
    lift: Array
    gram: Array | None = None

    @classmethod
    def of_posterior(cls, features: Features) -> FeatureMap:
        return cls(features.encodings, features.lift())

    @classmethod
    def of_point(cls, features: Features, prior: FeaturePrior, factor: Array, gram: Array) -> FeatureMap:
        """For a factor (lines, p), its bias in the last column: B = V diag(g / s) U^T W."""
        coefficients = prior.gain[:, None] * prior.directions.project(factor)
        return cls(features.encodings, np.asarray(features.lift() @ coefficients, np.float64), gram)

    @property
    def explicit(self) -> tuple[Encoding, ...]:
        """Encodings of features that users give, which are not those of the entries themselves."""
        return tuple(encoding for encoding in self.encodings if encoding.kind not in (IMPLICIT, COUNTS))

    def coordinates(self, given: Sequence[Any], lines: Lines, ids: Identifiers | None) -> Array:
        """f lift of new lines with these entries: where they are expected, or their coordinates along U.

        given : one table, array or sparse matrix for each explicit encoding, or none, which leaves them at their mean.
        """
        count, wanted = lines.pointers.size - 1, iter(given)
        if given and len(given) != len(self.explicit):
            raise InputError(f"The model was fitted with {len(self.explicit)} tables of features; give as many.")
        total, at = np.zeros((count, self.lift.shape[1])), 0
        for encoding in self.encodings:
            part = self.lift[at : at + encoding.width]
            at += encoding.width
            if encoding.kind == IMPLICIT:
                total += who_rated_what(lines, encoding.width) @ part
            elif encoding.kind == COUNTS:
                total += encoding.encode(table_of_counts(np.diff(lines.pointers))) @ part
            elif given:
                total += _encoded(encoding, next(wanted), count, ids) @ part
        return total


def _encoded(encoding: Encoding, given: Any, count: int, ids: Identifiers | None) -> Any:
    """Features of new lines, by their ids if both have them."""
    given = table_of(given)
    matrix = encoding.encode(given)
    if isinstance(given, FeatureTable) and given.ids is not None and ids is not None:
        return in_order(matrix, given.ids, ids.values)
    if matrix.shape[0] != count:
        raise InputError(f"There are features of {matrix.shape[0]} new lines, and {count} new lines.")
    return matrix


def with_rows(observations: Observations, ids: Sequence[Array | None]) -> Observations:
    """The observations with rows more, without entries, for ids that only tables of features know."""
    if observations.row_ids is None:
        return observations
    values = observations.row_ids.values
    for named in ids:
        if named is not None:
            found = Identifiers(values).find(named)
            check_shared(values, named, found)
            longer = Identifiers.of([*values.tolist(), *np.unique(named[found < 0]).tolist()])
            values = values if longer is None else longer.values
    more = len(values) - len(observations.row_ids)
    if not more:
        return observations
    pointers = observations.by_row.pointers
    lines = replace(observations.by_row, pointers=np.concatenate([pointers, np.full(more, pointers[-1])]))
    m, n = observations.shape
    return Observations((m + more, n), lines, Identifiers(values), observations.col_ids)


def ids_of(given: Any) -> Array | None:
    """The ids of the lines of a table of features; None if it has none."""
    given = table_of(given)
    return given.ids if isinstance(given, FeatureTable) else None


def lines_of(given: Any) -> int:
    """How many lines a table, array or sparse matrix of features has."""
    given = table_of(given)
    return int(given.shape[0]) if hasattr(given, "shape") else len(given)
