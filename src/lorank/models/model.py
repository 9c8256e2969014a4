"""Model: what comes out of a fit, and what can be asked of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import numpy.typing as npt

from lorank import losses
from lorank.errors import InputError
from lorank.kernels import Workers
from lorank.linalg.factors import effective_rank
from lorank.models import folding, intervals, model_file, recommending, shards
from lorank.models.contents import Contents, contents_of
from lorank.models.levels import LevelPredictor
from lorank.models.ranking_metrics import ranking_scores
from lorank.observations import observe
from lorank.solvers import Posterior
from lorank.types import Array

UNSEEN = ("error", "bias")


@dataclass(frozen=True)
class Model(Contents):
    """A fitted model: factors, ids, what was seen, and what can be asked of them. It does not train.

    `MatrixCompletion.fit` makes one (`model_`), `lorank.load` reads one from a file or from a folder of shards, and
    `lorank.distributed.fit` gives one. All of them take the same words. From a folder only what is asked for is read;
    `complete`, `fold_in` and saving as one file bring all of it into memory first. `MatrixCompletion.from_model(model)`
    is an estimator that goes on from it.

    Attributes
    ----------
    result, setting, params, row_ids, col_ids, observations, entries, mean, range, calibration, columns, trials
        See `lorank.models.contents.Contents`.
    """

    @classmethod
    def of(cls, contents: Contents) -> Model:
        """The model with these contents."""
        return cls(**{field.name: getattr(contents, field.name) for field in fields(Contents)})

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

        Parameters
        ----------
        interval : float, optional
            With 0.9 the answer is (prediction, lower, upper): ranges that hold nine of ten values that were not seen,
            wide where rows and columns are hard to predict (`lorank.models.intervals`).
        clip : bool
            Nothing lies outside `range`: no film gets six stars of five, and no value within it is missed by more.
        unseen : "error" or "bias"
            What to predict for rows or columns that were not in the data: refuse, or offset + the bias of the side that
            is known (the offset if none is; without biases the mean of what was observed, or of a model that ranks
            the preference for what was not, `unobserved_value`).
        """
        left, right = self._positions(rows, cols, unseen)
        answers = [self._entries(left, right)]
        if interval is not None:
            answers += self._bounds(answers[0], left, right, interval)
        if clip:
            if self.range is None:
                raise InputError("The range of the data is not known to this model; predict without clip.")
            low, high = self.range
            answers = [np.clip(answer, low, high) for answer in answers]
        return answers[0] if interval is None else tuple(answers)

    def interval(
        self, rows: npt.ArrayLike, cols: npt.ArrayLike, level: float = 0.9, *, unseen: str = "error"
    ) -> tuple[Array, Array]:
        """Lower and upper ends of ranges that hold this share of the values that were not seen."""
        _, lower, upper = self.predict(rows, cols, interval=level, unseen=unseen)
        return lower, upper

    def predict_proba(self, rows: npt.ArrayLike, cols: npt.ArrayLike) -> Array:
        """Probability of each level at (rows_t, cols_t), (pairs, levels); `levels` says which they are.

        Of a model that was fitted with loss="ordinal".
        """
        predictor = self.predictor
        if not isinstance(predictor, (Posterior, LevelPredictor)):
            raise InputError("Probabilities of levels need a fit with loss='ordinal'.")
        return predictor.probabilities(*self._positions(rows, cols, "error"), Workers(self.n_jobs))

    def predict_std(self, rows: npt.ArrayLike, cols: npt.ArrayLike, noise: bool = False) -> Array:
        """Posterior standard deviation of these entries; with noise, of values that would be observed there.

        Of a model that was sampled: mean +- 1.645 std holds the truth 90 times in 100 if the model is right.
        """
        if self.posterior is None:
            raise InputError(f"Method {self.method!r} has no posterior; use method='bpmf' for standard deviations.")
        left, right = self._positions(rows, cols, "error")
        return self.posterior.std(left, right, noise, Workers(self.n_jobs))

    def recommend(self, rows: Any = None, n: int = 10, **options: Any) -> recommending.Ranking:
        """The n columns with the highest predictions for each row, as one table; see `lorank.recommend`."""
        return recommending.recommend(self, rows, n, **options)

    def rankings(self, rows: Any = None, n: int = 10, **options: Any) -> Iterator[recommending.Ranking]:
        """The same table for one block of rows after another, for answers that are larger than memory."""
        return recommending.rankings(self, rows, n, **options)

    def similar(self, *, col: Any = None, row: Any = None, n: int = 10, but_not: Any = None) -> tuple[Array, Array]:
        """Columns that are most like columns (or rows like rows), and the cosines; see `lorank.similar`."""
        return recommending.similar(self, col=col, row=row, n=n, but_not=but_not)

    def complete(self) -> Array:
        """The whole matrix as an m x n array: what was observed as it was, if that was kept, and the rest predicted.

        Refused with the size that it would take if that does not fit in memory.
        """
        model = self.loaded()
        X = model.predictor.dense()
        if model.observations is not None:
            X = X.astype(model.observations.dtype, copy=False)
            X[model.observations.rows, model.observations.cols] = model.observations.values
        return X

    def fold_in(self, X_new: Any = None, axis: int = 0, *, features: Any = None) -> Model:
        """A model of rows that were not there before (columns with axis=1), beside the columns of this one.

        Each new row is a small regression on the factors of the columns; those do not change. X_new is as for
        `MatrixCompletion.fit`: its rows are new, its columns are known, by id where there are ids. Millions of rows at
        once are fine.

        features are those of the new rows, given as `row_side` was to the fit: a row is then expected where they say,
        and with few entries or none (X_new=None) stays there. Who rated what is read off X_new.
        """
        return folding.fold_in(self, X_new, axis, features)

    def score(self, X: Any, y: None = None, *, unseen: str = "error") -> float:
        """Minus the error on the observed entries of X, root mean squared (logistic: mean loss): higher is better.

        unseen is as for `predict`. Of a model that ranks, the measure of its lists by what is relevant in X.
        """
        observations = observe(X)
        if self.setting.grades is not None:
            metric, _, length = str(self.params["metric"]).partition("@")
            return ranking_scores(self, observations, int(length), metrics=(metric,))[f"{metric}@{length}"]
        if unseen == "error":
            observations = observations.aligned_to(cast(Any, self))
            predicted = self.predictor.predict(observations.rows, observations.cols, Workers(self.n_jobs))
        else:
            places = (observations.rows, observations.row_ids), (observations.cols, observations.col_ids)
            rows, cols = (at if ids is None else ids.values[at] for at, ids in places)
            predicted = self._entries(*self._positions(rows, cols, unseen))
        weights = () if observations.weights is None else (observations.weights,)
        loss = self.loss.at(observations.rows, observations.cols)
        return -loss.error(predicted, self.loss.prepare(observations.values), *weights)

    def save(self, path: str | Path, *, data: bool = True, shards: bool = False) -> None:
        """Write the model, whole or not at all; `lorank.load` reads it. What was at `path` stays if that fails.

        Parameters
        ----------
        path : of a file, usually ending in .lorank, or of a folder
        data : bool
            Keep the entries that it was fitted on (two to twelve bytes each), which `recommend` needs to leave out what
            was seen, and `complete` to keep it. Without them a file is little larger than the factors.
        shards : bool
            A folder of shards, from which only what is asked for is read, instead of one file.
        """
        _write(self, path, data, shards)

    def describe(self) -> dict[str, Any]:
        """What the model is, what it was fitted with and how that went, by name: what `lorank inspect` prints."""
        m, n = self.shape
        ids = ["positions" if side is None else str(side.values.dtype) for side in (self.row_ids, self.col_ids)]
        facts: dict[str, Any] = {
            "rows": m,
            "columns": n,
            "row_ids": ids[0],
            "column_ids": ids[1],
            "entries": "not kept" if self.observations is None else self.observations.nnz,
            "method": self.method_text,
            **self.facts(),
        }
        if self.sigma is not None or not self.sharded:
            facts["rank_found"] = effective_rank(self.singular_values)
            facts["singular_values"] = [round(float(s), 4) for s in self.singular_values[:10]]
        facts |= {
            "status": self.result.status.name.lower(),
            "message": self.result.message,
            "iterations": self.result.n_iter,
            "seconds": self.result.seconds,
            "objective": self.result.objective,
            "mean": self.mean,
            "intervals": self.calibration is not None or self.posterior is not None,
            "trials": len(self.trials),
        }
        if self.columns is not None:
            facts["table"] = list(self.columns)
        if self.lists:
            facts["held_out_lists"] = dict(self.lists)
        return facts

    def remark_on_lists(self) -> str:
        """A sentence on how its lists compare with the most popular columns; empty if that was not measured."""
        if not self.lists:
            return ""
        (name, own), (_, popular) = self.lists.items()
        ranks = self.setting.grades is not None
        better = "" if ranks or own > popular else " This model predicts values: goal='ranking' makes better lists."
        return f"On held-out entries {name} is {own:.3f}, and {popular:.3f} for the most popular columns.{better}"

    def facts(self) -> dict[str, Any]:
        """What it was fitted with, by name; the loss and features where they are not the usual ones."""
        loss = self.lost.get("loss") or type(self.loss).__name__.lower()
        given = {"loss": None if loss == "squared" else loss, "features": self.params.get("features")}
        return {**self.setting.facts(), **{name: value for name, value in given.items() if value is not None}}

    @cached_property
    def training_error(self) -> float:
        """Error on the entries that it was fitted on, root mean squared (logistic: mean loss); NaN if not kept."""
        return -self.score(self.observations) if self.observations is not None and self.observations.nnz else math.nan

    def held_out_error(self) -> tuple[str, float] | None:
        """The error on entries that the model was not fitted on, and where they are from; None if there were none."""
        watched = [error for error in self.result.history.validation if error == error]
        if watched:
            return "validation", min(watched)
        chosen = [trial for trial in self.trials if trial.get("chosen")]
        return ("search", float(chosen[0].get("comparable") or chosen[0]["error"])) if chosen else None

    def __repr__(self) -> str:
        m, n = self.shape
        others = self.facts().keys() - self.setting.facts().keys()
        beside = "".join(f", {name}={self.facts()[name]}" for name in sorted(others))
        text = f"Model of {m} x {n} by {self.method}: {self.setting}{beside}"
        if self.sigma is not None or not self.sharded:
            text += f", fitted rank {effective_rank(self.singular_values)}"
        error = self.held_out_error()
        if error is not None:
            lists = self.setting.grades is not None
            text += f", held-out lists {1 - error[1]:.4g}" if lists else f", held-out error {error[1]:.4g}"
        elif self.observations is not None and not self.sharded:
            text += f", training error {self.training_error:.4g}"
        if self.trials:
            text += f", chosen among {len(self.trials)} trials"
        return f"<{text}; {self.result.status.name.lower()} after {self.result.n_iter} iterations>"

    if not TYPE_CHECKING:  # a type checker would take every name for known

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to call for what an estimator has and a model has not."""
            hint = ""
            if name in ("fit", "partial_fit", "get_params", "set_params") or (name[-1:] == "_" and name[:1] != "_"):
                hint = f": that is an estimator's; use MatrixCompletion.from_model(model).{name}"
            raise AttributeError(f"A Model has no attribute {name!r}{hint}.")

    def _positions(self, rows: npt.ArrayLike, cols: npt.ArrayLike, unseen: str) -> tuple[Array, Array]:
        """Positions of pairs that the user names, one with many or as many of each; -1 for what was not in the data."""
        if unseen not in UNSEEN:
            raise InputError(f"unseen must be 'error' or 'bias'; got {unseen!r}.")
        left, right = self.find(rows, 0, unseen == "error"), self.find(cols, 1, unseen == "error")
        if left.size != right.size and 1 not in (left.size, right.size):
            raise InputError(f"As many rows as columns are needed to predict; there are {left.size} and {right.size}.")
        left, right = (np.ascontiguousarray(side) for side in np.broadcast_arrays(left, right))
        return left, right

    def _entries(self, left: Array, right: Array) -> Array:
        """Entries at positions; an unseen row (-1) has no factor and no bias, which leaves offset + the column's bias.

        Without biases nothing is left, and the answer is the mean of what was observed; of a model that ranks, the
        preference for what was not.
        """
        factors, known, workers = self.predictor, self.result.summary, Workers(self.n_jobs)
        new = (left < 0) | (right < 0)
        if not new.any():
            predicted = factors.predict(left, right, workers)
        else:
            predicted = np.empty(left.size, self.factors.dtype)
            predicted[~new] = factors.predict(left[~new], right[~new], workers)
            rest = known.offset if known.biased else self.setting.unobserved_value if self.setting.grades else self.mean
            parts = ((known.left, left[new]), (known.right, right[new]))
            row_bias, col_bias = (_bias(side, known.k, index) if known.biased else 0.0 for side, index in parts)
            predicted[new] = rest + row_bias + col_bias
            if isinstance(factors, LevelPredictor) and known.biased:
                predicted[new] = factors.loss.predicted(predicted[new])
        workers.close()
        return predicted

    def _bounds(self, predicted: Array, left: Array, right: Array, level: float) -> tuple[Array, Array]:
        if "loss" not in self.lost and isinstance(self.loss, losses.Likelihood):
            raise InputError(
                "There are no intervals for classes and counts: these losses predict their probability already."
            )
        known = self.predictor if isinstance(self.predictor, LevelPredictor) else self.posterior
        return intervals.bounds(predicted, left, right, level, known, self.calibration)


def _bias(padded: Array, k: int, index: Array) -> Array:
    """Biases of lines, 0 where the index is -1."""
    bias = np.zeros(index.size, padded.dtype)
    bias[index >= 0] = padded[index[index >= 0]][:, k]
    return bias


def save(model: Any, path: str | Path, *, data: bool = True, shards: bool = False) -> None:
    """Write a Model, or the model of a fitted estimator, to a file or a folder of shards; see `Model.save`."""
    _write(contents_of(model), path, data, shards)


def _write(model: Contents, path: str | Path, data: bool, in_shards: bool) -> None:
    if in_shards:
        shards.write(model, path, data=data)
    else:
        model_file.write(model, path, data=data)


def load(path: str | Path) -> Model:
    """The model that `save` wrote, from a file or from a folder of shards, ready to predict.

    Of a folder nothing is read yet but its manifest. What is damaged, newer than this lorank or something else gets an
    InputError that says which. To go on fitting: `MatrixCompletion.from_model(lorank.load(path)).partial_fit(X)`.
    """
    return Model.of(shards.read(path) if shards.is_shards(path) else model_file.read(path))
