"""What is known of every place besides where it is: elevation, distance to the sea, land cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.types import Array


@dataclass(frozen=True)
class Covariates:
    """Names, mean and deviation (p,) at the measured places, and the covariates of all in these units (m, p)."""

    names: tuple[str, ...]
    mean: Array
    deviation: Array
    standardised: Array

    @classmethod
    def of(cls, given: Any, m: int, measured: Array) -> Covariates:
        """From an array (m,) or (m, p), a mapping of names to arrays, a DataFrame, or None."""
        names, table = _table(given, m)
        mean = table[measured].mean(axis=0)
        deviation = table[measured].std(axis=0)
        constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
        if constant.any():
            which = names[int(np.flatnonzero(constant)[0])]
            raise InputError(f"Covariate {which} is the same at all measured places; leave it out.")
        return cls(names, mean, deviation, (table - mean) / deviation)

    def elsewhere(self, given: Any, q: int) -> Array:
        """Covariates (q, p) of other places in the same units."""
        if not self.names:
            if given is not None:
                raise InputError("The model was fitted without covariates; fit it with them to use them here.")
            return np.zeros((q, 0))
        if given is None:
            raise InputError(
                f"The model was fitted with covariates; give {', '.join(self.names)} of these places, too."
            )
        if isinstance(given, Mapping) or hasattr(given, "columns"):
            lacking = [name for name in self.names if name not in given]
            if lacking:
                raise InputError(
                    f"The covariate {lacking[0]} of these places is lacking; there are {', '.join(given)}."
                )
            given = {name: given[name] for name in self.names}
        names, table = _table(given, q)
        if len(names) != len(self.names):
            raise InputError(
                f"The model has {len(self.names)} covariates ({', '.join(self.names)}), and {len(names)} are given."
            )
        return (table - self.mean) / self.deviation


def _table(given: Any, m: int) -> tuple[tuple[str, ...], Array]:
    """Names and values (m, p)."""
    if given is None:
        return (), np.zeros((m, 0))
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        names = tuple(str(name) for name in (given if isinstance(given, Mapping) else given.columns))
        columns = [given[name] for name in (given if isinstance(given, Mapping) else given.columns)]
    else:
        array = np.asarray(given)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2:
            raise InputError(f"Covariates must be places x covariates; this array has {array.ndim} dimensions.")
        names, columns = tuple(str(i) for i in range(array.shape[1])), list(array.T)
    parts = []
    for name, column in zip(names, columns):
        try:
            part = np.asarray(column, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            raise InputError(f"Covariate {name} must be numbers; make columns of 0 and 1 of kinds.") from None
        if part.size != m:
            raise InputError(f"Covariate {name} has {part.size} values for {m} places.")
        if not np.isfinite(part).all():
            where = int(np.flatnonzero(~np.isfinite(part))[0])
            raise InputError(
                f"Covariate {name} of place {where} is missing (NaN or infinite); drop the place or find it."
            )
        parts.append(part)
    return names, np.column_stack(parts) if parts else np.zeros((m, 0))
