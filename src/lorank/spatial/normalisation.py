"""Ways to bring the series of many places to a common scale, by name; each can be undone.

Every one of them writes an entry of row i (a place) and column j (a time) as

    x_ij = sum_t basis_jt coefficients_it + level_j + row_scale_i col_scale_j z_ij

and hands on z. What they differ in is which of these parts are fitted:

- "none": nothing.
- "zscore": one mean and one standard deviation, of all entries.
- "zscore-rows": a mean and a standard deviation of each row; "zscore-columns": of each column.
- "anomalies": twelve month means of each row, and the standard deviation of what is left of it.
- "anomalies-trend": the same with a linear trend of each row, all in one least-squares fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.types import Array

NAMES = ("none", "zscore", "zscore-rows", "zscore-columns", "anomalies", "anomalies-trend")


@dataclass(frozen=True)
class Normalisation:
    """A fitted normalisation of an m x n matrix; see the module's formula.

    Attributes
    ----------
    basis : (n, q);  coefficients : (m, q)
    row_scale : (m,);  level, col_scale : (n,)
    determined : (m,) bool
        Rows whose own entries sufficed to fit their coefficients and scale. The others hold the mean of these until
        better values are put in by `with_rows`.
    """

    basis: Array
    coefficients: Array
    row_scale: Array
    level: Array
    col_scale: Array
    determined: Array

    @classmethod
    def fit(
        cls, values: Array, name: str, time: npt.ArrayLike | None = None, plain_deviation: bool = False
    ) -> Normalisation:
        """Fit the normalisation of this name to an array with NaN (m, n).

        Parameters
        ----------
        values : (m, n)
        name : str
        time : (n,) of datetime64
            Anomalies need it.
        plain_deviation : bool
            The variance of a row is the mean of its squares, as usual where whole series are compared. Otherwise they
            are divided by the degrees of freedom that the row's coefficients leave: a few values hardly deviate from
            means that were fitted to them, and the scale must hold for others, too.
        """
        if name not in NAMES:
            raise InputError(f"Unknown normalisation {name!r}; there are {', '.join(NAMES)}.")
        m, n = values.shape
        seen = ~np.isnan(values)
        if not seen.any():
            raise InputError("Every value is missing; there is nothing to normalise by.")
        plain = cls(
            np.zeros((n, 0)), np.zeros((m, 0)), np.ones(m), np.zeros(n), np.ones(n), np.asarray(seen.any(axis=1))
        )
        if name == "none":
            return plain
        if name == "zscore":
            known = values[seen]
            return replace(plain, level=np.full(n, known.mean()), col_scale=np.full(n, _positive(known.std())))
        if name == "zscore-columns":
            level = _mean(values, axis=0)
            return replace(plain, level=level, col_scale=_positive(np.sqrt(_mean((values - level) ** 2, axis=0))))
        basis = np.ones((n, 1)) if name == "zscore-rows" else _seasons(name, time, n)
        return _fit_rows(plain, values, basis, 0 if plain_deviation else basis.shape[1])

    def apply(self, values: Array) -> Array:
        """z of the given x, both (m, n); NaN stays NaN."""
        return (values - self.coefficients @ self.basis.T - self.level) / np.outer(self.row_scale, self.col_scale)

    def undo(self, z: Array) -> Array:
        """x of the given z, both (m, n)."""
        return z * np.outer(self.row_scale, self.col_scale) + self.coefficients @ self.basis.T + self.level

    def part(self, rows: Array, cols: Array) -> Normalisation:
        """That of some rows and columns."""
        return Normalisation(
            self.basis[cols],
            self.coefficients[rows],
            self.row_scale[rows],
            self.level[cols],
            self.col_scale[cols],
            self.determined[rows],
        )

    def with_rows(self, coefficients: Array, row_scale: Array) -> Normalisation:
        """The same columns with other rows."""
        return replace(self, coefficients=coefficients, row_scale=row_scale, determined=np.ones(len(row_scale), bool))


def _fit_rows(plain: Normalisation, values: Array, basis: Array, ddof: int) -> Normalisation:
    """Least squares of each row on the basis, and the standard deviation of its residual."""
    q = basis.shape[1]
    seen = ~np.isnan(values)
    products = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    normal = (seen @ products).reshape(-1, q, q)
    count = seen.sum(axis=1)
    spread = np.linalg.eigvalsh(normal)
    determined = (count > q) & (spread[:, 0] > 1e-6 * np.maximum(spread[:, -1], 1e-300))
    if not determined.any():
        raise InputError(
            f"No row has enough values for this normalisation, which fits {q} numbers to each; take a simpler one."
        )
    right = np.where(seen, values, 0.0) @ basis
    coefficients = np.zeros((len(values), q))
    coefficients[determined] = np.linalg.solve(normal[determined], right[determined][:, :, None])[:, :, 0]
    squares = np.nansum((values - coefficients @ basis.T) ** 2, axis=1)
    scale = np.sqrt(squares / np.maximum(count - ddof, 1))
    # A row that does not vary keeps its unit: rounding must not be blown up to look like data.
    size = np.sqrt(np.nansum(values**2, axis=1) / np.maximum(count, 1))
    scale = np.where(scale > 1e-12 * size, scale, 1.0)
    coefficients[~determined] = coefficients[determined].mean(axis=0)
    scale[~determined] = np.exp(np.log(scale[determined]).mean())
    return replace(plain, basis=basis, coefficients=coefficients, row_scale=scale, determined=determined)


def _seasons(name: str, time: npt.ArrayLike | None, n: int) -> Array:
    """Indicators of the months that occur, and the elapsed time in units of the whole span, if a trend is wanted."""
    times = np.asarray(time)
    if time is None or times.dtype.kind != "M" or times.shape != (n,):
        raise InputError(
            f"The normalisation {name!r} needs the date of each of the {n} columns (datetime64); zscore needs none."
        )
    month = times.astype("datetime64[M]").astype(np.int64)
    seasons = (month[:, None] % 12 == np.unique(month % 12)).astype(np.float64)
    if name == "anomalies":
        return seasons
    elapsed = (month - month.mean()) / max(int(np.ptp(month)), 1)
    return np.column_stack([seasons, elapsed])


def _mean(values: Array, axis: int) -> Array:
    """Mean of what is known; 0 where nothing is."""
    seen = ~np.isnan(values)
    return np.where(seen, values, 0.0).sum(axis) / np.maximum(seen.sum(axis), 1)


def _positive(deviation: Any) -> Any:
    return np.where(deviation > 0, deviation, 1.0)
