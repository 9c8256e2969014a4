import subprocess
import sys
import types
from pathlib import Path

import pytest

from lorank import datasets
from lorank.datasets.location import Source, data_folder, find, find_all
from lorank.errors import InputError

LOADERS = [
    (datasets.movielens_100k, "u.data", "grouplens.org"),
    (datasets.movielens_1m, "ml-1m.zip", "grouplens.org"),
    (datasets.movielens_10m, "ratings.dat", "grouplens.org"),
    (datasets.movietweetings, "ratings.dat", "github.com/sidooms"),
    (datasets.yahoo_music, "trainIdx2.txt", "webscope"),
    (datasets.gas, "NA-1990-2002-Monthly.csv", "usc.edu"),
    (datasets.gas_anomalies, "gas_p17.mat", "Bahadori"),
    (datasets.ushcn, "ushcn.tavg.*.raw.tar.gz", "noaa.gov"),
    (datasets.ushcn_anomalies, "ushcn_p3.mat", "Bahadori"),
]


@pytest.mark.parametrize(("load", "file", "site"), LOADERS, ids=[load.__name__ for load, _, _ in LOADERS])
def test_a_missing_file_is_told_in_one_sentence(tmp_path, load, file, site):
    with pytest.raises(InputError) as error:
        load(folder=tmp_path)
    message = str(error.value)
    assert file in message
    assert site in message
    assert str(tmp_path) in message
    assert "LORANK_DATA" in message
    assert "\n" not in message


def test_the_argument_comes_before_the_environment_before_the_cache(tmp_path, monkeypatch):
    named, environment = tmp_path / "a", tmp_path / "b"
    named.mkdir()
    environment.mkdir()
    monkeypatch.setenv("LORANK_DATA", str(environment))
    assert data_folder(named) == named
    assert data_folder() == environment
    monkeypatch.delenv("LORANK_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "lorank"


def test_a_folder_that_does_not_exist_is_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"nowhere \(from folder=\)"):
        data_folder(tmp_path / "nowhere")
    monkeypatch.setenv("LORANK_DATA", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match=r"nothing \(from LORANK_DATA\)"):
        data_folder()


def test_the_first_pattern_and_the_last_name_win(tmp_path):
    for name in ("a1.x", "a2.x", "b.y"):
        (tmp_path / name).touch()
    source = Source("X", ("*.z", "a*.x", "*.y"), "example.org")
    assert [path.name for path in find_all(source, tmp_path)] == ["a1.x", "a2.x"]
    assert find(source, tmp_path).name == "a2.x"


def test_a_broken_archive_is_refused(tmp_path):
    (tmp_path / "ml-100k.zip").write_bytes(b"<html>not found</html>")
    with pytest.raises(InputError, match="not a zip file"):
        datasets.movielens_100k(tmp_path)


def fake_pooch(monkeypatch, content):
    calls = []

    def retrieve(url, known_hash, fname, path):
        calls.append((url, known_hash))
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / fname).write_text(content)
        return str(Path(path) / fname)

    monkeypatch.setitem(sys.modules, "pooch", types.SimpleNamespace(retrieve=retrieve))
    return calls


def test_fetch_downloads_once_with_a_checksum(tmp_path, monkeypatch):
    calls = fake_pooch(monkeypatch, "1::0133093::8::1\n")
    for _ in range(2):
        assert datasets.movietweetings(tmp_path, fetch=True).nnz == 1
    (call,) = calls
    assert call[0].startswith("https://raw.githubusercontent.com/sidooms/")
    assert call[1].startswith("sha256:")
    # Not as a bare ratings.dat, which MovieLens would take for its own.
    assert (tmp_path / "MovieTweetings-100K" / "ratings.dat").exists()


def test_nothing_is_downloaded_unasked(tmp_path, monkeypatch):
    calls = fake_pooch(monkeypatch, "")
    with pytest.raises(InputError, match="fetch=True"):
        datasets.movielens_1m(tmp_path)
    assert not calls


def test_fetching_without_pooch_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(InputError, match=r"lorank\[data\]"):
        datasets.movielens_1m(tmp_path, fetch=True)


def test_importing_datasets_leaves_heavy_readers_out():
    code = "import sys, lorank.datasets; print([m for m in ('scipy.io', 'pooch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
