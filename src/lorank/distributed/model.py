"""What a fit on a folder gives back."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lorank.distributed.parts import Part
from lorank.distributed.seen import seen_lines
from lorank.linalg.memory import check_memory
from lorank.observations import Lines, Observations
from lorank.observations.identifiers import Identifiers
from lorank.solvers import Result
from lorank.tuning.setting import Setting
from lorank.types import Array

if TYPE_CHECKING:
    from lorank.estimators import MatrixCompletion

Sides = Mapping[str, Sequence[Part]]

# How the name of a model that is one file ends; any other name is that of a folder of shards.
ONE_FILE = ".lorank"


@dataclass(frozen=True)
class DistributedModel:
    """Factors with the ids of their rows and columns, and how they were found.

    `setting` has the lam that was used: the best on the held-out entries if there was a path of them. `mean` and
    `entries` are of what it was fitted on, and `columns` the names of the table's row ids, column ids and values.
    """

    result: Result
    row_ids: Identifiers
    col_ids: Identifiers
    method: Any
    setting: Setting
    mean: float
    entries: int
    columns: tuple[str, str, str]

    @property
    def lam(self) -> float:
        """The weight of the regularizer that was used."""
        return self.setting.lam

    @property
    def shape(self) -> tuple[int, int]:
        return self.result.factors.shape

    def predict(self, rows: npt.ArrayLike, cols: npt.ArrayLike) -> Array:
        """Entries at (rows_t, cols_t), by id; one id goes with many."""
        left, right = self.row_ids.positions(rows, "row"), self.col_ids.positions(cols, "column")
        left, right = (np.ascontiguousarray(side) for side in np.broadcast_arrays(left, right))
        return self.result.factors.predict(left, right)

    def save(self, path: str | Path, sides: Sides | None = None) -> None:
        """Write one file if the name ends in .lorank, which `lorank.load` reads, or else a folder of shards, which
        `open_shards` reads without loading it.

        `sides` are the blocks that it was fitted on, which are gone when `fit` returns: `fit(..., output=path)`
        saves with them, so that what was seen can be left out of recommendations.
        """
        from lorank.distributed.shards import save_shards
        from lorank.models import model_file as models

        if Path(path).suffix == ONE_FILE:
            models.save(self.estimator(sides), path, data=sides is not None)
        else:
            save_shards(self, path, sides)

    def estimator(self, sides: Sides | None = None) -> MatrixCompletion:
        """The same model as a MatrixCompletion, with the entries of `sides` if they are given and fit in memory."""
        from lorank.estimators import MatrixCompletion

        factors, setting = self.result.factors, self.setting
        lines = Lines(np.zeros(self.shape[0] + 1, np.int64), np.empty(0, np.int32), np.empty(0, factors.dtype))
        if sides is not None:
            size = self.entries * (factors.dtype.itemsize + 4)
            check_memory(3 * size, f"{self.entries} entries in one file", "save a folder of shards instead")
            pieces = [piece for _, _, piece in seen_lines(sides)]
            counts = np.concatenate([np.diff(piece.pointers) for piece in pieces])
            indices, values = (np.concatenate([getattr(p, part) for p in pieces]) for part in ("indices", "values"))
            lines = Lines(np.concatenate([[0], np.cumsum(counts)]), indices, values)
        model = MatrixCompletion(self.method, setting.rank, setting.lam, setting.theta, biases=setting.biases)
        model.set_params(dtype=str(factors.dtype))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no entry; the known one takes its place
            model._keep(Observations(self.shape, lines, self.row_ids, self.col_ids), setting, self.result, None)
        model.mean_, model.columns_ = self.mean, self.columns
        return model
