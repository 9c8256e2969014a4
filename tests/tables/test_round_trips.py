"""What is written is read back: any ids, any values, every format."""

import io
import string

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lorank import tables
from lorank.observations import Observations
from lorank.tables.names import as_model_spells, spelled
from lorank.tables.wide import WideTable

VALUES = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers(-(10**17), 10**17)
# Any text that UTF-8 holds, with what csv must quote among it; an id is not empty.
TEXT = st.text(
    st.one_of(st.sampled_from(" ,;\t\"'|:\r\n"), st.characters(exclude_categories=("Cs", "Cc"))), min_size=1, max_size=6
)
DIGITS = st.text("0123456789+-", min_size=1, max_size=4)
DATES = st.datetimes().map(lambda moment: np.datetime64(moment, "us"))


def long_tables(ids):
    """Distinct pairs of ids, with values."""
    pairs = st.lists(st.tuples(ids, ids), min_size=1, max_size=12, unique=True)
    return pairs.flatmap(
        lambda found: st.lists(VALUES, min_size=len(found), max_size=len(found)).map(
            lambda values: ([row for row, _ in found], [col for _, col in found], values)
        )
    )


def entries(observations):
    rows, cols = observations.row_ids.values.tolist(), observations.col_ids.values.tolist()
    where = ((rows[i], cols[j]) for i, j in zip(observations.rows.tolist(), observations.cols.tolist()))
    return dict(zip(where, observations.values.tolist()))


def expected(rows, cols, values):
    """The entries by ids in the type that a file's ids have."""
    known = [dict(zip(names, spelled(list(names)).tolist())) for names in (dict.fromkeys(rows), dict.fromkeys(cols))]
    return {(known[0][row], known[1][col]): value for row, col, value in zip(rows, cols, values)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet"])
@pytest.mark.parametrize("ids", [INTEGERS, TEXT, DIGITS], ids=["integers", "text", "digits"])
def test_long_tables(folder, name, ids):
    @settings(deadline=None, max_examples=60)
    @given(long_tables(ids))
    def check(table):
        rows, cols, values = table
        tables.write(folder / name, {"user": np.array(rows), "item": np.array(cols), "rating": np.array(values)})
        delimiter = {"a.csv": ",", "a.tsv": "\t"}.get(name)
        found, columns = tables.read(folder / name, "user", "item", "rating", delimiter=delimiter)
        assert columns == ("user", "item", "rating")
        assert entries(found) == expected(rows, cols, values)

    check()


@settings(deadline=None, max_examples=40)
@given(long_tables(DATES))
def test_dates_in_parquet(folder, table):
    rows, cols, values = table
    columns = {"row": np.array(rows), "col": np.array(cols), "value": np.array(values)}
    tables.write(folder / "dates.parquet", columns)
    found, _ = tables.read(folder / "dates.parquet")
    pairs = zip((row.item() for row in rows), (col.item() for col in cols))
    assert entries(found) == dict(zip(pairs, values))
    # Whatever unit an array of dates has, it finds them.
    days = np.array(rows).astype("datetime64[D]")
    at_midnight = days == np.array(rows)
    positions = found.row_ids.find(days)
    assert (positions[at_midnight] >= 0).all()


@pytest.mark.parametrize("parts", [1, 3])
@settings(deadline=None, max_examples=30)
@given(long_tables(TEXT))
def test_tables_written_in_parts(folder, parts, table):
    rows, cols, values = (np.array(column) for column in table)
    for name in ("p.csv", "p.parquet"):
        with tables.appending(folder / name) as append:
            for part in np.array_split(np.arange(rows.size), parts):
                append({"row": rows[part], "col": cols[part], "value": values[part]})
        found, _ = tables.read(folder / name, "row", "col", "value", delimiter="," if name == "p.csv" else None)
        assert entries(found) == expected(*table)


@settings(deadline=None, max_examples=40)
@given(st.one_of(long_tables(INTEGERS), long_tables(TEXT.filter(lambda text: "\0" not in text))))
def test_triplets_in_npz(folder, table):
    rows, cols, values = (np.array(column) for column in table)
    np.savez(folder / "a.npz", rows=rows, cols=cols, values=values)
    assert entries(tables.read(folder / "a.npz")[0]) == dict(zip(zip(*table[:2]), table[2]))


MATRICES = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda shape: st.dictionaries(
        st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1)), VALUES, min_size=1
    ).map(lambda cells: (shape, cells))
)


@settings(deadline=None, max_examples=40)
@given(MATRICES)
@example(((2, 2), {(0, 1): 0.0}))
def test_sparse_matrices(folder, matrix):
    shape, cells = matrix
    rows, cols = zip(*cells)
    X = sp.coo_array((list(cells.values()), (rows, cols)), shape=shape)
    sp.save_npz(folder / "s.npz", X)
    buffer = io.BytesIO()
    # Left to guess, scipy takes stored zeros for none, writes a symmetric matrix and loses them above the diagonal.
    scipy.io.mmwrite(buffer, X, precision=17, symmetry="general")
    (folder / "s.mtx").write_bytes(buffer.getvalue())
    for name in ("s.npz", "s.mtx"):
        found = tables.read(folder / name)[0]
        assert found.shape == shape
        assert dict(zip(zip(found.rows.tolist(), found.cols.tolist()), found.values.tolist())) == cells


@settings(deadline=None, max_examples=40)
@given(MATRICES, st.sampled_from(["\n", "\r\n"]), st.sampled_from([",", ";", "\t"]))
def test_wide_tables_keep_what_was_there(folder, matrix, end, delimiter):
    (m, n), cells = matrix
    header = ["name", *(f"c{j}" for j in range(n))]
    body = [[f"r{i}", *(repr(cells[i, j]) if (i, j) in cells else "" for j in range(n))] for i in range(m)]
    text = end.join(delimiter.join(line) for line in [header, *body]) + end
    (folder / "w.csv").write_bytes(text.encode())
    table = WideTable.read(folder / "w.csv", "name", delimiter, header=True)
    assert Observations.from_dense(table.values).nnz == len(cells)
    assert {(i, j): table.values[i, j] for i, j in cells} == cells
    filled = table.filled(dict.fromkeys(table.names, [7.0] * m), str).decode().split(end)
    for i, line in enumerate(filled[1 : m + 1]):
        assert line.split(delimiter) == [body[i][0], *(field or "7.0" for field in body[i][1:])]


@given(st.lists(st.one_of(INTEGERS.map(str), DIGITS, st.text(string.printable, min_size=1)), min_size=1, unique=True))
def test_ids_stay_apart(names):
    """However ids are spelled, different ones stay different, and are found again under their own spelling."""
    ids = spelled(names)
    assert len(set(ids.tolist())) == len(names)
    if ids.dtype.kind == "i":
        assert [str(name) for name in ids.tolist()] == names
    observations = Observations.from_ids(ids, np.zeros(len(names), int), np.ones(len(names)))
    asked = as_model_spells(np.array(names), observations.row_ids)
    assert observations.row_ids.values[observations.row_ids.find(asked)].tolist() == ids.tolist()
