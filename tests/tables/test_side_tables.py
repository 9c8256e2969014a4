"""Tables about rows or columns."""

import pytest

from lorank.errors import InputError
from lorank.tables.side_tables import read_side_table


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
    ],
)
def test_what_is_no_such_table(tmp_path, text, sentence):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_side_table(path)
