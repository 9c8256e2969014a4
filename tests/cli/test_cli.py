"""The commands from a shell's point of view: what they print, what they write, how they fail."""

import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lorank

README = Path(__file__).parents[2] / "README.md"
EXPLICIT = ["--rank", "2", "--lam", "0.5", "--theta", "1", "--biases", "yes"]
SHELL = [sys.executable, "-c", "from lorank.cli import main; main()"]


def test_fit_says_what_it_guessed_and_did(run, model):
    assert model["rank"] == 2
    assert model["rows"] == 80
    assert model["entries"] == pytest.approx(0.81 * 1500, rel=0.05)
    assert 0 < model["validation_rmse"] < 1.5
    assert model["bytes"] == Path("model.lorank").stat().st_size
    code, out, err = run("fit", "ratings.csv", *EXPLICIT)
    assert code == 0
    assert "Taking column 'user' as rows, 'film' as columns and 'stars' as values." in err
    assert "converged" in out


def test_tuning_is_the_default(run, model):
    code, out, err = run("fit", "ratings.csv", "--json", "--max-seconds", "30")
    assert code == 0, err
    facts = json.loads(out)
    assert isinstance(facts["rank"], int)
    assert facts["held_out_rmse"] > 0
    assert json.loads(run("inspect", "model.lorank", "--json")[1])["trials"] > 1


def test_predict(run, model):
    code, _, err = run("predict", "model.lorank", "test.csv", "-o", "out.csv", "--interval", "0.8")
    assert code == 0, err
    lines = Path("out.csv").read_text().splitlines()
    assert lines[0] == "user,film,prediction,lower,upper"
    test = Path("test.csv").read_text().splitlines()
    assert len(lines) == len(test)
    user, film, *numbers = lines[5].split(",")
    assert test[5].startswith(f"{user},{film},")
    expected = lorank.load("model.lorank").predict(user, film, interval=0.8)
    np.testing.assert_allclose([float(number) for number in numbers], np.ravel(expected))
    Path("new.csv").write_text("user,film\nuser-0001,film-001\nnobody,film-001\n")
    code, out, _ = run("predict", "model.lorank", "new.csv", "--json")
    assert code == 0
    assert [line["user"] for line in json.loads(out)] == ["user-0001", "nobody"]


def test_clip(run, model):
    for words in (["--interval", "0.9"], []):
        out = run("predict", "model.lorank", "test.csv", "--json", "--clip", *words)[1]
        numbers = [line[name] for line in json.loads(out) for name in set(line) - {"user", "film"}]
        assert min(numbers) >= 0.5
        assert max(numbers) <= 5
    free, clipped = (json.loads(run("evaluate", "model.lorank", "test.csv", "--json", *w)[1]) for w in ([], ["--clip"]))
    assert clipped["rmse"] <= free["rmse"]


def test_a_sampled_model_has_error_bars_from_its_file(run, model):
    code, _, err = run("fit", "ratings.csv", "--method", "bpmf", "-o", "b.lorank")
    assert code == 0, err
    assert "sampler + who rated what" in err
    assert json.loads(run("inspect", "b.lorank", "--json")[1])["intervals"] is True
    code, out, err = run("predict", "b.lorank", "test.csv", "--interval", "0.9", "--json")
    assert code == 0, err
    stars = [float(line.split(",")[2]) for line in Path("test.csv").read_text().splitlines()[1:]]
    inside = [line["lower"] <= star <= line["upper"] for line, star in zip(json.loads(out), stars)]
    assert 0.8 < np.mean(inside) < 0.98


def test_predict_can_refuse_unknown_ids(run, fails, model):
    Path("new.csv").write_text("user,film\nnobody,film-001\n")
    assert "Unknown row 'nobody'" in fails("predict", "model.lorank", "new.csv", "--unseen", "error")


def test_recommend_and_similar(run, model):
    seen = {tuple(line.split(",")[:2]) for line in Path("ratings.csv").read_text().splitlines()[1:]}
    code, _, _ = run("recommend", "model.lorank", "--all", "-n", 3, "-o", "top.csv")
    assert code == 0
    top = [line.split(",") for line in Path("top.csv").read_text().splitlines()]
    assert top[0] == ["user", "film", "score"]
    assert len(top) == 1 + 3 * 80
    kept = lorank.load("model.lorank").observations  # a tenth of the ratings was held out, and may come again
    known = set(zip(kept.row_ids.values[kept.rows].tolist(), kept.col_ids.values[kept.cols].tolist()))
    assert known <= seen
    assert not {tuple(line[:2]) for line in top} & known
    one = json.loads(run("recommend", "model.lorank", "--row", "user-0007", "-n", 3, "--json")[1])
    assert [line["film"] for line in one] == [line[1] for line in top if line[0] == "user-0007"]
    likes = json.loads(run("similar", "model.lorank", "--col", "film-003", "-n", 4, "--json")[1])
    assert len(likes) == 4
    assert likes[0]["cosine"] >= likes[3]["cosine"]


def test_evaluate(run, model):
    facts = json.loads(run("evaluate", "model.lorank", "test.csv", "--json", "-k", 5)[1])
    fitted = lorank.load("model.lorank")
    lines = [line.split(",") for line in Path("test.csv").read_text().splitlines()[1:]]
    users, films, stars = zip(*lines)
    residuals = fitted.predict(np.array(users), np.array(films)) - np.array(stars, float)
    assert facts["rmse"] == pytest.approx(np.sqrt(np.mean(residuals**2)))
    assert facts["mae"] == pytest.approx(np.abs(residuals).mean())
    assert 0 < facts["recall@5"] <= 1
    Path("more.csv").write_text(Path("test.csv").read_text() + "nobody,film-001,3\n")
    _, out, err = run("evaluate", "model.lorank", "more.csv", "--json")
    assert "1 of" in err
    assert json.loads(out)["unknown"] == 1
    assert "were in the training data" in run("evaluate", "model.lorank", "ratings.csv")[2]


def test_compare(run, model):
    code, out, err = run("compare", "ratings.csv", "--methods", "nnfn,mf", "--ranks", "2,4", "--trials", 4, "--json")
    assert code == 0, err
    lines = json.loads(out)
    assert {line["method"] for line in lines} == {"nnfn", "mf"}
    assert all(line["error"] > 0 for line in lines)


def test_inspect_and_plot(run, model):
    code, out, _ = run("inspect", "model.lorank")
    assert code == 0
    assert "user film stars" in out
    assert run("plot", "model.lorank", "-o", "model.png")[0] == 0
    assert Path("model.png").read_bytes().startswith(b"\x89PNG")
    assert run("plot", "model.lorank", "-o", "model.gif")[0] == 2


def test_complete_keeps_every_cell(run):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 6)) * [1, 10, 100, 1, 1, 1] + 50
    cells = [[f"{x:.3f}" if rng.random() > 0.2 else rng.choice(["", "NA"]) for x in row] for row in X]
    lines = [f'"s, {i}",{",".join(row)}' for i, row in enumerate(cells)]
    Path("table.csv").write_text("\ufeff" + "\r\n".join(["name,a,b,c,d,e,f", *lines]) + "\r\n", newline="")
    code, out, err = run("complete", "table.csv", "-o", "filled.csv", "--json", "--rank", 2, "--lam", 0.01)
    assert code == 0, err
    before, after = (Path(name).read_bytes().split(b"\r\n") for name in ("table.csv", "filled.csv"))
    errors = []
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        for j, (was, now) in enumerate(zip(old.split(b","), new.split(b","), strict=True)):
            if was not in (b"", b"NA"):
                assert was == now
            elif i <= 40:
                errors.append((float(now) - X[i - 1, j - 2]) / X[:, j - 2].std())
    assert json.loads(out) == {"table": "filled.csv", "cells": 240, "filled": len(errors)}
    assert np.sqrt(np.mean(np.square(errors))) < 0.3
    assert run("complete", "table.csv", "-o", "auto.csv")[0] == 0


def test_a_filled_table_is_not_written_to_a_file_called_minus(run):
    Path("table.csv").write_text("a,b\n1,2\n2,\n")
    code, _, err = run("complete", "table.csv", "-o", "-")
    assert code == 1
    assert "written to a file; name one" in err
    assert not Path("-").exists()


def test_complete_parquet(run):
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    X = np.outer(rng.random(30) + 1, rng.random(5) + 1)
    columns = {"id": [f"s{i}" for i in range(30)]}
    columns |= {f"c{j}": [None if rng.random() < 0.2 else x for x in X[:, j]] for j in range(5)}
    parquet.write_table(pa.table(columns), "table.parquet")
    assert run("complete", "table.parquet", "-o", "filled.parquet", "--rank", 1, "--lam", 0.01)[0] == 0
    filled = parquet.read_table("filled.parquet").to_pydict()
    assert filled["id"] == columns["id"]
    for name in ("c0", "c4"):
        assert all(old is None or old == new for old, new in zip(columns[name], filled[name]))
        assert None not in filled[name]


def write(name, text):
    Path(name).write_text(text)
    return name


def test_trouble_with_tables(fails):
    assert "There is no file none.csv" in fails("fit", "none.csv")
    table = write("a.csv", "user,item,rating\n1,x,3\n2,y,four\n")
    assert "Line 3 of a.csv has 'four' in column 'rating', which is not a number" in fails("fit", table)
    wrong = fails("fit", table, "--row", "user", "--col", "itme", "--value", "rating")
    assert "no column 'itme'; did you mean 'item'?" in wrong
    assert "is empty" in fails("fit", write("e.csv", ""))
    assert "given more than once" in fails("fit", write("d.csv", "u,i,r\n1,x,3\n1,x,4\n2,x,1\n"))
    assert "No cell of w.csv is missing" in fails("fit", write("w.csv", "a,b,c,d\n1,2,3,4\n5,6,7,9\n"))
    big = write("big.mtx", "%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 5\n")
    assert "GiB are free" in fails("fit", big, *EXPLICIT)


def test_a_fit_that_would_not_fit_is_refused(fails, model, monkeypatch):
    from lorank import memory

    monkeypatch.setattr(memory, "free_memory", lambda: 50_000)
    error = fails("fit", "ratings.csv", *EXPLICIT)
    assert "Fitting 1337 entries of a 80 x 40 matrix at rank 2 by 'nnfn' would take" in error
    assert "are free" in error


def test_duplicates_can_be_settled(run):
    table = write("d.csv", "u,i,r\n1,x,3\n1,x,5\n2,x,1\n2,y,2\n1,y,3\n")
    options = ["--json", "--rank", 1, "--lam", 0.1, "--theta", 1, "--biases", "no"]
    assert json.loads(run("fit", table, "--duplicates", "mean", *options)[1])["entries"] == 4
    assert lorank.load("model.lorank").observations.values[0] == 4.0
    assert json.loads(run("fit", table, "--duplicates", "last", *options)[1])["entries"] == 4
    assert lorank.load("model.lorank").observations.values[0] == 5.0


def test_ids_stay_what_they_are(run):
    text = '\ufeffuser,item,rating\n007,"a, b",3\n7,c,4\n007,c,NaN\n7,"a, b",2\n8,c,1\n'
    table = write("a.csv", text)
    options = ["--rank", 1, "--lam", 0.1, "--theta", 1, "--biases", "no"]
    assert run("fit", table, *options)[0] == 0
    assert lorank.load("model.lorank").observations.row_ids.values.tolist() == ["007", "7", "8"]
    top = json.loads(run("recommend", "model.lorank", "--row", "007", "--json")[1])
    assert [(line["user"], line["item"]) for line in top] == [("007", "c")]


def test_trouble_with_models(fails, model):
    assert "There is no file none.lorank" in fails("inspect", "none.lorank")
    assert "not a lorank model" in fails("inspect", "ratings.csv")
    whole = Path("model.lorank").read_bytes()
    Path("cut.lorank").write_bytes(whole[:-100])
    assert "damaged or cut off" in fails("predict", "cut.lorank", "test.csv")
    assert "Unknown row 'nobody'" in fails("recommend", "model.lorank", "--row", "nobody")
    assert "Unknown column 'nothing'" in fails("similar", "model.lorank", "--col", "nothing")
    assert "Say which columns" in fails("predict", "model.lorank", write("p.csv", "a,b,c,d\n1,2,3,4\n"))


@pytest.mark.parametrize(
    "words",
    [
        ["fit"],
        ["fit", "a.csv", "--rank", "many"],
        ["fit", "a.csv", "--biases", "perhaps"],
        ["fit", "a.csv", "--method", "nonsense"],
        ["fit", "a.csv", "--duplicates", "perhaps"],
        ["fit", "a.csv", "--seed", "-1"],
        ["fit", "a.csv", "--threads", "0"],
        ["fit", "a.csv", "--max-seconds", "0"],
        ["predict", "model.lorank", "a.csv", "--interval", "2"],
        ["predict", "model.lorank", "a.csv", "--unseen", "perhaps"],
        ["recommend", "model.lorank"],
        ["similar", "model.lorank", "--row", "a", "--col", "b"],
        ["nonsense"],
    ],
)
def test_a_wrong_command_line_is_2(run, words):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from lorank.cli import app\n"
        "assert 'recommend' in CliRunner().invoke(app, ['--help']).stdout\n"
        "print(sorted({'numpy', 'scipy', 'numba', 'sklearn', 'pyarrow', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_errors_from_a_shell(tmp_path):
    plain = subprocess.run([*SHELL, "fit", "none.csv"], capture_output=True, text=True, cwd=tmp_path)
    assert (plain.returncode, plain.stdout) == (1, "")
    assert plain.stderr == "Error: There is no file none.csv.\n"
    debug = subprocess.run([*SHELL, "fit", "none.csv", "--debug"], capture_output=True, text=True, cwd=tmp_path)
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr


def test_a_place_that_cannot_be_written_is_told_before_the_work(fails):
    assert "There is no folder nowhere to put m.lorank in; make it first." in fails(
        "fit", "a.csv", "-o", "nowhere/m.lorank"
    )
    Path("folder").mkdir()
    assert "folder is a folder" in fails("fit", "a.csv", "-o", "folder")
    assert "There is no folder nowhere to put c in" in fails("fit", "a.csv", "--checkpoint", "nowhere/c")
    Path("link.lorank").symlink_to(Path("nowhere/m.lorank").absolute())
    assert "nowhere to put link.lorank in; make it first." in fails("fit", "a.csv", "-o", "link.lorank")


def test_a_full_disk_leaves_the_old_model(run, model):
    """The limit on a file's size stands for the end of the disk: both are an OSError in the middle of a write."""
    before = Path("model.lorank").read_bytes()

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    words = [*SHELL, "fit", "ratings.csv", "-o", "model.lorank", *EXPLICIT[:2]]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    full = subprocess.run(words, capture_output=True, text=True, preexec_fn=little_room, env=environment)
    assert full.returncode == 1, full.stderr
    assert "Warning: The checkpoint model.lorank.checkpoint cannot be written" in full.stderr
    assert "Error: model.lorank cannot be written" in full.stderr
    assert "Traceback" not in full.stderr
    assert Path("model.lorank").read_bytes() == before
    assert not list(Path().glob(".*part"))


def test_five_minutes_of_the_readme(tmp_path):
    section = README.read_text().split("## Five minutes")[1].split("\n## ")[0]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL).group(1)
    commands = block.strip().splitlines()
    assert len(commands) == 5
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "lorank"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(SHELL)} "$@"\n')
    script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}"}
    outputs = []
    for command in commands:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        outputs.append(done.stdout)
    assert "rmse" in outputs[2]
    assert outputs[3].count("user-0042") == 5
    assert (tmp_path / "predicted.csv").read_text().startswith("user,film,prediction,lower,upper\n")


def test_parameters_of_a_method_are_set(run, model):
    explicit = ["--method", "schatten-p", "--rank", "2", "--biases", "no"]
    code, out, err = run("fit", "ratings.csv", "-o", "p.lorank", "--lam", "5", "--set", "p=0.7", *explicit, "--json")
    assert code == 0, err
    assert json.loads(out)["method"] == "schatten-p(p=0.7)"
    assert json.loads(run("inspect", "p.lorank", "--json")[1])["method"] == "schatten-p(p=0.7)"
    code, out, err = run("fit", "ratings.csv", "-o", "p.lorank", "--set", "p=auto", *explicit, "--json")
    assert code == 0, err
    assert json.loads(out)["p"] in (1 / 2, 2 / 3)
    words = ["--methods", "mcp,truncated-l12", "--set", "t=0", "--ranks", "2", "--trials", 2, "--json"]
    code, out, err = run("compare", "ratings.csv", *words)
    assert code == 0, err
    assert {row["method"] for row in json.loads(out)} == {"mcp", "truncated-l12(t=0)"}
    Path("wide.csv").write_text("a,b,c\n1,2,3\n2,,6\n3,6,\n4,8,12\n")
    words = ["--method", "schatten-p", "--set", "p=0.5", "--rank", 1, "--lam", 0.1]
    assert run("complete", "wide.csv", "-o", "full.csv", *words)[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "ratings.csv", "--method", "nnfn", "--set", "q=1"], "has no parameter q; it has lam and theta"),
        (["fit", "ratings.csv", "--method", "nnfn", "--set", "theta"], "such as p=0.5"),
        (["fit", "ratings.csv", "--method", "nnfn", "--set", "theta=x"], "give a number or auto"),
        (["fit", "ratings.csv", "--method", "nnfn", "--set", "lam=3"], "lam is not set on a method"),
        (["fit", "ratings.csv", "--method", "schatten-p", "--set", "p=2"], "p must be strictly between 0 and 1"),
        (["fit", "ratings.csv", "--method", "lsp", "--set", "theta=auto"], "declares no values of theta to search"),
        (["compare", "ratings.csv", "--methods", "mcp,fgsr", "--set", "t=1"], "there are theta, p"),
        (["compare", "ratings.csv", "--methods", "svd"], "Unknown method"),
    ],
)
def test_a_parameter_that_cannot_be_set_is_refused(run, words, said):
    code, _, err = run(*words)  # before the table is looked for
    assert code == 2
    assert said in " ".join(err.replace("\u2502", " ").split())


@pytest.mark.parametrize(
    "sizes", [(100_000, 100_000, 5_000_000_000), (2_000_000_000, 2, 10), (60_000, 60_000, 80_000_000)]
)
def test_a_sample_that_does_not_fit_into_memory_is_refused(fails, monkeypatch, sizes):
    monkeypatch.setattr("lorank.memory.free_memory", lambda: 20 << 30)
    users, films, ratings = sizes
    sentence = fails("sample", "a.csv", "--users", users, "--films", films, "--ratings", ratings)
    assert f"{ratings} ratings of {films} films by {users} users would take" in sentence
    assert not Path("a.csv").exists()
