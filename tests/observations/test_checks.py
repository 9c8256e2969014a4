"""What users give that compiled code must never see: refused in one sentence, or turned into what it means."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from lorank import EntryRegressor, LowRankImputer, MatrixCompletion, Observations, kernels
from lorank.errors import InputError, MemoryLimitError
from lorank.linalg import Factors
from lorank.observations import Lines, observe
from lorank.observations.identifiers import Identifiers
from lorank.problems import Problem
from lorank.regularizers import FactoredNNFN
from lorank.side_information import Features, GraphLaplacian
from lorank.solvers import Alternating, solve

ROWS, COLS = np.indices((6, 4))
VALUES = ROWS + 10.0 * COLS


def the_same(triplets):
    observations = observe(triplets)
    np.testing.assert_array_equal(observations.to_sparse().toarray(), VALUES)


@pytest.mark.parametrize("kind", ["<i4", ">i4", ">i8", "u1", "u8", ">u8", "i2"])
def test_positions_of_any_integer_type(kind):
    the_same((ROWS.ravel().astype(kind), COLS.ravel().astype(kind), VALUES.ravel()))


@pytest.mark.parametrize("kind", [">f8", ">f4", "f2", "i4", ">i8", "u8", "g", "O"])
def test_values_of_any_type_of_number(kind):
    the_same((ROWS.ravel(), COLS.ravel(), VALUES.ravel().astype(kind)))
    np.testing.assert_array_equal(Observations.from_dense(VALUES.astype(kind)).values, VALUES.ravel())


def test_arrays_of_two_dimensions():
    the_same((ROWS, COLS, VALUES))
    the_same((ROWS, COLS, np.asfortranarray(VALUES)))
    the_same((ROWS.reshape(-1, 1), COLS.reshape(1, -1), VALUES.reshape(-1, 1)))
    the_same((ROWS.ravel()[::-1], COLS.ravel()[::-1], VALUES.ravel()[::-1]))
    ids = Observations.from_ids(ROWS.astype(str), COLS.astype(str), VALUES)
    np.testing.assert_array_equal(ids.to_sparse().toarray(), VALUES)


@pytest.mark.parametrize(
    ("rows", "cols", "values", "complaint"),
    [
        (ROWS, COLS.T, VALUES, "different shapes"),
        (ROWS, COLS, VALUES[1:], "24, 24 and 20"),
        (ROWS.astype("u8") + np.uint64(2**63), COLS, VALUES, "too large"),
        (np.ma.masked_equal(ROWS, 3), COLS, VALUES, "row positions are masked"),
        (ROWS - 1, COLS, VALUES, "index -1 is outside"),
    ],
)
def test_what_has_no_meaning_is_refused(rows, cols, values, complaint):
    with pytest.raises(InputError, match=complaint):
        MatrixCompletion(rank=2, lam=0.1).fit((rows, cols, values))


def test_a_fit_to_arrays_of_two_dimensions_is_that_to_their_entries():
    fits = [
        MatrixCompletion(rank=2, lam=0.1, random_state=0).fit(triplets).complete()
        for triplets in ((ROWS, COLS, VALUES), (ROWS.ravel(), COLS.ravel(), VALUES.ravel()))
    ]
    np.testing.assert_array_equal(*fits)


def test_masked_cells_are_missing():
    cells = np.random.default_rng(0).normal(size=(8, 5))
    cells[2, 3] = 999
    masked, missing = np.ma.masked_equal(cells, 999), np.where(cells == 999, np.nan, cells)
    for given in (masked, list(masked)):
        np.testing.assert_array_equal(observe(given).to_sparse().toarray(), observe(missing).to_sparse().toarray())
    rows, cols = np.indices(cells.shape)
    assert observe((rows, cols, masked)).nnz == 39
    assert MatrixCompletion(rank=2, lam=0.1).fit(masked).complete()[2, 3] < 100
    filled = LowRankImputer(rank=1, random_state=0).fit(masked).transform(masked)
    np.testing.assert_array_equal(filled, LowRankImputer(rank=1, random_state=0).fit(missing).transform(missing))
    np.testing.assert_array_equal(Features.of(masked).matrix, Features.of(missing).matrix)
    whole = np.ma.masked_equal(np.array([[1, 2], [3, 999]]), 999)
    assert observe(whole).values.tolist() == [1, 2, 3]


def test_masked_ids_are_refused():
    names = np.ma.masked_equal([1, 2, 3], 2)
    with pytest.raises(InputError, match="ids are masked"):
        Observations.from_ids(names, [1, 2, 3], [1.0, 2.0, 3.0])
    model = MatrixCompletion(rank=1, lam=0.1).fit(VALUES)
    with pytest.raises(InputError, match="masked"):
        model.predict(names, [0, 1, 2])
    with pytest.raises(InputError, match="masked"):
        EntryRegressor(rank=1).fit(np.ma.masked_equal([[1, 2], [2, 3]], 3), [1.0, 2.0])


@pytest.mark.parametrize(
    ("indptr", "indices"), [([0, 1 << 28, 2, 3], [0, 1, 2]), ([0, 2, 1, 3], [0, 1, 2]), ([0, 1, 2, 3], [0, 1, 9])]
)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.bsr_array])
def test_damaged_sparse_matrices_are_refused(kind, indptr, indices):
    data = np.ones((3, 1, 1)) if kind is sp.bsr_array else np.ones(3)
    matrix = kind((data.copy(), np.array([0, 1, 2]), np.array([0, 1, 2, 3])), shape=(3, 3))
    matrix.indptr, matrix.indices = np.array(indptr), np.array(indices)
    for taking in (observe, Features.of, GraphLaplacian):
        with pytest.raises(InputError, match="sparse matrix is damaged"):
            taking(matrix)


def test_a_shape_for_which_there_is_no_memory_is_refused_before_scipy_makes_room_for_it():
    """A file of a few kilobytes can say that it has 2^40 rows; as diagonals scipy would hold a pointer for each."""
    diagonal = sp.dia_array((np.ones((1, 3)), [0]), shape=(1 << 40, 3))
    for given in (diagonal, sp.coo_array(([1.0], ([0], [0])), shape=(3, 1 << 40)), ([0, 1 << 40], [0, 1], [1, 2])):
        with pytest.raises(MemoryLimitError, match="109951162777"):
            observe(given)
    line = sp.coo_array(np.ones(3))
    if len(line.shape) == 1:  # SciPy before 1.13 makes a row of it
        with pytest.raises(InputError, match="two dimensions"):
            Observations.from_sparse(line)


@pytest.mark.parametrize(
    ("pointers", "indices", "values"),
    [
        ([0, 2, 1, 3], [0, 1, 0], [1.0, 2.0, 3.0]),
        ([0, 1, 2, 9], [0, 1, 0], [1.0, 2.0, 3.0]),
        ([1, 1, 2, 3], [0, 1, 0], [1.0, 2.0, 3.0]),
        ([0, 1, 2, 3], [0, 4, 0], [1.0, 2.0, 3.0]),
        ([0, 1, 2, 3], [0, -1, 0], [1.0, 2.0, 3.0]),
        ([0, 2, 2, 3], [1, 1, 0], [1.0, 2.0, 3.0]),
        ([0, 1, 2, 2], [0, 1, 0], [1.0, 2.0, 3.0]),
        ([0, 1, 3], [0, 1, 2], [1.0, 2.0, 3.0]),
        ([0, 1, 2, 3], [0, 1, 0], [1.0, 2.0]),
    ],
)
def test_lines_that_are_no_rows_of_the_matrix_are_refused(pointers, indices, values):
    lines = Lines(np.array(pointers), np.array(indices, np.int32), np.array(values))
    with pytest.raises(InputError, match=r"[Ll]ine"):
        Observations((3, 4), lines)


def test_lines_of_another_kind_of_array_are_refused():
    good = (np.array([0, 1, 2, 3]), np.array([0, 1, 0], np.int32), np.array([1.0, 2.0, 3.0]))
    Observations((3, 4), Lines(*good))
    for part, wrong in ((0, good[0].astype(np.int32)), (1, good[1].astype(">i4")), (2, good[2].astype(np.int64))):
        parts = [*good[:part], wrong, *good[part + 1 :]]
        with pytest.raises(InputError, match="contiguous"):
            Observations((3, 4), Lines(*parts))
    with pytest.raises(InputError, match="contiguous"):
        Observations((3, 4), Lines(good[0], good[1], np.repeat(good[2], 2)[::2]))


def test_pairs_outside_of_the_matrix_are_never_read():
    factors = Factors.of(np.ones((3, 2)), np.ones((4, 2)))
    for rows, cols in (([0, 3], [0, 0]), ([0, -1], [0, 0]), ([0, 0], [4, 0])):
        with pytest.raises(IndexError):
            factors.predict(np.array(rows), np.array(cols), kernels.Workers(1))


def test_a_start_of_another_shape_is_refused():
    problem = Problem(observe(VALUES), FactoredNNFN(lam=0.1), rank=2)
    with pytest.raises(InputError, match="6 x 4 is needed"):
        solve(Alternating(), problem, start=Factors.of(np.ones((2, 2)), np.ones((4, 2))))


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "i4", "u4", "i8", "u8"])
def test_ids_at_both_ends_of_their_type(kind):
    ends = np.iinfo(kind)
    low, high = ends.min, ends.max
    for names in ([low, high], [-100 % (high + 1) if low == 0 else -100, 100], [high - 2, high], [low, low + 2]):
        names = np.array(names * 3, kind)
        ids, positions = Identifiers.number(names)
        np.testing.assert_array_equal(ids.values[positions], names)
        assert ids.values.dtype == names.dtype


@pytest.mark.parametrize(
    ("value", "dtype"), [(1e160, "float64"), (-1e160, "float64"), (1e39, "float32"), (1e20, "float32")]
)
def test_values_whose_squares_overflow_are_refused_with_their_place(value, dtype):
    X = np.random.default_rng(0).normal(size=(6, 5))
    X[2, 3] = value
    with pytest.raises(InputError, match=r"at \(2, 3\).* is too large: .* scale the data|infinity"):
        MatrixCompletion(rank=2, lam=0.1, dtype=dtype).fit(X)
    with pytest.raises(InputError, match=r"at \(0, 0\), 1e-3.* in size, is too small: .*; scale the data"):
        MatrixCompletion(rank=2, lam=0.1, dtype=dtype).fit(np.full((6, 5), 1e-300 if dtype == "float64" else 1e-30))


@pytest.mark.parametrize(
    "ids",
    [
        ["a", None, "b"],
        [1, float("nan"), "x"],
        np.array([1.0, np.nan, 2.0]),
        np.array(["2020-01-01", "NaT", "2021-01-01"], "M8[D]"),
        pd.Series(["a", None, "b"]),
        pd.Series([1, None, 2], dtype="Int64").astype(object),
        pd.Series([pd.Timestamp(0), pd.NaT, pd.Timestamp(1)]),
    ],
)
def test_missing_ids_are_refused_with_their_place(ids):
    with pytest.raises(InputError, match="Entry 1, counted from 0, has no id"):
        Observations.from_ids(ids, [0, 1, 2], [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="Entry 1, counted from 0, has no id"):
        Observations.from_ids([0, 1, 2], ids, [1.0, 2.0, 3.0])
    assert Observations.from_ids(["nan", "NaT", "None"], [0, 1, 2], [1.0, 2.0, 3.0]).shape == (3, 3)


def test_ids_that_differ_only_at_their_end_or_are_very_long():
    names = ["a", "a\0", "a\0\0", "b"]
    ids = Observations.from_ids(names, [0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0]).row_ids
    assert ids.values.tolist() == names
    assert ids.find(names).tolist() == [0, 1, 2, 3]
    many = [str(i) for i in range(20_000)] + ["x" * 100_000]
    assert Observations.from_ids(many, [0] * 20_001, np.arange(20_001.0)).row_ids.values.nbytes < 1e6


@pytest.mark.parametrize("ids", [np.array([1, 2, 1001], "M8[ns]"), np.array([0, 2**62], "M8[s]")])
def test_times_that_would_become_one_id_are_refused(ids):
    """Times are known by their microsecond, and so 1 ns and 2 ns were one."""
    with pytest.raises(InputError, match="finer than a microsecond or out of range"):
        Observations.from_ids(ids, np.arange(ids.size), np.ones(ids.size))
    whole = np.array([1000, 2000, "NaT"], "M8[ns]")
    assert Identifiers(whole[:2]).find(whole).tolist() == [0, 1, -1]


RAGGED = [[1, 2], [3]]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Observations.from_sparse(np.eye(2)), "A sparse matrix of scipy is needed, not ndarray"),
        (lambda: Observations.from_coo([0], [0], [1.0], 5), "The shape must be two whole numbers"),
        (lambda: Observations.from_coo([0], [0], [1.0], (2.5, 2)), "The shape must be two whole numbers"),
        (lambda: Observations.from_coo(RAGGED, [0, 1], [1.0, 2.0]), "This is no array"),
        (lambda: Observations.from_dense(RAGGED), "This is no array"),
        (lambda: Observations.from_coo([0], [0], [1.0], (1, 1), None, None, [10**400]), "Weights must be numbers"),
        (lambda: Observations.from_ids(["a"], None, [1.0]), "A list of ids is needed, not NoneType"),
        (lambda: Identifiers.of(["a"]).positions([["a"]], "row"), "Ids must be hashable"),
        (lambda: Identifiers.of(["a"]).positions((name for name in "ab"), "row"), "Unknown row 'b'"),
    ],
)
def test_what_is_no_table_at_all_is_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence) as refused:
        call()
    assert "\n" not in str(refused.value)
