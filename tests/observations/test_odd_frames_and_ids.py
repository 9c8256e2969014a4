"""Frames and ids of other libraries, and ids of which NumPy would make one."""

from decimal import Decimal

import numpy as np
import pytest

import lorank
from lorank import InputError, MatrixCompletion, Observations
from lorank.observations.identifiers import Identifiers

pd = pytest.importorskip("pandas", reason="pandas is not installed")
pl = pytest.importorskip("polars", reason="polars is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def ids(names):
    return Observations.from_ids(names, range(len(names)), np.arange(len(names)) + 1.0).row_ids.values.tolist()


@pytest.mark.parametrize(
    "names",
    [
        [-1, 1 << 63, (1 << 63) + 1],
        [np.str_("a"), np.str_("a\0")],
        [np.bytes_(b"a"), np.bytes_(b"a\0")],
        [1 << 70, (1 << 70) + 1],
        ["é", "e\u0301", "\u202eabc", "\ud800"],
    ],
)
def test_ids_of_which_numpy_would_make_one_stay_apart(names):
    assert sorted(ids(names)) == sorted(names)


def test_ids_of_arrow_are_what_they_hold():
    assert ids(pa.array(["b", "a"])) == ["a", "b"]
    assert ids(pa.chunked_array([[3], [4]])) == [3, 4]


@pytest.mark.parametrize("missing", [pa.array(["a", None]), [Decimal(1), Decimal("NaN")]])
def test_missing_ids_of_other_libraries_are_refused(missing):
    with pytest.raises(InputError, match="has no id"):
        ids(missing)


def test_times_too_fine_for_an_id_are_refused_in_a_list_too():
    with pytest.raises(InputError, match="finer than a microsecond"):
        ids([np.datetime64("2020-01-01T00:00:00.000000001"), np.datetime64("2020-01-01T00:00:00")])


def test_an_id_of_two_rows_is_not_answered_for_one_of_them():
    """Frames that were put together often have it; they are completed by position."""
    X = np.random.default_rng(0).normal(size=(6, 4))
    X[2, 2] = np.nan
    frame = pd.DataFrame(X, index=list("aabbcd"))
    assert lorank.complete(frame).shape == X.shape
    model = MatrixCompletion(rank=1, lam=0.1).fit(frame)
    assert model.complete().shape == X.shape
    with pytest.raises(InputError, match="An id comes twice, 'a', and names neither"):
        model.predict(["a"], [0])


def test_columns_named_by_numbers_are_columns():
    table = pd.DataFrame([[7, 1, 2.0], [8, 2, 3.0]])
    found = Observations.from_table(table, 0, 1, 2)
    assert found.row_ids.values.tolist() == [7, 8]
    assert found.values.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("table", [pl.LazyFrame({"r": [1]}), {"r": [1]}, np.eye(3)])
def test_what_is_no_frame_in_memory_is_one_sentence(table):
    with pytest.raises(InputError, match="DataFrame in memory is needed, not"):
        Observations.from_table(table, "r", "c", "v")


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="this polars has no such numbers")
def test_large_whole_numbers_of_polars_are_ids():
    table = pl.DataFrame({"r": pl.Series([1 << 100, (1 << 100) + 1], dtype=pl.Int128), "c": [1, 1], "v": [1.0, 2.0]})
    assert Observations.from_table(table, "r", "c", "v").row_ids.values.tolist() == [1 << 100, (1 << 100) + 1]


def test_complex_columns_do_not_lose_their_imaginary_parts():
    with pytest.raises(InputError, match="Complex data not supported"):
        MatrixCompletion(rank=1, lam=0.1).fit(pd.DataFrame({"a": [1 + 2j, 2.0], "b": [1.0, 2.0]}))


def test_ids_can_be_looked_at():
    few, many = (Identifiers.of(ids) for ids in (["ann", "bob"], range(-2, 5)))
    assert (repr(few), list(few)) == ("Identifiers(2: 'ann', 'bob')", ["ann", "bob"])
    assert (repr(many), list(many)) == ("Identifiers(7: -2, -1, 0, ...)", list(range(-2, 5)))
