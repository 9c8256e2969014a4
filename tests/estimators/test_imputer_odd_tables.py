"""Tables that are almost nothing: a row, no row, columns in which every cell is missing."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import lorank
from lorank import InputError


def test_columns_without_any_cell():
    """Numbers are filled with 0; of other types nothing can be said, and their cells stay missing."""
    x = np.where(np.arange(30) % 7 == 0, np.nan, np.arange(30) % 5)
    nothing = {
        "whole": pd.Series([None] * 30, dtype="Int64"),
        "text": pd.Series([None] * 30, dtype="string"),
        "yes": pd.Series([None] * 30, dtype="boolean"),
        "class": pd.Series([None] * 30, dtype=pd.CategoricalDtype([1, 2])),
    }
    table = pd.DataFrame({"x": x, **nothing})
    filled = lorank.complete(table)
    assert (filled.dtypes == table.dtypes).all()
    assert filled.isna().sum().to_dict() == {"x": 0, "whole": 0, "text": 30, "yes": 30, "class": 30}
    frame = pl.DataFrame({"x": x, "text": [None] * 30, "whole": [None] * 30}, schema_overrides={"text": pl.String})
    frame = frame.with_columns(pl.col("whole").cast(pl.Int32))
    filled = lorank.complete(frame)
    assert filled.schema == frame.schema
    assert filled.null_count().row(0) == (0, 30, 0)


def test_dates_keep_their_gaps_and_it_is_said():
    when = pd.Series(pd.date_range("2024-01-01", periods=30))
    when[[3, 7]] = None
    table = pd.DataFrame({"x": np.arange(30) % 5.0, "when": when})
    with pytest.warns(UserWarning, match="keep their gaps: 'when'"):
        filled = lorank.complete(table)
    assert filled["when"].isna().sum() == 2


def test_one_row_and_none():
    row = pd.DataFrame({"x": [1.5], "n": pd.array([None], "Int64"), "k": pd.Categorical([None], categories=["a", "b"])})
    filled = lorank.complete(row)
    assert filled["n"][0] == 0
    assert filled["k"].isna().all()
    with pytest.raises(InputError, match="give one at least"):
        lorank.complete(row.iloc[:0])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.array([["a", "b"], ["c", "d"]]), "array of text"),
        (pl.LazyFrame({"a": [1.0, None]}), "collect it"),
    ],
)
def test_what_holds_no_cells_is_refused_in_a_sentence(table, message):
    with pytest.raises(InputError, match=message):
        lorank.complete(table)


def test_single_precision_stays():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    filled = lorank.complete(X)
    assert filled.dtype == np.float32
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
