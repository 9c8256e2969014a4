"""Tables about rows or columns."""

import gzip

import numpy as np
import pytest

from lorank.errors import InputError
from lorank.side_information.encoding import Encoding
from lorank.tables.side_tables import read_features, read_side_table


def test_columns_by_name_with_the_ids_first(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text('title,id,year\n"Good, Bad",7,1966\n,8,\n')
    found = read_side_table(path, "id")
    assert {name: column.tolist() for name, column in found.items()} == {
        "id": ["7", "8"],
        "title": ["Good, Bad", ""],
        "year": ["1966", ""],
    }


def test_parquet_keeps_its_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"id": [3, 4], "age": [1.5, 2.5]}), tmp_path / "users.parquet")
    found = read_side_table(tmp_path / "users.parquet")
    assert list(found) == ["id", "age"]
    assert found["id"].dtype.kind == "i"
    assert found["age"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id\n1\n2\n", "one column"),
        ("id,a\n1,2\n1,3\n", "the id '1' more than once"),
        ("id,a\n", "no lines"),
        ("id,a,a\n1,2,3\n", "2 columns called 'a'"),
        (f"id,a\n1,{'x' * (9 << 20)}\n", "field larger"),
    ],
)
def test_what_is_no_such_table(tmp_path, text, sentence):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_side_table(path)


@pytest.mark.parametrize("content", [b"id,a\n1,2\n" + b"3,4\n" * 20_000 + b"\xff\xfe", b"PAR1 and no more"])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_damaged_tables_are_refused_in_one_sentence(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_side_table(path)


def test_parquet_without_lines_and_with_text_that_is_none(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"id": pa.array([], pa.int64()), "a": pa.array([], pa.string())}), path)
    with pytest.raises(InputError, match="no lines"):
        read_side_table(path)
    # Arrow's own ArrowException, which is no ValueError.
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    parquet.write_table(pa.table({"id": [1], "a": broken}), path)
    with pytest.raises(InputError, match="damaged"):
        read_side_table(path)


def test_a_long_text_does_not_make_all_texts_long(tmp_path):
    """One title of 100 kB among 20,000 would take 8 GB as numpy's text."""
    path = tmp_path / "t.csv"
    lines = "".join(f"{i},t{i % 5}\n" for i in range(20_000))
    path.write_text(f"id,title\n{lines}20000,{'x' * 100_000}\n")
    table = read_features(path)
    encoding, matrix = Encoding.learn(table)
    assert encoding.width == 6
    assert matrix.shape == (20_001, 6)
    again = encoding.encode(table)
    np.testing.assert_array_equal(again.toarray()[-1], matrix.toarray()[-1])


def test_long_cells_are_held_against_the_memory_that_is_free(tmp_path, monkeypatch):
    """Lines were counted, and not what is in them: 6 MB of csv.gz took 6 GB."""
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"id,title\n" + b"".join(b"%d,%s\n" % (i, b"x" * 100_000) for i in range(1000))))
    free = iter(range(80, -1, -20))  # MB, one look after the other
    monkeypatch.setattr("lorank.memory.free_memory", lambda: next(free) << 20)
    with pytest.raises(MemoryError, match=r"lines of .* and more would take"):
        read_side_table(path)
