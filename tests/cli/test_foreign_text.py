"""Ids, file names and model files come from others: no text of theirs reaches a terminal as anything but text."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

import lorank
from lorank import MatrixCompletion, Observations
from lorank.cli import terminal
from lorank.errors import printable
from lorank.results_table import Table

NASTY = ["Alien [director's cut]", "E[/x]", "a\x1b[2Jb", "bell\x07", "\u202egnp.exe", "Ä b"]


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(6, 6))
    observations = Observations.from_dense(np.where(np.eye(6), np.nan, X), row_ids=NASTY, col_ids=NASTY)
    estimator = MatrixCompletion(rank=2, lam=0.1, random_state=0).fit(observations)
    estimator.save(tmp_path / "model.lorank")
    return estimator


def test_text_is_spelled_out():
    assert [printable(text) for text in NASTY] == [
        "Alien [director's cut]",
        "E[/x]",
        "a\\x1b[2Jb",
        "bell\\x07",
        "\\u202egnp.exe",
        "Ä b",
    ]


def test_ids_are_printed_whole_and_harmless(model, run, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    ranking = model.recommend(n=6)
    with monkeypatch.context() as patched:
        shown = []
        patched.setattr("builtins.print", lambda text, **more: shown.append(str(text)))
        with terminal._aligned_on_output() as append:
            append({"row": ranking.rows, "col": ranking.cols, "score": ranking.scores})
    assert "Alien [director's cut]" in shown[0]
    assert "E[/x]" in shown[0]
    assert all(letter.isprintable() for letter in shown[0].replace("\n", ""))
    assert "\x1b" not in str(Table([{"\x1b[2J": "\x1b]0;x"}]))


def test_sentences_and_facts_are_harmless(model, run, tmp_path):
    code, out, err = run("recommend", "model.lorank", "--row", "a\x1b[2Jc")
    assert (code, out) == (1, "")
    assert "\\x1b[2Jc" in err
    assert "\x1b" not in err
    renamed = lorank.load(tmp_path / "model.lorank")
    replace(renamed, columns=("\x1b[31m", "b", "c"), params={**renamed.params, "dtype": "float64"}).save("b.lorank")
    code, out, err = run("inspect", "b.lorank")
    assert code == 0, err
    assert "\x1b" not in out + err
    code, out, _ = run("inspect", "b.lorank", "--json")
    assert "\x1b" not in out
    json.loads(out)


def test_markdown_shows_text_as_it_is():
    table = Table([{"name": "<script>alert(1)</script>", "link": "[x](http://y) `a` *b* _c_ | d"}])
    line = table.to_markdown().splitlines()[-1]
    assert "<script" not in line
    assert r"\[x\](http://y) \`a\` \*b\* \_c\_ \| d" in line


def test_lists_for_people_run_nothing_in_a_spreadsheet(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    names = ["=1+1", "+cmd", "-5", "@x", "plain", "a=b"]
    X = np.where(np.eye(6), np.nan, np.random.default_rng(0).normal(size=(6, 6)))
    MatrixCompletion(rank=2, lam=0.1).fit(Observations.from_dense(X, names, names)).save("model.lorank")
    for more, mark in (((), "'"), (("--no-spreadsheet",), "")):
        code, _, err = run("recommend", "model.lorank", "--all", "-n", 1, "-o", "list.csv", *more)
        assert code == 0, err
        first = [line.split(",")[0] for line in (tmp_path / "list.csv").read_text().splitlines()[1:]]
        assert first == [f"{mark}{name}" if name[0] in "=+-@" else name for name in names]


def test_an_id_column_keeps_its_name_and_its_ids(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    lines = [f"u{i},i{j},{i + j}" for i in range(6) for j in range(5) if i != j]
    (tmp_path / "a.csv").write_text("prediction,score,value\n" + "\n".join(lines))
    assert run("fit", "a.csv", "--rank", 1, "--lam", 0.1, "--biases", "no", "-o", "m.lorank")[0] == 0
    code, out, err = run("predict", "m.lorank", "a.csv")
    assert code == 0, err
    assert out.splitlines()[0] == "prediction,score,lorank_prediction"
    assert out.splitlines()[1].startswith("u0,i1,")
    code, out, err = run("recommend", "m.lorank", "--all", "-n", 1)
    assert out.splitlines()[0] == "prediction,score,lorank_score"


def test_doubled_columns_are_refused(tmp_path, monkeypatch, fails):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id,id,value\nu,i,1\nv,j,2\n")
    assert "2 columns called 'id'" in fails("fit", "a.csv", "-o", "m.lorank")
    (tmp_path / "b.csv").write_text("user,item,value\nu,i,1\nv,j,2\n")
    names = ["--row", "user", "--col", "user", "--value", "value"]
    assert "three columns" in fails("fit", "b.csv", *names, "-o", "m.lorank")


@pytest.mark.filterwarnings("ignore:Diverged")
def test_a_fit_that_diverged_is_not_saved(tmp_path, monkeypatch, fails):
    monkeypatch.chdir(tmp_path)
    lines = [f"{i},{j},{i + j}" for i in range(6) for j in range(5)]
    (tmp_path / "a.csv").write_text("row,col,value\n" + "\n".join(lines))

    def diverge(self, problem, state):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr("lorank.solvers.alternating.Alternating.step", diverge)
    said = fails("fit", "a.csv", "--rank", "1", "--lam", "0.1", "--biases", "no", "-o", "m.lorank")
    assert "diverged and is not saved" in said
    assert not (tmp_path / "m.lorank").exists()


def test_line_ends_inside_ids_do_not_end_lines_of_csv_on_the_output(capsys):
    """Python before 3.13 leaves a bare carriage return unquoted."""
    names = ["a\rb", "c\nd", "e"]
    with terminal._csv_on_output() as append:
        append({"id": names, "score": [1.0, 2.0, 3.0]})
        append({"id": ["f"], "score": [4.0]})
    found = list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))
    assert [line[0] for line in found] == ["id", *names, "f"]


def test_a_very_long_id_does_not_make_every_line_long():
    lines = str(Table([{"id": "x" * 10_000, "score": 1.0}, {"id": "y", "score": 2.0}])).splitlines()
    assert max(map(len, lines)) < 250
    assert "…" in lines[1]
