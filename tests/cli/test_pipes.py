"""Tables through pipes: read once, whatever looks at them first."""

import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import lorank
from lorank import InputError, tables

SHELL = [sys.executable, "-W", "ignore", "-c", "from lorank.cli import main; main()"]
FIT = ["--rank", "2", "--lam", "1", "--biases", "no", "--json", "-o", "model.lorank"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A csv larger than what a pipe or a sample of the first lines holds."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [f"u{i},i{j},{rng.normal():.6f}\n" for i in range(200) for j in range(60)]
    content = "user,item,value\n" + "".join(lines)
    (tmp_path / "a.csv").write_text(content)
    return content.encode()


def through_fifo(path, content):
    os.mkfifo(path)
    feeder = threading.Thread(target=path.write_bytes, args=(content,))
    feeder.start()
    return feeder


def test_no_line_of_a_pipe_is_lost(table, tmp_path):
    expected = tables.read(tmp_path / "a.csv")[0]
    for name, content in (("plain", table), ("packed", gzip.compress(table))):
        feeder = through_fifo(tmp_path / name, content)
        found = tables.read(tmp_path / name)[0]
        feeder.join()
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.row_ids.values, expected.row_ids.values)


def test_formats_of_pipes_are_known_by_their_first_bytes(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 4))
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", X)
    tables.write(tmp_path / "a.parquet", {"row": [0, 1], "col": [0, 1], "value": [1.0, 2.0]})
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 3\n")
    for name in ("a.npy", "a.npz", "a.parquet", "a.mtx"):
        feeder = through_fifo(tmp_path / f"{name}-pipe", (tmp_path / name).read_bytes())
        found = tables.read(tmp_path / f"{name}-pipe")[0]
        feeder.join()
        np.testing.assert_array_equal(found.values, tables.read(tmp_path / name)[0].values)


@pytest.mark.parametrize("source", ["-", "/dev/stdin", "<(cat a.csv)"])
def test_fit_and_predict_from_standard_input(table, tmp_path, source):
    command = " ".join(f"'{word}'" for word in SHELL)
    for words in (f"fit {source} {' '.join(FIT)}", f"predict model.lorank {source} -o out.csv"):
        ended = subprocess.run(
            ["bash", "-c", f"cat a.csv | {command} {words}"], capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        if words.startswith("fit"):
            assert json.loads(ended.stdout)["entries"] == 12_000
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 12_001


def test_nothing_is_put_in_the_place_of_a_pipe_or_device(table, tmp_path, run, fails):
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in fails("fit", "a.csv", *FIT[:-1], "pipe")
    model = lorank.MatrixCompletion(rank=1, lam=0.1).fit(np.random.default_rng(0).normal(size=(4, 3)))
    for path in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(InputError, match="is no regular file"):
            model.save(path)
        assert not os.path.isfile(path)


def test_what_a_command_reads_is_not_replaced_by_what_it_writes(model, run, fails):
    Path("link.csv").symlink_to("ratings.csv")
    Path("ratings-2.csv").hardlink_to("ratings.csv")
    for words in (
        ["fit", "ratings.csv", "--rank", "2", "--lam", "1", "-o", "ratings.csv"],
        ["update", "model.lorank", "ratings.csv", "-o", "ratings.csv"],
        ["predict", "model.lorank", "ratings.csv", "-o", "link.csv"],
        ["recommend", "model.lorank", "--all", "--deny", "ratings.csv", "-o", "ratings-2.csv"],
        ["fit", "test.csv", "--rank", "2", "--lam", "1", "--validation", "ratings.csv", "-o", "ratings.csv"],
        ["complete", "ratings-2.csv", "--draws", "2", "-o", "ratings.csv"],
        ["complete", "wide.csv", "--covariate", "height=ratings.csv", "-o", "ratings.csv"],
        ["split", "ratings.csv", "--train", "link.csv"],
        ["split", "ratings.csv", "--test", "ratings-2.csv"],
    ):
        before = Path("ratings.csv").read_bytes()
        said = fails(*words)
        assert "is read by this command" in said or "must be three files" in said
        assert Path("ratings.csv").read_bytes() == before
    assert run("update", "model.lorank", "test.csv", "-o", "model.lorank")[0] == 0  # as without -o


def test_a_checkpoint_is_neither_the_model_nor_another_file(model, fails):
    before = Path("ratings.csv").read_bytes()
    fit = ["fit", "test.csv", "--rank", "2", "--lam", "1", "-o", "new.lorank", "--checkpoint"]
    assert "both the model and its checkpoint" in fails(*fit, "./new.lorank")
    assert fails(*fit, "ratings.csv").endswith("is no checkpoint, or a damaged one; give another name, or remove it.")
    assert Path("ratings.csv").read_bytes() == before


@pytest.mark.filterwarnings("ignore:Diverged")
def test_an_update_that_diverged_is_not_saved(model, fails, monkeypatch):
    before = Path("model.lorank").read_bytes()
    Path("more.csv").write_text("user,film,stars\nnew,1,1e300\n")
    assert "too large: squares and their sums would overflow" in fails("update", "model.lorank", "more.csv")
    assert "too large: squares and their sums would overflow" in fails("fold-in", "model.lorank", "more.csv")

    def diverge(self, problem, state):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr("lorank.solvers.alternating.Alternating.step", diverge)
    assert "diverged and is not saved" in fails("update", "model.lorank", "test.csv")
    assert Path("model.lorank").read_bytes() == before


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_reproduce_refuses_what_is_no_folder(tmp_path, monkeypatch, fails, place):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    assert f"{place} cannot be a folder for results" in fails("reproduce", "synthetic", "--quick", "--out", place)
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null"])
def test_a_device_without_an_end_does_not_fill_the_disk(device):
    """What has no name is copied to a temporary file until it ends: /dev/zero filled the disk."""
    if not Path(device).exists():
        pytest.skip(f"there is no {device}")
    with pytest.raises(InputError, match=f"{device} is a device, which may have no end"):
        tables.read(Path(device))


def test_a_command_without_standard_streams_works(table):
    """Started with all three closed; files that it opens would else have their numbers, and be printed into."""
    shell = f"exec '{sys.executable}' -W ignore -c 'from lorank.cli import main; main()' \"$@\" <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell, "sh", "fit", "a.csv", *FIT]).returncode == 0
    assert lorank.load("model.lorank").shape == (200, 60)
    assert subprocess.run(["sh", "-c", shell, "sh", "recommend", "model.lorank", "--row", "nobody"]).returncode == 1


def test_an_output_that_has_no_such_letters_is_one_sentence(tmp_path):
    """As of Windows, where what is piped is in the code page of the machine."""
    (tmp_path / "a.csv").write_text("user,item,value\nu,☃,1\nv,b,2\nv,☃,3\n", encoding="utf-8")
    model = tmp_path / "m.lorank"
    subprocess.run([*SHELL, "fit", tmp_path / "a.csv", *FIT[:-1], model], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [*SHELL, "recommend", model, "--row", "u", "--seen", "-q"]  # -q: kernels may have to be compiled first
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Error: The output is in ascii, which has no '\\u2603'; set PYTHONIOENCODING=utf-8." in done.stderr
