"""Folders of Parquet files from the shell: fitted out of core or on Ray, and answered from one file or from shards."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lorank.cli import app
from lorank.datasets import synthetic
from lorank.distributed import parts

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")
pacsv = pytest.importorskip("pyarrow.csv")

SHELL = [sys.executable, "-W", "ignore", "-c", "from lorank.cli import main; main()"]
EXPLICIT = ["--rank", "2", "--lam", "1", "--biases", "yes"]
USUAL = parts.PARTS
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in a folder where data/ has three Parquet files and pairs.csv some of their pairs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parts, "PARTS", 5)  # each costs as much as its entries would if they were thousands
    made, rng = synthetic(m=60, n=50, rank=2, seed=2), np.random.default_rng(0)
    # Offsets, whose variances would take hundreds of rounds to vanish.
    a, b = rng.normal(0, 0.5, 60), rng.normal(0, 0.5, 50)
    data, test = (part.with_values(part.values + a[part.rows] + b[part.cols]) for part in (made.train, made.validation))
    Path("data").mkdir()
    users = np.array([f"u{i:02}" for i in range(60)])[data.rows]
    for number in range(3):
        part = slice(number, None, 3)
        table = pa.table({"user": users[part], "item": data.cols[part], "stars": data.values[part]})
        pq.write_table(table, f"data/{number}.parquet")
    pairs = pa.table({"user": [*users[:40].tolist(), "nobody"], "item": [*data.cols[:40].tolist(), 3]})
    pacsv.write_csv(pairs, "pairs.csv")
    users = np.array([f"u{i:02}" for i in range(60)])[test.rows]
    pacsv.write_csv(pa.table({"user": users, "item": test.cols, "stars": test.values}), "test.csv")

    def run(*words, code=0):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.stderr
        return result.stdout, result.stderr

    return run


def lines(csv_text):
    return [line.split(",") for line in csv_text.splitlines()]


def test_an_older_model_is_replaced_if_one_says_so_and_nothing_else(run, tmp_path):
    words = ("fit", "data", "--out-of-core", *EXPLICIT, "-o")
    Path("model").mkdir()  # empty
    run(*words, "model")
    kept = {path: path.read_bytes() for path in Path("model").iterdir()}
    _, err = run(*words, "model", "--seed", "1", code=1)
    assert "model holds a model already" in err
    assert {path: path.read_bytes() for path in Path("model").iterdir()} == kept
    run(*words, "model", "--seed", "1", "--overwrite")
    assert any(path.read_bytes() != kept[path] for path in Path("model").iterdir())
    Path("model/notes.txt").write_text("mine")
    _, err = run(*words, "model", "--overwrite", code=1)
    assert "also notes.txt, which is not part of it" in err
    Path("webapp").mkdir()
    Path("webapp/manifest.json").write_text("{}")
    _, err = run(*words, "webapp", "--overwrite", code=1)
    assert "webapp exists and is not a lorank model" in err
    assert Path("webapp/manifest.json").read_text() == "{}"
    assert not list(tmp_path.glob(".*.part"))


def test_one_file_and_shards_answer_alike(run):
    out, err = run("fit", "data", "--out-of-core", *EXPLICIT, "--validation", "0.1", "--json")
    facts = json.loads(out)
    assert facts["rows"] == 60
    assert facts["validation_rmse"] > 0
    assert "Taking column 'user' as rows" in err
    out, _ = run("fit", "data", "-o", "shards", *EXPLICIT, "--validation", "0.1", "--json")
    assert json.loads(out)["iterations"] == facts["iterations"]
    assert sorted(path.name for path in Path().iterdir()) == ["data", "model.lorank", "pairs.csv", "shards", "test.csv"]
    for words in (
        ["predict", "pairs.csv"],
        ["predict", "pairs.csv", "--clip"],
        ["recommend", "--all", "-n", "3"],
        ["recommend", "--row", "u07", "--seen"],
        ["similar", "--col", "3", "-n", "4"],
        ["similar", "--row", "u07"],
    ):
        one, many = (lines(run(words[0], model, *words[1:])[0]) for model in ("model.lorank", "shards"))
        assert [line[:-1] for line in one] == [line[:-1] for line in many]
        scores = [np.array([line[-1] for line in answer[1:]], float) for answer in (one, many)]
        np.testing.assert_allclose(scores[1], scores[0], rtol=1e-9)
    for end in ("csv", "tsv", "parquet"):
        for model in ("model.lorank", "shards"):
            run("predict", model, "pairs.csv", "-o", f"{model}.{end}")
    assert pq.read_table("shards.parquet").num_rows == 41
    assert lines(Path("shards.csv").read_text())[0] == ["user", "item", "prediction"]
    assert Path("shards.tsv").read_text().count("\t") == 2 * 42
    listed = json.loads(run("recommend", "shards", "--row", "u07", "-n", 2, "--json")[0])
    assert [line["user"] for line in listed] == ["u07", "u07"]
    facts = json.loads(run("inspect", "shards", "--json")[0])
    assert (facts["rows"], facts["rank"], facts["table"]) == (60, 2, ["user", "item", "stars"])
    other = json.loads(run("inspect", "model.lorank", "--json")[0])
    assert facts.keys() == other.keys()
    assert facts["entries"] == other["entries"]
    judged = [json.loads(run("evaluate", model, "test.csv", "--json")[0]) for model in ("model.lorank", "shards")]
    assert judged[0] == pytest.approx(judged[1])
    assert judged[0].keys() >= {"rmse", "mae", "ndcg@10", "recall@10"}
    run("plot", "shards", "-o", "shards.png")
    ranges = [lines(run("predict", model, "pairs.csv", "--interval", "0.9")[0]) for model in ("model.lorank", "shards")]
    numbers = [np.array([line[2:] for line in answer[1:]], float) for answer in ranges]
    assert (numbers[0][:, 1] < numbers[0][:, 2]).all()
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=1e-5)


def test_lam_by_a_path_or_all_by_a_search(run):
    out, _ = run("fit", "data", "--lam", "100,5,0.5", "--rank", "2", "--biases", "no", "--json")
    assert json.loads(out)["lam"] in (5.0, 0.5)
    out, _ = run("fit", "data", "--method", "nnfn", "-o", "shards", "--json")
    facts = json.loads(out)
    assert [line["candidate"] for line in facts["candidates"]] == ["offsets alone", "NNFN", "NNFN, all rows"]
    assert facts["candidates"][2]["chosen"]
    assert facts["held_out_rmse"] == facts["candidates"][2]["error"] < facts["candidates"][0]["error"] / 2
    kept = json.loads(run("inspect", "shards", "--json")[0])
    assert (kept["lam"], kept["rank"]) == (facts["lam"], facts["rank"])


def test_without_its_data(run):
    run("fit", "data", "-o", "shards", *EXPLICIT, "--no-keep-data")
    assert "saved without its data" in run("recommend", "shards", "--all", code=1)[1]
    run("recommend", "shards", "--all", "--seen")
    assert run("similar", "shards", "--col", "3")[0].startswith("item,cosine\n")
    assert "lists cannot be judged" in run("evaluate", "shards", "test.csv")[1]


def test_what_is_refused(run):
    assert "no model.lorank.checkpoint" in run("fit", "data", "--resume", code=1)[1]
    assert "one machine" in run("fit", "data", "--method", "capped-l1", code=1)[1]
    assert "no column 'stras'" in run("fit", "data", "--value", "stras", code=1)[1]
    for words in (
        ["--backend", "dask"],
        ["--backend", "ray", "--out-of-core"],
        ["--workers", "2"],
        ["--duplicates", "mean"],
        ["--validation", "file.csv"],
        ["--titles", "films.csv"],
        ["--loss", "huber"],
        ["--goal", "ranking"],
        ["--memory-budget", "0"],
    ):
        run("fit", "data", *words, code=2)
    run("fit", "test.csv", "--memory-budget", "1", code=2)
    Path("data/1.parquet").write_bytes(b"nothing")
    assert "1.parquet is damaged" in run("fit", "data", *EXPLICIT, code=1)[1]
    Path("empty").mkdir()
    assert "no Parquet file in empty" in run("fit", "empty", code=1)[1]


@needs_ray
def test_ray_from_the_shell_gives_the_same_model(run, monkeypatch):
    """Two workers, each with 10 kB for what it fetches; nothing of Ray is heard."""
    monkeypatch.setattr(parts, "PARTS", USUAL)  # the other process has as many
    run("fit", "data", "-o", "alone", *EXPLICIT)
    far = ["--backend", "ray", "--workers", "2", "--memory-budget", "1e-5"]
    answer = subprocess.run(
        [*SHELL, "fit", "data", "-o", "far", *far, *EXPLICIT], capture_output=True, text=True, check=True
    )
    taken, plan = answer.stderr.splitlines()
    assert taken.startswith("Taking column")
    assert plan.startswith("In a sweep workers read")
    for name in ("row-0.npy", "col-0.npy", "seen-0.npy"):
        np.testing.assert_array_equal(np.load(f"far/{name}"), np.load(f"alone/{name}"))


@needs_ray
@pytest.mark.slow
def test_a_killed_driver_goes_on_with_resume(run, tmp_path, monkeypatch):
    """The second command starts from the sweep that the first one had saved, and ends with the same model."""
    monkeypatch.setattr(parts, "PARTS", USUAL)
    words = [
        "fit",
        "data",
        "--backend",
        "ray",
        "--rank",
        "4",
        "--lam",
        "1,0.5",
        "--validation",
        "0.2",
        "--tol",
        "1e-14",
    ]
    run(*words[:2], *words[4:], "-o", "whole")
    driver = subprocess.Popen([*SHELL, *words, "-o", "cut"])
    while not Path("cut.checkpoint.path").exists() and driver.poll() is None:
        time.sleep(0.01)
    if driver.poll() is None:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        resumed = subprocess.run([*SHELL, *words, "-o", "cut", "--resume"], capture_output=True, text=True, check=True)
        assert "Going on from cut.checkpoint." in resumed.stderr
    np.testing.assert_array_equal(np.load("cut/row-0.npy"), np.load("whole/row-0.npy"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "data", "pairs.csv", "test.csv", "whole"]
