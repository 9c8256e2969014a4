"""What a fitted model consists of, and how its rows and columns are found by the user's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lorank import losses, registry
from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.memory import check_memory
from lorank.models.intervals import Calibration
from lorank.models.levels import LevelPredictor
from lorank.models.packing import checked_lines
from lorank.models.setting import Setting
from lorank.models.sharded import ShardedFactors, ShardedIdentifiers, UnknownValues
from lorank.models.sharded_posterior import ShardedPosterior
from lorank.observations import Observations
from lorank.observations.checks import rectangular, refuse_mask
from lorank.observations.identifiers import Identifiers
from lorank.side_information.new_lines import FeatureMap
from lorank.solvers import Posterior, Result
from lorank.types import Array


@dataclass(frozen=True)
class Contents:
    """What a fitted model consists of; see `Model`, which says what can be done with it.

    Attributes
    ----------
    result : Result
        Factors (m rows, n columns), a posterior if they were sampled, and how they were reached.
    setting : Setting
        lam, rank, theta and biases that it was fitted with.
    params : mapping
        Parameters of the estimator that fitted it: the method and its parameters, the loss, side information, limits.
    row_ids, col_ids : Identifiers or None
        What the user calls rows and columns; without them they are called by position.
    observations : Observations or None
        What it was fitted on; None if that was not kept.
    entries : int
        How many entries it was fitted on, kept or not.
    mean : float
        Of the values that it was fitted on.
    range : (float, float) or None
        The least and the largest of them; None if that is not known.
    calibration : Calibration or None
        What intervals are made of.
    columns : tuple of str or None
        Titles of the table's row ids, column ids and values.
    trials : tuple of mappings
        What a search tried: a setting, its error on the held-out part, its cost and whether it was chosen.
    lost : mapping
        Parameters that a file could not hold, and what they were.
    sigma : array or None
        Singular values of W H^T if they are known already; see `singular_values`.
    row_titles, col_titles : mapping
        What else is told of rows or columns, such as the titles of films: text by position, by name.
    lists : mapping
        How good its lists were on held-out entries and how good the most popular columns, by "ndcg@10" or another
        measure and "most popular"; empty if that was not measured.
    """

    result: Result
    setting: Setting
    params: Mapping[str, Any]
    row_ids: Identifiers | None = None
    col_ids: Identifiers | None = None
    observations: Observations | None = None
    entries: int = 0
    mean: float = 0.0
    range: tuple[float, float] | None = None
    calibration: Calibration | None = None
    columns: tuple[str, ...] | None = None
    trials: tuple[Mapping[str, Any], ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    sigma: Array | None = None
    row_titles: Mapping[str, Array] = field(default_factory=dict)
    col_titles: Mapping[str, Array] = field(default_factory=dict)
    lists: Mapping[str, float] = field(default_factory=dict)

    @property
    def factors(self) -> Factors:
        """Factors that predict: those of the fit, or of the posterior mean, as wide as all draws together."""
        return self.result.factors

    @property
    def posterior(self) -> Posterior | None:
        """The posterior, if the model was sampled."""
        return self.result.posterior

    @property
    def features(self) -> tuple[FeatureMap | None, FeatureMap | None]:
        """What features say of rows and of columns that are not there yet."""
        return self.result.features

    @property
    def levels(self) -> Array | None:
        """The values of an ordinal scale that the model was fitted to; None otherwise."""
        return getattr(self.predictor, "levels", None)

    @property
    def predictor(self) -> Factors | Posterior | LevelPredictor:
        """What predicts values: the factors, or what knows expected levels, which are not linear in them."""
        if self.posterior is not None:
            return self.factors if self.posterior.levels is None else self.posterior
        loss = self.params.get("loss")
        return LevelPredictor(self.factors, loss) if isinstance(loss, losses.Ordinal) and loss.levels else self.factors

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.factors.shape

    @property
    def sharded(self) -> bool:
        """Whether it is kept in a folder of shards."""
        return isinstance(self.factors, ShardedFactors)

    @cached_property
    def singular_values(self) -> Array:
        """Singular values of W H^T, descending; of a posterior, of its mean at the rank that was asked for."""
        return self.result.summary.singular_values() if self.sigma is None else self.sigma

    @property
    def method(self) -> str:
        """Name of the method."""
        return registry.find(self.params["method"]).name

    @property
    def method_text(self) -> str:
        """The method with what was given to it; offsets alone where no factors were chosen."""
        return "offsets alone" if self.setting.rank == 0 else str(registry.find(self.params["method"]))

    @property
    def loss(self) -> losses.Loss:
        """The loss of an entry."""
        self.need("loss")
        return losses.find(self.params.get("loss", "squared"))

    @property
    def n_jobs(self) -> int | None:
        """Threads."""
        return self.params.get("n_jobs")

    def regularizer(self) -> Any:
        """The regularizer, with the parameters that it was fitted with."""
        return registry.find(self.params["method"]).build_regularizer(self.setting.lam, **self.setting.of_method)

    def need(self, *names: str) -> None:
        """Refuse what needs a parameter that the model's file does not hold."""
        for name in names:
            if name in self.lost:
                raise InputError(
                    f"The {name} that this model was fitted with, {self.lost[name]}, is not in its file; "
                    f"give it: MatrixCompletion.from_model(model, {name}=...)."
                )

    def find(self, names: npt.ArrayLike, axis: int, refuse: bool = True) -> Array:
        """Positions of rows (axis 0) or columns (1) that the user names.

        An unknown name is an error that says which, or, without `refuse`, has the position -1.
        """
        ids, size, what = (self.row_ids, self.col_ids)[axis], self.shape[axis], ("row", "column")[axis]
        if ids is not None:
            return np.asarray(ids.positions(names, what) if refuse else ids.find(names))
        refuse_mask(names, f"{what} positions")
        index = np.atleast_1d(rectangular(names)).ravel()
        if index.size and not np.issubdtype(index.dtype, np.integer):
            raise InputError(
                f"The data had no ids, so {what}s are called by position: whole numbers, not {index.dtype}."
            )
        outside = (index < 0) | (index >= size)
        if (outside & (refuse | (index < 0))).any():
            raise InputError(f"There is no {what} {index[outside][0]}: the matrix has {size}, from 0 to {size - 1}.")
        return np.where(outside, -1, index).astype(np.int64)

    def names(self, positions: Array, axis: int) -> Array:
        """What the user calls rows (axis 0) or columns (1) at these positions."""
        ids = (self.row_ids, self.col_ids)[axis]
        return positions if ids is None else np.asarray(ids.values[positions])

    def titles(self, positions: Array, axis: int) -> dict[str, Array]:
        """What is told of rows (axis 0) or columns (1) at these positions, by name."""
        return {name: texts[positions] for name, texts in (self.row_titles, self.col_titles)[axis].items()}

    def with_titles(self, table: Any, axis: int = 1) -> Self:
        """The same model with titles of its columns (rows with axis=0), which lists, files and pages then show.

        Parameters
        ----------
        table : DataFrame, or mapping of arrays by name
            A line for each id; its first column has the ids. What it says of others is left out, and ids that it does
            not have get empty text.
        """
        names = list(table.columns) if hasattr(table, "columns") else list(table)
        if len(names) < 2:
            raise InputError("A table of titles has a column of ids and at least one more.")
        columns = [np.asarray(table[name]) for name in names]
        found = self.find(columns[0], axis, refuse=False)
        if not (found >= 0).any():
            raise InputError(f"No id in {names[0]!r} is one of the model's {('rows', 'columns')[axis]}.")
        texts = {}
        for name, column in zip(names[1:], columns[1:]):
            # Of unequal length, so that one long text does not make all of them long.
            text = np.full(self.shape[axis], "", dtype=object)
            text[found[found >= 0]] = ["" if cell is None or cell != cell else str(cell) for cell in column[found >= 0]]
            texts[str(name)] = text
        return replace(self, row_titles=texts) if axis == 0 else replace(self, col_titles=texts)

    def loaded(self) -> Self:
        """The same model with all of it in memory; itself if it is there already, refused if it does not fit.

        Entries of which a folder kept no values are left behind.
        """
        factors = self.factors
        if not isinstance(factors, ShardedFactors):
            return self
        seen = self.observations
        needed = (factors.left.size + factors.right.size) * factors.dtype.itemsize + 24 * (seen.nnz if seen else 0)
        needed *= 1 if self.posterior is None else 2  # deviations too
        m, n = self.shape
        check_memory(needed, f"The whole model of {m} rows and {n} columns", "predict from the folder as it is")
        sides = [ids.loaded() if isinstance(ids, ShardedIdentifiers) else ids for ids in (self.row_ids, self.col_ids)]
        if seen is not None and isinstance(seen.values, UnknownValues):
            seen = None
        elif seen is not None:
            pointers, cols, values, *weights = (np.asarray(part) for part in seen.by_row.arrays if part is not None)
            lines = checked_lines(pointers, cols, values, self.shape, factors.dtype, *weights)
            seen = Observations(self.shape, lines, *sides)
        result, calibration = replace(self.result, factors=factors.loaded()), self.calibration
        if isinstance(self.posterior, ShardedPosterior):
            posterior = self.posterior.loaded()
            result = replace(result, factors=posterior.mean, posterior=posterior)
        if calibration is not None:
            rows, cols = np.asarray(calibration.row_scale), np.asarray(calibration.col_scale)
            calibration = replace(calibration, row_scale=rows, col_scale=cols)
        known = replace(self, result=result, calibration=calibration, observations=seen)
        return replace(known, row_ids=sides[0], col_ids=sides[1])


def contents_of(fitted: Any) -> Contents:
    """The contents of a Model, or of the model that a fitted estimator holds."""
    if isinstance(fitted, Contents):
        return fitted
    # Whoever has an estimator has imported scikit-learn; a model alone does without, which saves a second.
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(fitted)
    return contents_of(fitted.model_)
