"""Tables in every format say the same, and what is wrong with them is told with its line."""

import bz2
import gc
import gzip
import lzma
import sys
import tracemalloc
import weakref
import zipfile
from contextlib import suppress
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse
from pyarrow import parquet

from lorank import InputError, tables
from lorank.observations.identifiers import Identifiers
from lorank.tables import delimited, side_tables
from lorank.tables.names import as_model_spells, spelled
from lorank.tables.wide import WideTable

LONG = "user,item,rating\nann,7,3\nbob,8,4.5\nann,8,\ncy,7,NaN\nbob,7,1e0\n"


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def entries(observations):
    """What was observed, by ids."""
    rows, cols = observations.row_ids.values, observations.col_ids.values
    where = zip(rows[observations.rows].tolist(), cols[observations.cols].tolist())
    return dict(zip(where, observations.values.tolist()))


EXPECTED = {("ann", 7): 3.0, ("bob", 8): 4.5, ("bob", 7): 1.0}


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", "::", " "])
def test_any_delimiter(tmp_path, delimiter):
    path = put(tmp_path, "a.txt", LONG.replace(",", delimiter))
    assert delimited.sniff(path).delimiter == delimiter
    found, columns = tables.read(path)
    assert entries(found) == EXPECTED
    assert columns == ("user", "item", "rating")


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_compressed(tmp_path, suffix, pack):
    assert entries(tables.read(put(tmp_path, f"a.csv{suffix}", pack(LONG.encode())))[0]) == EXPECTED


def test_zip_of_one_file_and_of_two(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", LONG)
    assert entries(tables.read(tmp_path / "a.zip")[0]) == EXPECTED
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("a.csv", LONG)
        archive.writestr("b.csv", LONG)
    with pytest.raises(InputError, match="holds 2 files"):
        tables.read(tmp_path / "b.zip")


def test_a_cut_off_archive(tmp_path):
    packed = gzip.compress(("user,item,rating\n" + "".join(f"{i},{i},1\n" for i in range(10000))).encode())
    with pytest.raises(InputError, match="damaged"):
        tables.read(put(tmp_path, "a.csv.gz", packed[:-200]))


def test_parquet_says_the_same(tmp_path):
    users, items = ["ann", "bob", "ann", "cy", "bob"], [7, 8, 8, 7, 7]
    table = pa.table({"user": users, "item": items, "rating": [3, 4.5, None, float("nan"), 1]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert entries(tables.read(tmp_path / "a.parquet")[0]) == EXPECTED


def test_dates_as_ids(tmp_path):
    days = [datetime(2020, 1, 2), datetime(2020, 1, 1)]
    parquet.write_table(pa.table({"s": ["a", "a"], "t": days, "v": [1.0, 2.0]}), tmp_path / "a.parquet")
    found = tables.read(tmp_path / "a.parquet")[0]
    assert entries(found) == {("a", days[0]): 1.0, ("a", days[1]): 2.0}


def test_matrices(tmp_path):
    X = scipy.sparse.coo_array(([5.0, 0.0], ([0, 2], [0, 1])), shape=(3, 2))
    scipy.sparse.save_npz(tmp_path / "a.npz", X)
    scipy.io.mmwrite(tmp_path / "a.mtx", X)
    np.save(tmp_path / "a.npy", np.array([[5, np.nan], [np.nan, np.nan], [np.nan, 0.0]]))
    np.savez(tmp_path / "b.npz", rows=[0, 2], cols=[0, 1], values=[5.0, 0.0])
    for name in ("a.npz", "a.mtx", "a.npy", "b.npz"):
        found = tables.read(tmp_path / name)[0]
        assert found.nnz == 2, name
        assert found.values.tolist() == [5.0, 0.0], name


def test_netcdf(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    months = np.array(["2020-01", "2020-02"], "datetime64[ns]")
    values = xarray.DataArray(
        [[1.0, np.nan], [2.0, 3.0]], {"station": ["a", "b"], "time": months}, ("station", "time"), name="t"
    )
    values.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    found = tables.read(tmp_path / "a.nc")[0]
    january, february = datetime(2020, 1, 1), datetime(2020, 2, 1)
    assert entries(found) == {("a", january): 1.0, ("b", january): 2.0, ("b", february): 3.0}


def test_a_netcdf_file_that_cannot_be_opened_prints_nothing(tmp_path, monkeypatch):
    """h5netcdf leaves a file half open, and a traceback when that goes; nobody would catch it."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    xarray.Dataset({"t": (("a", "b"), np.eye(3))}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    content = bytearray((tmp_path / "a.nc").read_bytes())
    content[content.index(b"OHDR") + 8] ^= 1  # of the first object, which has a checksum
    (tmp_path / "b.nc").write_bytes(content)
    left: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", left.append)
    with pytest.raises(InputError, match="is damaged or not NetCDF"):
        tables.read(tmp_path / "b.nc")
    gc.collect()
    assert not left


def test_byte_order_mark_quotes_and_crlf(tmp_path):
    text = '\ufeffuser,item,rating\r\n"a, b","say ""hi""",3\r\n"c\nd",x,4\r\n'
    found, columns = tables.read(put(tmp_path, "a.csv", text))
    assert columns[0] == "user"
    assert entries(found) == {("a, b", 'say "hi"'): 3.0, ("c\nd", "x"): 4.0}


def test_long_delimiter_inside_quotes_and_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK", 64)
    lines = "".join(f'u{i}::"a::b{i}"::{i}\n' for i in range(200))
    found = tables.read(put(tmp_path, "a.dat", "u::i::r\n" + lines))[0]
    assert entries(found) == {(f"u{i}", f"a::b{i}"): float(i) for i in range(200)}


def test_long_lines_are_sniffed_whole(tmp_path):
    """A header of 200 kB was cut at 64, and a long id in the first line left nothing to find columns in."""
    names = [f"column-{j:05}" for j in range(15_000)]
    lines = [",".join(["id", *names]), *(",".join([f"r{i}", *["1.5"] * len(names)]) for i in range(2))]
    found = tables.read(put(tmp_path, "wide.csv", "\n".join(lines)))[0]
    assert found.shape == (2, 15_000)
    found = tables.read(put(tmp_path, "long.csv", f"u,i,v\n{'x' * 100_000},1,2\ny,1,3\n"))[0]
    assert found.shape == (2, 1)


@pytest.mark.parametrize("at", [0, 1, 30])
def test_a_megabyte_in_one_cell(tmp_path, at):
    """Python's csv module gives up at 128 kB: the columns were found by the wrong delimiter, or not at all."""
    long = "x" * (1 << 20)
    lines = [f"u{i},a,{i}" for i in range(40)]
    lines[at] = f"{long},a,1"
    found = tables.read(put(tmp_path, "long.csv", "\n".join(["user,item,rating", *lines])))[0]
    assert (long, "a") in entries(found)
    found = tables.read(put(tmp_path, "wide.csv", f"name,a,b,c\nu,1,2,3\n{long},4,5,6"))[0]
    assert found.row_ids.values.tolist() == ["u", long]
    found = tables.read(put(tmp_path, "head.csv", f"{long},b,c,d\n1,2,3,4\n5,6,7,8"))[0]
    assert found.shape == (2, 4)


@pytest.mark.parametrize(("cell", "times"), [("", 30), ("12.5", 15)])
def test_cells_take_more_memory_than_their_text(tmp_path, cell, times, monkeypatch):
    """Empty ones 35 bytes for each byte of the file, as measured."""
    path = put(tmp_path, "t.csv", "".join(",".join([str(i), *[cell] * 99]) + "\n" for i in range(1000)))
    monkeypatch.setattr("lorank.memory.free_memory", lambda: times * path.stat().st_size)
    with pytest.raises(MemoryError, match="with its cells would take"):
        tables.read(path)


def test_a_refusal_quotes_no_megabyte(tmp_path):
    lines = f"name,a,b,c\nu,1,2,{'1' * (1 << 20)}\nv,2,3,4\nw,2,3,4\n"
    with pytest.raises(InputError, match=r"^Line 2 of .* is not a number; .* say so by --na\.$") as caught:
        tables.read(put(tmp_path, "value.csv", lines))
    assert len(str(caught.value)) < 3000
    with pytest.raises(InputError, match=r"^Line 3 of .* cannot be read \(field larger than"):
        tables.read(put(tmp_path, "huge.csv", f"u,i,r\na,b,1\n{'x' * (9 << 20)},b,1,1\n"))


def test_no_header(tmp_path):
    said = []
    found, columns = tables.read(put(tmp_path, "a.dat", "1::10::5::99\n2::10::3::98\n"), "1", "2", "3", say=said.append)
    assert columns == ("1", "2", "3")
    assert entries(found) == {(1, 10): 5.0, (2, 10): 3.0}
    assert not said
    found, _ = tables.read(put(tmp_path, "b.csv", "ann,x,5\nbob,x,3\n"), say=said.append)
    assert entries(found) == {("ann", "x"): 5.0, ("bob", "x"): 3.0}
    assert "'1' as rows" in said[0]


def test_007_and_7_are_two(tmp_path):
    found = tables.read(put(tmp_path, "a.csv", "user,item,rating\n007,1,3\n7,1,4\n"))[0]
    assert entries(found) == {("007", 1): 3.0, ("7", 1): 4.0}
    assert spelled(["1", "-20", "0"]).dtype == np.int64
    for text in ("01", "+1", "1.0", "-0", " 1", "9" * 19):
        assert spelled([text, "2"]).dtype.kind == "U", text


def test_names_take_the_models_type():
    numbers, texts = Identifiers(np.array([7, 8])), Identifiers(np.array(["007", "7"]))
    assert numbers.find(as_model_spells(np.array(["7", "x", "007"]), numbers)).tolist() == [0, -1, -1]
    assert texts.find(as_model_spells(np.array([7, 8]), texts)).tolist() == [1, -1]
    with pytest.raises(InputError, match="'x' is none"):
        as_model_spells(np.array(["x"]), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item,rating\n1,x,3\n2,y,abc\n", "Line 3 of .* has 'abc' in column 'rating', which is not a number"),
        ('user,item,rating\n1,"x\ny",3\n\n2,y,abc\n', "Line 5 of .* has 'abc'"),
        ("user,item,rating\n1,x,3\n2,y\n", "Line 3 of .* has 2 columns where 3 are needed"),
        ("user,item,rating\n1,x,3\n,y,4\n", "Line 3 of .* has no id in column 'user'"),
        ("user,item,rating\n", "a header and no lines"),
        ("", "is empty"),
        ("  \n \n", "is empty"),
        ("user,item,rating\n1,x,\n", "No line of the table has a value"),
        ("user,item,rating\n1,x,inf\n", "infinity"),
        (b"user,item,rating\n1,\xff,3\n", "not UTF-8"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        tables.read(put(tmp_path, "a.csv", text))


def test_an_error_far_down_is_found_by_line(tmp_path):
    lines = "".join(f"{i},{i},1\n" for i in range(50_000))
    with pytest.raises(InputError, match=r"Line 50002 of .* has '5,0'"):
        tables.read(put(tmp_path, "a.csv", f'user,item,rating\n{lines}1,2,"5,0"\n'))


def test_columns_are_suggested_and_needed(tmp_path):
    path = put(tmp_path, "a.csv", "user,item,rating,when\n1,2,3,4\n")
    with pytest.raises(InputError, match="no column 'raiting'; did you mean 'rating'"):
        tables.read(path, "user", "item", "raiting")
    with pytest.raises(InputError, match="needs row, col and value"):
        tables.read(path, "user", "item")
    with pytest.raises(InputError, match="There is no file"):
        tables.read(tmp_path / "b.csv")
    with pytest.raises(InputError, match="is a folder"):
        tables.read(tmp_path)


def test_duplicates(tmp_path):
    path = put(tmp_path, "a.csv", "u,i,r\n1,x,3\n2,x,1\n1,x,5\n1,x,\n")
    with pytest.raises(InputError, match=r"\(1, x\) is given more than once; choose duplicates 'mean' or 'last'"):
        tables.read(path)
    assert entries(tables.read(path, duplicates="mean")[0]) == {(1, "x"): 4.0, (2, "x"): 1.0}
    assert entries(tables.read(path, duplicates="last")[0]) == {(1, "x"): 5.0, (2, "x"): 1.0}
    with pytest.raises(InputError, match="duplicates must be one of"):
        tables.read(path, duplicates="first")


WIDE = '\ufeffname,"a,1",b,note\r\n"x, 0",1.50,,good\r\n\r\n"y ""q""",,2.0e0,\r\nz, 3,NaN,bad'.encode()


def test_wide_tables_are_kept_byte_for_byte(tmp_path):
    path = put(tmp_path, "a.csv", WIDE)
    table = WideTable.read(path)
    assert table.row_ids.tolist() == ["x, 0", 'y "q"', "z"]
    assert table.col_ids.tolist() == ["a,1", "b"]
    assert table.text_columns == ["note"]
    np.testing.assert_array_equal(table.values, [[1.5, np.nan], [np.nan, 2.0], [3.0, np.nan]])
    typed = table.typed().to_pydict()
    assert typed["b"] == [None, 2.0, None]
    assert typed["note"] == ["good", None, "bad"]
    columns = typed | {"a,1": [9.0] * 3, "b": [9.0] * 3, "note": ["good"] * 3}
    filled = table.filled(columns, lambda number: f"{number:g}")
    expected = WIDE.replace(b"1.50,,", b"1.50,9,").replace(b'""",,', b'""",9,').replace(b"NaN", b"9")
    assert filled == expected.replace(b"2.0e0,\r", b"2.0e0,good\r")
    nothing = WideTable.read(path)
    assert nothing.filled(typed, str) == WIDE


def test_classes_are_spelled_as_in_the_file_and_whole_numbers_stay_whole(tmp_path):
    text = 'n;n;town\n1; 2.0 ;"a; b"\n-7;;\n;1e3; x \n+3;4;x\n'
    table = WideTable.read(put(tmp_path, "a.csv", text), delimiter=";")
    typed = table.typed()
    assert typed.column_names == ["n", "n (2)", "town"]
    assert [str(field.type) for field in typed.schema] == ["int64", "double", "large_string"]
    assert typed["n"].to_pylist() == [1, -7, None, 3]
    columns = {"n": [0, 0, 1234567890, 0], "n (2)": [0.0, 1 / 3, 0.0, 0.0], "town": ["", "a; b", "", ""]}
    filled = table.filled(columns, lambda number: f"{number:.2g}").decode()
    assert filled == 'n;n;town\n1; 2.0 ;"a; b"\n-7;0.33;"a; b"\n1234567890;1e3; x \n+3;4;x\n'


def test_wide_tables_tell_what_is_wrong(tmp_path):
    with pytest.raises(InputError, match=r"Line 3 of .* has '1.2.3' in column 'b'"):
        WideTable.read(put(tmp_path, "a.csv", "n,a,b\nx,1,2\ny,3,1.2.3\nz,1,2\n"))
    with pytest.raises(InputError, match=r"Line 3 of .* has 2 columns where 3"):
        WideTable.read(put(tmp_path, "b.csv", "n,a,b\nx,1,2\ny,3\n"))
    with pytest.raises(InputError, match="line 2 is never closed"):
        WideTable.read(put(tmp_path, "c.csv", 'n,a,b\n"x,1,2\n'))


def test_a_wide_table_can_be_read(tmp_path):
    text = "station,1990,1991,1992\n17,1,,3\n18,2,3,NA\n"
    found, columns = tables.read(put(tmp_path, "a.csv", text), "station")
    assert columns is None
    assert entries(found) == {(17, "1990"): 1, (17, "1992"): 3, (18, "1990"): 2, (18, "1991"): 3}
    assert tables.read(tmp_path / "a.csv")[0].shape == (2, 4)  # nothing says that 17 and 18 are names


def test_written_tables_come_back(tmp_path):
    columns = {"user": np.array(["a,b", 'q"']), "item": np.array([7, 8]), "rating": np.array([0.1, 1 / 3])}
    for name in ("a.csv", "a.tsv", "a.parquet"):
        tables.write(tmp_path / name, columns)
        assert entries(tables.read(tmp_path / name)[0]) == {("a,b", 7): 0.1, ('q"', 8): 1 / 3}
    with pytest.raises(InputError, match="should end in"):
        tables.write(tmp_path / "a.xlsx", columns)
    tables.write(tmp_path / "b.csv", {"x": np.array(["plain"]), "y": np.array([1.5])})
    assert (tmp_path / "b.csv").read_text() == "x,y\nplain,1.5\n"


@pytest.mark.slow
def test_twenty_million_lines_in_two_gigabytes(tmp_path):
    import subprocess
    import sys

    users, each = 20_000, 1000
    with open(tmp_path / "a.csv", "w") as file:
        file.write("user,item,rating\n")
        for user in range(users):
            file.writelines(f"{user},{(user + 7 * i) % 20011},{i % 5 + 1}\n" for i in range(each))
    code = (
        "import resource, sys; from lorank.tables import reading as tables\n"
        "observations, _ = tables.read(sys.argv[1])\n"
        "print(observations.nnz, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    out = subprocess.run([sys.executable, "-c", code, tmp_path / "a.csv"], capture_output=True, text=True, check=True)
    entries_read, kilobytes = map(int, out.stdout.split()[-2:])
    assert entries_read == users * each
    assert kilobytes < 2 * 1024**2


def test_a_quote_that_is_never_closed_is_found_in_one_pass(tmp_path):
    """A pass for each line would take minutes here."""
    path = put(tmp_path, "a.csv", 'a,b,c,d\n"1,2,3,4\n' + "1,2,3,4\n" * 300_000)
    with pytest.raises(InputError, match="opens in line 2 is never closed"):
        tables.read(path)


@pytest.mark.parametrize("name", ["a.npz", "b.npz", "c.npy"])
def test_a_refused_array_says_in_which_file_it_is(tmp_path, name):
    """What is wrong is found where nothing of files is known."""
    forged = scipy.sparse.csr_matrix(np.eye(3))
    forged.indptr = np.array([0, 1 << 28, 2, 3])
    scipy.sparse.save_npz(tmp_path / "a.npz", forged)
    np.savez(tmp_path / "b.npz", rows=[0, 0], cols=[1, 1], values=[5.0, 0.0])
    np.save(tmp_path / "c.npy", np.full((2, 2), np.inf))
    with pytest.raises(InputError, match=name):
        tables.read(tmp_path / name)


def test_names_of_others_are_on_one_line(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, **{"one\nline\x1b[31m": np.eye(2), "other": np.eye(2)})
    with pytest.raises(InputError, match="name the array that is meant") as refused:
        tables.read(path)
    assert str(refused.value).isprintable()


def test_a_line_end_within_a_number_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read as a table") as error:
        tables.read(put(tmp_path, "a.csv", 'user,item,rating\nann,7,"3\n"\nbob,8,4\n'))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["a,b,c\nx,y,1\nx,z,2,3\n", "a,b,c\nx,y,z\n", "a,b,c\n", "a,b,c\nx,y,1\n"])
def test_no_thread_of_arrow_holds_a_file_when_it_was_read_or_refused(tmp_path, monkeypatch, content):
    """A thread that lets go of it while Python ends aborts the process: the exit code of a refused table was 134."""
    held = []

    class Watched(delimited._Lent):
        def __init__(self, *given):
            super().__init__(*given)
            held.append(weakref.ref(self))

    monkeypatch.setattr(delimited, "_Lent", Watched)
    (tmp_path / "a.csv").write_text(content)
    with suppress(InputError):
        tables.read(tmp_path / "a.csv")
    assert held
    assert not any(lent() for lent in held)


def test_a_line_without_an_end_is_not_unpacked_whole(tmp_path):
    """100 kB of gz are a line of 100 MB, of which one part after the other is looked at."""
    path = put(tmp_path, "a.csv.gz", gzip.compress(LONG.encode() + b"a" * 100_000_000, 9))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"a\.csv\.gz"):
            tables.read(path)
        with pytest.raises(InputError, match=r"a\.csv\.gz"):
            side_tables.read_side_table(path)
        assert tracemalloc.get_traced_memory()[1] < 200_000_000  # 318 MB were taken before
    finally:
        tracemalloc.stop()


def test_there_is_room_for_a_column_that_is_joined(tmp_path, monkeypatch):
    """Else the system ends the process, after minutes: a small file can be many equal lines."""
    path = put(tmp_path, "a.csv", "u,i,v\n" + "a,b,1\n" * 1000)
    monkeypatch.setattr("lorank.memory.free_memory", lambda: 20_000)
    with pytest.raises(MemoryError, match=r"1000 lines of .* would take"):
        tables.read(path, duplicates="mean")


def test_an_npy_file_that_does_not_fit_is_not_begun(tmp_path, monkeypatch):
    """A file with holes takes no room on the disk; the system ends the process that reads it."""
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2000, 1000)})
        file.truncate(16_000_128)
    monkeypatch.setattr("lorank.memory.free_memory", lambda: 8_000_000)
    with pytest.raises(MemoryError, match=r"^The array of .*a\.npy would take"):
        tables.read(tmp_path / "a.npy")
