"""Parquet files in batches: types of ids and values, and what is refused."""

import subprocess
import sys
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from lorank import tables
from lorank.errors import InputError
from lorank.tables import parquet
from lorank.tables.side_tables import read_side_table


def put(folder, row, col, value, name="a.parquet"):
    pq.write_table(pa.table({"row": row, "col": col, "value": value}), folder / name)
    return folder / name


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (pa.array([7, 8], pa.int8()), pa.int64()),
        (pa.array(["a", "b"]), pa.large_string()),
        (pa.array(["a", "b"]).dictionary_encode(), pa.large_string()),
        (pa.array([date(2024, 5, 31), date(1, 1, 1)]), pa.timestamp("us")),
        (pa.array([datetime(2024, 5, 31), datetime(2024, 6, 1)], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([0.5, 1.5]), pa.float64()),
    ],
)
def test_ids_by_type(tmp_path, ids, kind):
    path = put(tmp_path, ids, pa.array([1, 2]), pa.array([1.0, 2.0]))
    ((rows, _, _, _),) = parquet.batches(path, "row", "col", "value")
    assert rows.type == kind
    assert rows.to_pylist() == [
        datetime(one.year, one.month, one.day) if isinstance(one, date) else one for one in ids.to_pylist()
    ]
    found, _ = tables.read(path)
    assert found.row_ids.values.size == 2


@pytest.mark.parametrize(
    ("values", "read"),
    [
        (pa.array([1, None, 3]), [1, np.nan, 3]),
        (pa.array([True, False, None]), [1, 0, np.nan]),
        (pa.array(["1.5", "2", None]), [1.5, 2, np.nan]),
        (pa.array([2**53 + 1, 1, 2]), [2.0**53, 1, 2]),
    ],
    ids=["integers", "booleans", "spelled", "large"],
)
def test_values_by_type(tmp_path, values, read):
    path = put(tmp_path, pa.array([1, 2, 3]), pa.array([1, 2, 3]), values)
    np.testing.assert_array_equal(next(parquet.batches(path, "row", "col", "value"))[2], read)
    assert np.isnan(next(parquet.batches(path, "row", "col", None))[2]).all()


def test_what_is_wrong_is_named(tmp_path):
    ids, ones = pa.array(range(5)), pa.array(np.ones(5))
    for missing in (["a", "b", "c", None, "e"], [1.0, 2.0, 3.0, float("nan"), 5.0]):
        path = put(tmp_path, pa.array(missing), ids, ones)
        with pytest.raises(InputError, match=r"Line 4 of .* has no id in column 'row'; give one or drop the line"):
            list(parquet.batches(path, "row", "col", "value", size=2))
    path = put(tmp_path, ids, ids, pa.array(["good", "1", "2", "3", "4"]))
    with pytest.raises(InputError, match=r"Column 'value' of .* holds string, and values must be numbers"):
        tables.read(path)
    path = put(tmp_path, ids, ids, pa.array([1.0, np.inf, 1, 1, 1]))
    with pytest.raises(InputError, match="holds infinity in 'value'"):
        tables.read(path)
    with pytest.raises(InputError, match="no column 'vale'; did you mean 'value'"):
        tables.read(path, "row", "col", "vale")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="is damaged or not Parquet"):
        tables.read(path)
    path.unlink()
    with pytest.raises(InputError, match="is gone"):
        parquet.open_parquet(path)


def test_text_that_is_not_utf8_is_refused(tmp_path):
    """Found by damaged files: a fit of a folder ended in Arrow's own exception."""
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    path = put(tmp_path, broken, pa.array([1]), pa.array([1.0]))
    with pytest.raises(InputError, match="is damaged"):
        list(parquet.batches(path, "row", "col", "value"))


def test_a_folder_of_files(tmp_path):
    with pytest.raises(InputError, match="no Parquet file"):
        parquet.parquet_files(tmp_path)
    ids = pa.array([1, 2])
    for name in ("b.parquet", "a.parquet", "_hidden.parquet"):
        put(tmp_path, ids, ids, pa.array([1.0, 2.0]), name)
    files = parquet.parquet_files(tmp_path)
    assert files == [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    assert parquet.parquet_files(files[0]) == files[:1]
    assert parquet.count_lines(files) == 4
    assert parquet.column_names(files[0]) == ("row", "col", "value")


def test_valid_files_of_unusual_types(tmp_path):
    large = pa.array([1, 2**63 + 5, 2**64 - 1], pa.uint64())
    found = tables.read(put(tmp_path, large, pa.array([1, 2, 3]), pa.array([2**53 + 1, 2, 3], pa.int64())))[0]
    assert found.row_ids.values.tolist() == ["1", "18446744073709551615", "9223372036854775813"]
    wide = pa.table({"name": ["a", "b"], "x": pa.array([2**53 + 1, None]), "y": [1.0, 2.0]})
    pq.write_table(wide, tmp_path / "wide.parquet")
    assert tables.read(tmp_path / "wide.parquet", "name")[0].nnz == 3
    lists = pa.array([[1], [2], [3]])
    for row, value in ((lists, pa.array([1.0, 2, 3])), (pa.array([1, 2, 3]), lists)):
        with pytest.raises(InputError, match="holds list"):
            tables.read(put(tmp_path, row, pa.array([1, 2, 3]), value))
    twice = pa.Table.from_arrays([pa.array([1, 2]), pa.array([1, 2]), pa.array([1.0, 2.0])], ["id", "id", "value"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="2 columns called 'id'"):
        tables.read(tmp_path / "twice.parquet")


def test_a_table_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    """Zeros are packed to nothing: the file says how many there are."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"name": ["a"] * 100_000, "x": np.zeros(100_000), "y": np.zeros(100_000)}), path)
    monkeypatch.setattr("lorank.memory.free_memory", lambda: 1_000_000)
    for read in (parquet.read_wide, read_side_table):
        with pytest.raises(MemoryError, match="are free"):
            read(path)


@pytest.mark.parametrize(("ids", "unit"), [([1, 2], "ns"), ([0, 2**62], "ms")])
def test_times_that_would_become_one_id_are_refused(tmp_path, ids, unit):
    path = put(tmp_path, pa.array(ids, pa.timestamp(unit)), [0, 1], [1.0, 2.0])
    with pytest.raises(InputError, match=r"'row' of .*finer than a microsecond or out of range"):
        list(parquet.batches(path, "row", "col", "value"))


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_long_text_on_every_line_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, dictionary):
    """A quarter of a megabyte of Parquet, with a text of 1 MB on each of 20,000 lines, took 20 GB."""
    path, n = tmp_path / "t.parquet", 500
    table = pa.table({"u": ["x" * 100_000] * n, "i": range(n), "v": np.ones(n)})
    pq.write_table(table, path, use_dictionary=dictionary, compression="zstd")
    assert path.stat().st_size < 30_000
    monkeypatch.setattr("lorank.memory.free_memory", lambda: 100 << 20)
    for what in (lambda: tables.read(path), lambda: read_side_table(path)):
        with pytest.raises(MemoryError, match="are free; give"):
            what()


def test_long_ids_of_one_length_are_no_copies(tmp_path):
    """They were numpy's text, of which a model's answers take one for each pair: 3 kB on 20,000 lines were 240 MB."""
    path, n = tmp_path / "t.parquet", 200
    pq.write_table(pa.table({"u": ["x" * 3000] * n, "i": range(n), "v": np.ones(n)}), path)
    observations, _ = tables.read(path)
    assert observations.row_ids.values.dtype == object
    assert observations.row_ids.values.tolist() == ["x" * 3000]


# What a process has more by reading a table, in bytes a line.
GROWN = """
import sys, psutil
from lorank import tables
from lorank.tables import parquet
if sys.argv[2] == "keep":
    parquet.release_memory = lambda: None
before = psutil.Process().memory_info().rss
observations, _ = tables.read(sys.argv[1], "row", "col", "value")
print((psutil.Process().memory_info().rss - before) / observations.nnz)
"""


@pytest.mark.skipif(pa.default_memory_pool().backend_name != "mimalloc", reason="another pool may keep nothing")
def test_memory_of_the_table_is_given_back(tmp_path):
    """Columns of 24 bytes a line, a row group at a time; observations have 12 of them."""
    lines = np.arange(1_000_000)
    path = put(tmp_path, lines // 100, lines % 100, (lines % 7).astype(np.float32))
    kept, released = (
        float(subprocess.run([sys.executable, "-c", GROWN, path, how], capture_output=True, check=True).stdout)
        for how in ("keep", "release")
    )
    assert released < kept - 20
