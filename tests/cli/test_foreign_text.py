"""Ids, file names and model files come from others: no text of theirs reaches a terminal as anything but text."""

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
