"""How tables of features become numbers, learnt once so that lines that come later are encoded in the same way.

Columns of numbers have their mean taken off and are divided by their standard deviation, NaN being the mean. Columns of
text or categories become one column for each category. Lines have norm 1 on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lorank.errors import InputError
from lorank.observations.checks import unmasked
from lorank.observations.dataframes import read_features
from lorank.observations.identifiers import Identifiers
from lorank.observations.sparse import as_format
from lorank.types import Array

# Beyond this part of numbers that are not zero a matrix is kept dense.
FILLED = 0.2
TABLE, ARRAY, SPARSE = "table", "array", "sparse"
# What the entries themselves say of their lines: who rated what, and how many entries there are.
IMPLICIT, COUNTS = "implicit", "counts"


@dataclass(frozen=True)
class FeatureTable:
    """Columns by name, floats (NaN unknown) or text, and the ids of the lines; None where they go by position."""

    columns: Mapping[str, Array]
    ids: Array | None = None

    @classmethod
    def of(cls, frame: Any) -> FeatureTable:
        """From a DataFrame. Its index holds ids, unless it only counts lines, as that of pandas does by default."""
        names, columns, index = read_features(frame)
        return cls(dict(zip(names, columns)), index)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


@dataclass(frozen=True)
class Column:
    """Numbers less their mean by their deviation, or, of categories, 1 in the column of the category."""

    name: str
    mean: float = 0.0
    deviation: float = 1.0
    categories: tuple[str, ...] | None = None

    @classmethod
    def of(cls, name: str, values: Array) -> Column:
        if values.dtype.kind not in "biuf":
            return cls(name, categories=tuple(sorted(set(map(str, values.tolist())))))
        numbers = _finite(values)
        seen = numbers[~np.isnan(numbers)]
        deviation = float(seen.std()) if seen.size else 0.0
        return cls(name, float(seen.mean()) if seen.size else 0.0, deviation if deviation > 0 else 1.0)

    def encode(self, values: Array) -> sp.csr_array:
        """(lines, 1 or categories); a category that is not known is none of them."""
        lines = np.arange(len(values))
        if self.categories is None:
            if values.dtype.kind not in "biuf":
                raise InputError(f"The feature {self.name!r} is a number where the model was fitted, and text here.")
            numbers = (_finite(values) - self.mean) / self.deviation
            return sp.csr_array(np.nan_to_num(numbers, nan=0.0)[:, None])
        # Texts one by one: numpy's would take as much room for each as for the longest.
        known = {category: code for code, category in enumerate(self.categories)}
        codes = np.array([known.get(str(name), -1) for name in values.tolist()], np.int64)
        found = codes >= 0
        entries = (np.ones(int(found.sum())), (lines[found], codes[found]))
        return sp.csr_array(entries, shape=(lines.size, len(known)))


@dataclass(frozen=True)
class Encoding:
    """How one table, array or sparse matrix of features becomes a matrix (lines, width), divided by `scale`.

    Who rated what (kind "implicit") is encoded where the entries are; see `Features.implicit`. Numbers of entries (kind
    "counts") are a table of their own; see `table_of_counts`.
    """

    kind: str
    width: int
    scale: float = 1.0
    columns: tuple[Column, ...] = ()

    @classmethod
    def learn(cls, given: Any) -> tuple[Encoding, Any]:
        """The encoding of a FeatureTable, an array or a sparse matrix, and what it makes of it."""
        if sp.issparse(given):
            matrix = _sparse(given)
            encoding = cls(SPARSE, int(matrix.shape[1]))
        else:
            kind = TABLE if isinstance(given, FeatureTable) else ARRAY
            columns = given.columns if isinstance(given, FeatureTable) else _numbered(given)
            if not columns:
                raise InputError("Features need at least one column; there is none.")
            own = tuple(Column.of(name, values) for name, values in columns.items())
            matrix = _joined(own, columns)
            encoding = cls(kind, int(matrix.shape[1]), columns=own)
        squares = matrix.data**2 if sp.issparse(matrix) else matrix**2
        norm = float(np.sqrt(squares.sum() / max(matrix.shape[0], 1))) or 1.0
        return cls(encoding.kind, encoding.width, norm, encoding.columns), matrix / norm

    def encode(self, given: Any) -> Any:
        """Features of other lines, given as those that it was learnt from."""
        if self.kind == SPARSE:
            matrix = _sparse(given) if sp.issparse(given) else sp.csr_array(np.atleast_2d(np.asarray(given, float)))
            if matrix.shape[1] != self.width:
                raise InputError(f"The model knows {self.width} features; {matrix.shape[1]} are given.")
            return matrix / self.scale
        columns = given.columns if isinstance(given, FeatureTable) else _numbered(given)
        if self.kind == ARRAY and len(columns) != len(self.columns):
            raise InputError(f"The model knows {len(self.columns)} features; {len(columns)} are given.")
        if self.kind == ARRAY:
            columns = {own.name: values for own, values in zip(self.columns, columns.values())}
        lacking = [own.name for own in self.columns if own.name not in columns]
        if lacking:
            raise InputError(f"The features lack {', '.join(map(repr, lacking))}, which the model was fitted with.")
        return _joined(self.columns, columns) / self.scale

    def plain(self) -> dict[str, Any]:
        """As JSON knows it."""
        return asdict(self)

    @classmethod
    def from_plain(cls, about: Mapping[str, Any]) -> Encoding:
        """The encoding that `plain` wrote down, checked."""
        columns = tuple(
            Column(
                str(own["name"]),
                float(own["mean"]),
                float(own["deviation"]),
                None if own["categories"] is None else tuple(map(str, own["categories"])),
            )
            for own in about["columns"]
        )
        encoding = cls(str(about["kind"]), int(about["width"]), float(about["scale"]), columns)
        width = sum(1 if own.categories is None else len(own.categories) for own in columns)
        if (columns and width != encoding.width) or not encoding.scale > 0:
            raise ValueError("its features do not go with their columns")
        return encoding


def table_of(given: Any) -> Any:
    """A DataFrame as a FeatureTable; anything else as it is."""
    return FeatureTable.of(given) if hasattr(given, "columns") and not isinstance(given, FeatureTable) else given


def table_of_counts(counts: Array) -> FeatureTable:
    """How many entries lines have, as features: log n and 1/sqrt(n), unknown for lines without any.

    What many have rated is rated differently from what few have. The two tell apart the many and the few.
    """
    n = np.where(counts > 0, counts, np.nan)
    return FeatureTable({"log of entries": np.log(n), "1 / square root of entries": n**-0.5})


def check_shared(wanted: Array, known: Array, found: Array) -> None:
    """Refuse ids of features of which none is among those of the data (`found` are positions, -1 where unknown)."""
    if found.size and wanted.size and (found < 0).all():
        first, other = (ids[:1].tolist()[0] for ids in (known, wanted))
        raise InputError(
            f"No id of the data is among those of the features, which begin with {first!r}; the data's begin with "
            f"{other!r}."
        )


def in_order(matrix: Any, ids: Array, wanted: Array) -> Any:
    """Lines of a matrix by the ids of its lines, in the order of other ids; those that are not there are zero."""
    known = Identifiers(np.asarray(ids))
    if not len(known):
        raise InputError("There are no lines in the table of features.")
    at = known.find(wanted)
    check_shared(wanted, known.values, at)
    there = np.flatnonzero(at >= 0)
    chosen = sp.csr_array((np.ones(there.size), (there, at[there])), shape=(at.size, matrix.shape[0]))
    return chosen @ matrix


def _numbered(given: Any) -> dict[str, Array]:
    array = unmasked(given)
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
        raise InputError(
            "Features are a matrix of numbers (lines, features), a sparse one, or a DataFrame; "
            f"got an array of {array.dtype} with {array.ndim} dimensions."
        )
    return {str(number): column for number, column in enumerate(array.reshape(len(array), -1).T)}


def _joined(own: tuple[Column, ...], columns: Mapping[str, Array]) -> Any:
    """Encoded columns side by side; sparse if they are mostly zero."""
    matrix = sp.hstack([column.encode(np.asarray(columns[column.name])) for column in own], format="csr")
    return matrix.toarray() if matrix.nnz > FILLED * np.prod(matrix.shape) else sp.csr_array(matrix)


def _sparse(given: Any) -> sp.csr_array:
    matrix = as_format(given, "csr").astype(np.float64)
    if not np.isfinite(matrix.data).all():
        raise InputError("Features must be finite; a sparse matrix of them holds NaN or infinity.")
    return matrix


def _finite(values: Array) -> Array:
    numbers = values.astype(np.float64)
    if np.isinf(numbers).any():
        raise InputError("Features must be finite numbers, or NaN where one is not known; got infinity.")
    return numbers
