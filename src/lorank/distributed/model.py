"""What a fit on a folder gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank.identifiers import Identifiers
from lorank.solvers import Result

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class DistributedModel:
    """Factors with the ids of their rows and columns, and how they were found.

    `lam` is the weight that was used: the best on the held-out entries if there was a path of them.
    """

    result: Result
    row_ids: Identifiers
    col_ids: Identifiers
    lam: float

    def predict(self, rows: npt.ArrayLike, cols: npt.ArrayLike) -> Array:
        """Entries at (rows_t, cols_t), by id; one id goes with many."""
        left, right = self.row_ids.positions(rows, "row"), self.col_ids.positions(cols, "column")
        left, right = (np.ascontiguousarray(side) for side in np.broadcast_arrays(left, right))
        return self.result.factors.predict(left, right)

    def save(self, folder: str | Path) -> None:
        """Write a folder of shards, which `open_shards` reads without loading it."""
        from lorank.distributed.shards import save_shards

        save_shards(self, folder)
