"""What a fitted estimator answers, by asking the model that it holds."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lorank.linalg.factors import effective_rank
from lorank.models import Model, Ranking
from lorank.observations import Lines, Observations
from lorank.tuning.trials import Trials
from lorank.types import Array


class ModelEstimator(BaseEstimator):
    """An estimator whose `fit` makes a Model, `model_`, to which every question goes."""

    model_: Model

    def _fitted(self) -> Model:
        check_is_fitted(self)
        return self.model_

    def predict(
        self,
        rows: npt.ArrayLike,
        cols: npt.ArrayLike,
        *,
        interval: float | None = None,
        clip: bool = False,
        unseen: str = "error",
    ) -> Any:
        """Entries at (rows_t, cols_t): ids if the data had ids, positions otherwise. One id goes with many.

        With interval=0.9 the answer is (prediction, lower, upper): ranges that hold nine of ten values that were not
        seen. With clip=True nothing lies outside `range_`. With unseen="bias" rows or columns that were not in the data
        are predicted from offset and biases, or by the mean, instead of refused. See `Model.predict`.
        """
        return self._fitted().predict(rows, cols, interval=interval, clip=clip, unseen=unseen)

    def predict_proba(self, rows: npt.ArrayLike, cols: npt.ArrayLike) -> Array:
        """Probability of each level at (rows_t, cols_t), after a fit with loss="ordinal"; see `Model.predict_proba`."""
        return self._fitted().predict_proba(rows, cols)

    def predict_std(self, rows: npt.ArrayLike, cols: npt.ArrayLike, noise: bool = False) -> Array:
        """Posterior standard deviation of these entries; with noise, of values that would be observed there."""
        return self._fitted().predict_std(rows, cols, noise)

    def recommend(self, rows: Any = None, n: int = 10, **options: Any) -> Ranking:
        """The n columns with the highest predictions for each row, as one table; see `lorank.recommend`."""
        return self._fitted().recommend(rows, n, **options)

    def similar(self, *, col: Any = None, row: Any = None, n: int = 10, but_not: Any = None) -> tuple[Array, Array]:
        """Columns that are most like columns (or rows like rows), and the cosines; see `lorank.similar`."""
        return self._fitted().similar(col=col, row=row, n=n, but_not=but_not)

    def complete(self) -> Array:
        """The whole matrix as an m x n array: what was observed as it was, the rest predicted.

        Refused with the size that it would take if that does not fit in memory.
        """
        return self._fitted().complete()

    def score(self, X: Any, y: Any = None, *, unseen: str = "error") -> float:
        """Minus the error on the observed entries of X, root mean squared (logistic: mean loss): higher is better.

        unseen is as for `predict`. Of a model that ranks, the measure of its lists by what is relevant in X.
        """
        return self._fitted().score(X, unseen=unseen)

    def save(self, path: str | Path, *, data: bool = True, shards: bool = False) -> None:
        """Write the model to a file or a folder of shards; see `Model.save`."""
        self._fitted().save(path, data=data, shards=shards)

    def _keep(self, model: Model) -> Self:
        """Keep a model, with its parts as attributes."""
        factors, result = model.result.summary, model.result
        self.model_ = model
        self.setting_, self.result_, self.calibration_ = model.setting, result, model.calibration
        self.observations_ = model.observations or _no_entries(model)
        self.mean_, self.range_ = model.mean, model.range
        self.factors_ = factors.W, factors.H
        self.row_bias_, self.col_bias_, self.offset_ = factors.row_bias, factors.col_bias, factors.offset
        self.singular_values_ = model.singular_values
        self.rank_ = effective_rank(self.singular_values_)
        self.history_ = result.history.arrays()
        self.n_iter_ = result.n_iter
        # None of an earlier fit, if nothing was tuned in this one.
        self.__dict__.pop("tuning_", None)
        if model.trials:
            self.tuning_ = Trials.from_rows(model.trials)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        return f"{text}\n{self.model_!r}" if hasattr(self, "model_") else text

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._fitted_html()}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._fitted_html()
        return bundle

    def _fitted_html(self) -> str:
        """What the fit found, below scikit-learn's diagram of the parameters."""
        return f"<p>{escape(repr(self.model_))}</p>" if hasattr(self, "model_") else ""


def _no_entries(model: Model) -> Observations:
    lines = Lines(np.zeros(model.shape[0] + 1, np.int64), np.empty(0, np.int32), np.empty(0, model.factors.dtype))
    return Observations(model.shape, lines, model.row_ids, model.col_ids)
