import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse as sp

from lorank import datasets
from lorank.errors import InputError
from lorank.observations import Observations
from lorank.tables import delimited

DAT = "5::20::3.5::1000000000\n5::10::4::1000000000\n9::20::0.5::1000000000\n"
DENSE = np.array([[4, 3.5], [np.nan, 0.5]])


def dense(observations):
    X = np.full(observations.shape, np.nan)
    X[observations.rows, observations.cols] = observations.values
    return X


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode())


def write_zip(folder, name, member, content):
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("README", "not ratings")
        archive.writestr(member, content)


def check_dat(observations):
    np.testing.assert_array_equal(dense(observations), DENSE)
    assert observations.row_ids.values.tolist() == [5, 9]
    assert observations.col_ids.values.tolist() == [10, 20]


@pytest.mark.parametrize(
    "content",
    [DAT, DAT.replace("\n", "\r\n"), DAT + "\n", DAT + "\r\n\r\n", DAT.rstrip("\n")],
    ids=["plain", "crlf", "blank line", "crlf blank lines", "no last newline"],
)
def test_movielens_10m_reads_every_line_end(tmp_path, content):
    write(tmp_path, "ratings.dat", content)
    check_dat(datasets.movielens_10m(tmp_path))


@pytest.mark.parametrize("block", [30, 47, 60])
def test_blocks_of_any_size_give_the_same(tmp_path, monkeypatch, block):
    monkeypatch.setattr(delimited, "BLOCK", block)
    write(tmp_path, "ratings.dat", DAT)
    check_dat(datasets.movielens_10m(tmp_path))


@pytest.mark.parametrize(("load", "folder"), [(datasets.movielens_1m, "ml-1m"), (datasets.movielens_10m, "ml-10M100K")])
def test_movielens_from_its_folder_or_archive(tmp_path, load, folder):
    write(tmp_path, f"{folder}/ratings.dat", DAT)
    check_dat(load(tmp_path))
    other = tmp_path / "zipped"
    other.mkdir()
    write_zip(other, "ml-1m.zip" if folder == "ml-1m" else "ml-10m.zip", f"{folder}/ratings.dat", DAT)
    check_dat(load(other))


def test_movielens_100k_from_file_and_archive(tmp_path):
    content = DAT.replace("::", "\t")
    write_zip(tmp_path, "ml-100k.zip", "ml-100k/u.data", content)
    check_dat(datasets.movielens_100k(tmp_path))
    write(tmp_path, "ml-100k/u.data", content)
    check_dat(datasets.movielens_100k(tmp_path))


def test_movielens_1m_prefers_the_papers_matrix(tmp_path):
    write(tmp_path, "ratings.dat", DAT)
    scipy.io.savemat(tmp_path / "movielens1m.mat", {"data": sp.csc_matrix([[0.0, 5, 0], [1, 0, 2]])})
    observations = datasets.movielens_1m(tmp_path)
    np.testing.assert_array_equal(dense(observations), [[np.nan, 5, np.nan], [1, np.nan, 2]])
    assert observations.row_ids.values.tolist() == [1, 2]
    assert observations.col_ids is None


def test_movietweetings_keeps_imdb_ids_and_zeros(tmp_path):
    write_zip(tmp_path, "MovieTweetings-100K.zip", "x/ratings.dat", "1::0133093::0::13\n2::10039344::9::14\n")
    observations = datasets.movietweetings(tmp_path)
    assert observations.col_ids.values.tolist() == ["0133093", "10039344"]
    np.testing.assert_array_equal(dense(observations), [[0, np.nan], [np.nan, 9]])


def test_dtype(tmp_path):
    write(tmp_path, "ratings.dat", DAT)
    assert datasets.movielens_10m(tmp_path).dtype == np.float64
    assert datasets.movielens_10m(tmp_path, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("5::x::3::9", "has 'x' in column '2', which is not a whole number"),
        ("5::30", "has 2 columns where 4"),
        ("5::::3::9", "has '' in column '2', which is not a whole number"),
        ("7", "has 1 columns where 4"),
        ("5::3.5::3::9", "has '3.5' in column '2', which is not a whole number"),
        ("5::30::good::9", "has 'good' in column '3', which is not a number"),
        ("5:30:4:9", "has 1 columns where 4"),
    ],
)
@pytest.mark.parametrize("block", [30, 1 << 22])
def test_a_malformed_line_is_named(tmp_path, monkeypatch, bad, reason, block):
    monkeypatch.setattr(delimited, "BLOCK", block)
    write(tmp_path, "ratings.dat", DAT + "\r\n" + bad + "\r\n" + "5::40::3::9\r\n")
    with pytest.raises(InputError, match=rf"Line 5 of .*ratings\.dat {reason}"):
        datasets.movielens_10m(tmp_path)


def test_a_rating_given_twice_is_named(tmp_path):
    write(tmp_path, "ratings.dat", DAT + "9::20::1::0\n")
    with pytest.raises(InputError, match=r"\(9, 20\)"):
        datasets.movielens_10m(tmp_path)


def test_an_empty_file_is_refused(tmp_path):
    write(tmp_path, "ratings.dat", "\n")
    with pytest.raises(InputError, match="empty"):
        datasets.movielens_10m(tmp_path)


TRACK_1 = "7|2\n30\t90\t4000\t09:00:00\n10\t0\t4001\t10:00:00\n3|1\n20\t50\t5000\t11:00:00\n"
VALIDATION = "7|1\n20\t70\t5001\t11:00:00\n"
TRACK_2 = "7|2\n30\t90\n10\t0\n8|0\n3|1\n20\t50\n"


@pytest.mark.parametrize("block", [30, 47, 1 << 22])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_yahoo_track_1_joins_its_two_files(tmp_path, monkeypatch, block, end):
    monkeypatch.setattr(delimited, "BLOCK", block)
    write(tmp_path, "trainIdx1.txt", (TRACK_1 + "\n").replace("\n", end))
    write(tmp_path, "validationIdx1.txt", VALIDATION.replace("\n", end))
    observations = datasets.yahoo_music(tmp_path)
    assert observations.row_ids.values.tolist() == [3, 7]
    assert observations.col_ids.values.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(dense(observations), [[np.nan, 50, np.nan], [0, 70, 90]])


@pytest.mark.parametrize("block", [30, 47, 1 << 22])
def test_yahoo_prefers_track_2(tmp_path, monkeypatch, block):
    monkeypatch.setattr(delimited, "BLOCK", block)
    write(tmp_path, "trainIdx1.txt", "1|1\n1\t1\n")
    write(tmp_path, "track2/trainIdx2.txt", TRACK_2)
    observations = datasets.yahoo_music(tmp_path)
    assert observations.row_ids.values.tolist() == [3, 7]
    np.testing.assert_array_equal(dense(observations), [[np.nan, 50, np.nan], [0, np.nan, 90]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("7|2\n30\t90\n10\tx\n", r"Line 3 of .*trainIdx2\.txt has 'x' in column '2'"),
        ("7|2\n30\n10\t0\n", r"Line 2 of .*trainIdx2\.txt has 1 columns where 2"),
        ("7|two\n30\t90\n", r"Line 1 of .*trainIdx2\.txt has 1 columns where 2"),
        ("7|2\n30\t90\n3|1\n20\t50\n", "announces 2 ratings of user 7 and has 1"),
        ("7|2\n30\t90\n", "announces 2 ratings of user 7 and has 1"),
        ("30\t90\n7|0\n", "does not begin"),
        ("", "does not begin"),
    ],
)
def test_yahoo_names_what_is_wrong(tmp_path, content, message):
    write(tmp_path, "trainIdx2.txt", content)
    with pytest.raises(InputError, match=message):
        datasets.yahoo_music(tmp_path)


def test_standardise_uses_the_training_part_only():
    train = Observations.from_coo([0, 0, 1], [0, 1, 0], [1.0, 2.0, 6.0], shape=(2, 2))
    test = Observations.from_coo([1], [1], [3.0], shape=(2, 2))
    (scaled, scaled_test), (mean, deviation) = datasets.standardise(train, test)
    assert (mean, deviation) == (3, pytest.approx(np.sqrt(14 / 3)))
    assert scaled.values.mean() == pytest.approx(0)
    assert scaled.values.std() == pytest.approx(1)
    assert scaled_test.values.tolist() == [0]
    np.testing.assert_allclose(scaled.values * deviation + mean, train.values)


def test_standardise_refuses_constants():
    with pytest.raises(InputError, match="no deviation"):
        datasets.standardise(Observations.from_coo([0, 1], [0, 1], [2.0, 2.0]))


@pytest.mark.parametrize("layout", ["lines", "grouped"])
def test_reading_needs_three_times_the_result_at_most(tmp_path, monkeypatch, layout):
    monkeypatch.setattr(delimited, "BLOCK", 1 << 18)
    users, each = 3000, 100
    rng = np.random.default_rng(0)
    items = np.stack([rng.choice(5000, each, replace=False) for _ in range(users)])
    with (tmp_path / ("ratings.dat" if layout == "lines" else "trainIdx2.txt")).open("w") as stream:
        for user in range(users):
            if layout == "lines":
                stream.write("".join(f"{user}::{item}::3.5::1000000000\n" for item in items[user]))
            else:
                stream.write(f"{user}|{each}\n" + "".join(f"{item}\t90\n" for item in items[user]))
    load = datasets.movielens_10m if layout == "lines" else datasets.yahoo_music
    load(tmp_path)  # compiles what Observations needs, outside the measurement
    usual, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        observations = load(tmp_path, dtype=np.float32)
        peak = tracemalloc.get_traced_memory()[1] + counted.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert observations.nnz == users * each
    lines = observations.by_row
    final = lines.indices.nbytes + lines.values.nbytes + observations.rows.nbytes
    # Some blocks are held as bytes, with their separators replaced, and as numbers.
    assert peak < 3 * final + 10 * delimited.BLOCK
