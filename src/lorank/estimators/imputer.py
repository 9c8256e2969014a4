"""Tables with missing cells, filled: `complete`, and LowRankImputer for a scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from lorank import registry
from lorank.errors import InputError
from lorank.estimators.coding import SCALES, Coding
from lorank.estimators.columns import Column, Layout
from lorank.estimators.completion import MatrixCompletion
from lorank.estimators.filling import Calibration, Filling, Spread, column_centres, sampled_rows
from lorank.estimators.judging import calibrated, cross_validated
from lorank.memory import check_memory
from lorank.observations import dataframes as frames
from lorank.observations.checks import unmasked
from lorank.tuning.setting import AUTO
from lorank.types import Array

# Sweeps at most where the sampler was not asked for, and sweeps or iterations of a method that was.
SWEEPS, ITERATIONS = 50, 500


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill missing cells of a table whose columns depend on each other.

    Columns are brought to one scale, a low-rank matrix is fitted to the cells that are there, and missing cells are
    predicted from it. Trees add what low rank leaves over. New rows are folded in: each is a small regression on the
    factors of the columns.
    Cells that were there are never changed. Without parameters everything is chosen on cells that are held out: the
    scale, and by how much the covariance between columns is shrunk, down to column means. Of many rows a sample is
    fitted, and all are filled by it.

    Parameters
    ----------
    rank : int or "auto"
        Width of the factors. For the sampler "auto" is one less than the number of columns of codes, at most 30: what
        is not needed shrinks to nothing.
    lam, theta : float or "auto"
        Of the method, as for MatrixCompletion, in units of standardised columns; not for the sampler.
    method : str or Method
        "auto" is the Gibbs sampler "bpmf", which also knows how sure it is, or "nnfn" where lam or theta are given.
    kinds : mapping, optional
        What columns hold, by name (by position for an array): "real", "heavy-tailed", "positive", "bounded" or
        ("bounded", low, high), "count", "binary", "ordinal" or ("ordinal", lowest level, ..., highest level),
        "categorical", or "id" for a column that is left as it is. Columns that are not named go by their type:
        numbers, whole numbers, booleans, ordered and other categories, text. Dates stay as they are, and so does text
        with more than 50 different values or with none of them twice, since it looks like names.
    scale : "auto", "scores", "standard", "none" or "losses"
        How columns of numbers are put on one scale: by normal scores (a Gaussian copula), by mean and standard
        deviation, or only centred. "auto" takes what predicts held-out cells better. For factored methods it is
        "losses": each column has the loss that fits it (squared, Huber for "heavy-tailed", Poisson, logistic, ordinal
        or multinomial), on one set of factors.
    trees : bool
        Whether trees, which predict a column from the others, add what the sampler's low rank leaves over; how much
        they count is found out for each column on out-of-bag cells, and what they say of classes is corrected by a
        logistic regression on the other columns. Not for tables of more than 50 columns.
    add_indicator : bool
        Add a column for each that has missing cells in fit, which says where they were.
    max_iter : int, optional
        Sweeps or iterations at most; None for 50 sweeps where method is "auto", and 500 of a method that is named:
        expectations need few draws, and `draws` that are all but independent need many.
    tol, random_state, n_jobs
        As for MatrixCompletion.

    Attributes
    ----------
    model_ : MatrixCompletion or None
        Fitted on the codes of the cells; None if column means are filled in.
    method_ : Method
        The one that was used.
    layout_ : Layout
        The columns and their kinds.
    coding_ : Coding
        How cells became numbers on one scale, and back.
    forests_ : Forests or None
        Trees that add to what the sampler says.
    errors_ : dict
        Errors on held-out cells of what was compared, as parts of those of column means.
    center_, scale_ : arrays
        Mean (commonest class, median level) and standard deviation of each column; 1 for classes and for constants. A
        column without any cell is filled with 0.
    """

    def __init__(
        self,
        rank: int | str | None = AUTO,
        lam: float | str = AUTO,
        theta: float | str | None = None,
        method: Any = AUTO,
        kinds: Mapping[Any, Any] | None = None,
        scale: str = AUTO,
        trees: bool = True,
        add_indicator: bool = False,
        tol: float = 1e-4,
        max_iter: int | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.rank = rank
        self.lam = lam
        self.theta = theta
        self.method = method
        self.kinds = kinds
        self.scale = scale
        self.trees = trees
        self.add_indicator = add_indicator
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LowRankImputer:
        """Learn how columns depend on each other; sample_weight (rows,) says how much each row counts.

        The sampler takes no weights: with them "auto" is "nnfn".
        """
        X = self._read(X, reset=True)
        weights = None if sample_weight is None else np.asarray(_check_sample_weight(sample_weight, X), np.float64)
        self.method_ = method = self._method(weights is not None)
        if self.scale not in (AUTO, *SCALES):
            raise InputError(f"scale must be one of auto, {', '.join(SCALES)}; got {self.scale!r}.")
        self.layout_ = Layout.of(X, self.kinds)
        columns, cells = self._columns, self.layout_.cells(X)
        if weights is not None:
            cells, weights = cells[weights > 0], weights[weights > 0]
        if np.isnan(cells).all():
            raise InputError("Every cell of the table is missing; there is nothing to learn from.")
        self.table_ = X
        self.center_ = column_centres(columns, cells, weights)
        spreads = [getattr(code, "std", 1.0) or 1.0 for code in Coding(columns, cells, "standard", weights).codes]
        self.scale_ = np.array(spreads)
        self.indicated_ = np.flatnonzero(np.isnan(cells).any(axis=0)) if self.add_indicator else np.zeros(0, np.intp)
        filling = self._filling()
        scales = [self.scale] if self.scale != AUTO else _scales(method)
        chosen = scales[0]
        self.errors_: dict[str, float] = {}
        by_itself = isinstance(self.method, str) and self.method == AUTO and filling.automatic
        if by_itself or len(scales) > 1 or filling.searches:
            chosen, filling, self.errors_ = cross_validated(filling, columns, cells, scales, by_itself, weights)
        self.filling_ = filling
        self.calibration_: Calibration | None = None
        self.coding_ = Coding(columns, cells, chosen if chosen in SCALES else "standard", weights)
        # A sample of many rows says as much of the columns, and all rows are filled by it.
        fitted = sampled_rows(cells, self.coding_.width, filling.seed) if self._quick else cells
        self.model_ = filling.fit(self.coding_, fitted, weights) if chosen in SCALES else None
        self.forests_ = None
        if self.model_ is not None and self.trees:
            self.forests_ = filling.forests(self.coding_, self.model_, fitted)
        self.n_iter_ = 1 if self.model_ is None else self.model_.n_iter_
        return self

    def transform(self, X: Any) -> Any:
        """Fill the missing cells of X, row by row.

        An array of floats comes back; a DataFrame that holds other things than numbers comes back as a DataFrame with
        the same types.
        """
        filled = self._fill(X)
        return filled if self.layout_.mixed or isinstance(filled, np.ndarray) else frames.read_wide(filled)[0]

    def complete(self, X: Any = None) -> Any:
        """X without missing cells, of its own type, also where `transform` gives an array.

        X is the table of fit if it is not given.
        """
        check_is_fitted(self)
        return self._fill(self.table_ if X is None else X)

    def _fill(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._read(X, reset=False)
        cells = self.layout_.cells(X)
        if self.model_ is None:
            expected = np.broadcast_to(self.center_, cells.shape)
        else:
            expected = self.filling_.expected(self.coding_, self.model_, cells, self.forests_)
        return self._out(X, cells, expected)

    def draws(self, n: int = 20, X: Any = None) -> list[Any]:
        """n filled tables, each from another draw of the posterior, noise and all: multiple imputation.

        X is the table of fit if it is not given. Analyse each table, and put the answers together by `lorank.pool`.
        """
        X, cells, model = self._sampled(X, "draws")
        draws = self.filling_.draws(self.coding_, model, cells, n, self._calibration(), self.forests_)
        return [self._out(X, cells, drawn) for drawn in draws]

    def spread(self, X: Any = None, level: float = 0.9) -> Spread:
        """How sure each filled cell is: its standard deviation, an interval, and for classes their probability.

        X is the table of fit if it is not given.
        """
        if not 0 < level < 1:
            raise InputError(f"level lies between 0 and 1; got {level!r}.")
        X, cells, model = self._sampled(X, "spread")
        calibration = self._calibration()
        return self.filling_.spread(self.coding_, model, cells, self._columns, level, calibration, self.forests_)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns, and of the indicators."""
        names = super().get_feature_names_out(input_features)
        added = [f"missingindicator_{names[self.layout_.used[j]]}" for j in self.indicated_]
        return np.concatenate([names, np.array(added, object)])

    @property
    def _columns(self) -> list[Column]:
        return [self.layout_.columns[j] for j in self.layout_.used]

    def _method(self, weighted: bool) -> registry.Method:
        if isinstance(self.method, str) and self.method == AUTO:
            given = weighted or self.lam != AUTO or self.theta is not None
            return registry.find("nnfn" if given else "bpmf")
        method = registry.find(self.method)
        if not method.folds_in:
            raise InputError(f"Method {method.name!r} cannot fold in new rows; use 'bpmf' or 'nnfn'.")
        return method

    @property
    def _quick(self) -> bool:
        """Whether the sampler was not asked for: then expectations matter, and not its draws."""
        return isinstance(self.method, str) and self.method == AUTO and self.method_.samples

    def _filling(self) -> Filling:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        most = (SWEEPS if self._quick else ITERATIONS) if self.max_iter is None else self.max_iter
        return Filling(self.method_, self.rank, self.lam, self.theta, self.tol, most, seed, self.n_jobs)

    def _calibration(self) -> Calibration:
        """By cells of the table of fit that are held out; found out when it is asked for, and kept."""
        if self.calibration_ is None:
            filling, cells = self.filling_, self.layout_.cells(self.table_)
            cells = sampled_rows(cells, self.coding_.width, filling.seed) if self._quick else cells
            self.calibration_ = calibrated(filling, self._columns, cells, self.coding_.scale, self.forests_ is not None)
        return self.calibration_

    def _sampled(self, X: Any, what: str) -> tuple[Any, Array, MatrixCompletion]:
        check_is_fitted(self)
        X = self.table_ if X is None else self._read(X, reset=False)
        if self.model_ is None or self.model_.model_.posterior is None:
            why = "column means were filled in" if self.model_ is None else f"not {self.method_.name!r}"
            raise InputError(f"{what} needs the sampler, method='bpmf'; {why}.")
        return X, self.layout_.cells(X), self.model_

    def _out(self, X: Any, cells: Array, numbers: Array) -> Any:
        filled = self.layout_.filled(X, np.isnan(cells), numbers)
        if not self.indicated_.size:
            return filled
        gaps = np.isnan(cells[:, self.indicated_])
        return self.layout_.with_indicators(filled, gaps, self.indicated_)

    def _read(self, X: Any, reset: bool) -> Any:
        if sp.issparse(X):
            raise InputError("An imputer fills a dense table; for a sparse matrix use MatrixCompletion.")
        X = unmasked(X) if np.ma.isMaskedArray(X) else X
        if Layout.is_frame(X):
            if not frames.rows_of(X):
                raise InputError("The table has 0 sample(s), which are rows; give one at least.")
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        if getattr(getattr(X, "dtype", None), "kind", None) in ("U", "S"):
            raise InputError("An array of text cannot be filled; give a DataFrame, whose columns each have a type.")
        floats = [np.float64, np.float32]
        return np.asarray(validate_data(self, X, reset=reset, dtype=floats, ensure_all_finite="allow-nan"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _scales(method: registry.Method) -> list[str]:
    """Scales to compare: normal scores under the sampler, or a loss for each column where a solver takes any."""
    if method.samples:
        return ["scores", "standard"]
    return ["losses" if method.build_solver("auto").any_loss else "standard"]


def complete(X: Any, **params: Any) -> Any:
    """Fill the missing cells of X; what comes back is of the type that was given.

    X is an array with NaN or a DataFrame, whose columns may be of any kind; params are those of LowRankImputer. A
    sparse matrix, whose missing entries are those that are not stored, takes the params of MatrixCompletion and comes
    back with every entry stored: use MatrixCompletion.predict for large ones.
    """
    if not sp.issparse(X):
        return LowRankImputer(**params).fit(X).complete()
    model = MatrixCompletion(**{"rank": AUTO, "lam": AUTO, "biases": AUTO, **params}).fit(X).model_
    m, n = model.shape
    check_memory(16 * m * n, f"The completed sparse matrix of {m} x {n} entries")
    full: Any = type(X)
    return full(model.complete())
