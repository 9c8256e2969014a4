"""Tutorials and how-to pages run: their code blocks in order, in an empty folder, printing what the page says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how_to/*.md")])
# A block that needs what a test has not (a cluster, a folder of the reader's own) says so in a comment above it.
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?^```(python|sh|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+|\d+(?=%)")


def blocks(page):
    """Kind and code of each block that is run; the comment of one that is not gives the kind "skipped"."""
    return [("skipped" if skipped else kind, code) for skipped, kind, code in BLOCK.findall(page.read_text())]


@pytest.fixture
def lorank_command(tmp_path, monkeypatch):
    """The command `lorank` of the library under test, on the path, in an empty folder."""
    script = tmp_path / "bin" / "lorank"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from lorank.cli import main; main()" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_page_runs(page, lorank_command, registry, capsys):
    names, printed = {"__name__": "page"}, ""
    for kind, code in blocks(page):
        if kind == "python":
            exec(compile(code, str(page), "exec"), names)
            printed = capsys.readouterr().out
        elif kind == "sh":
            done = subprocess.run(code, shell=True, capture_output=True, text=True, executable="/bin/bash")
            assert done.returncode == 0, f"{code}\n{done.stderr}"
            printed = done.stdout
        elif kind == "text":
            assert_same(printed, code)


def assert_same(printed, promised):
    """The same words, and decimal numbers and percentages within a tenth: machines differ in the last digits."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", promised).split()
    for ours, theirs in zip(NUMBER.findall(printed), NUMBER.findall(promised)):
        assert float(ours) == pytest.approx(float(theirs), rel=0.1, abs=0.05)


def test_most_pages_have_code():
    """The expression above finds blocks: were it wrong, all pages would pass."""
    found = {page.stem: {kind for kind, _ in blocks(page)} for page in PAGES}
    assert {"python", "sh", "text"} <= found["ratings"] & found["table"] & found["stations"]
    assert {"python", "text"} <= found["regularizer"]
    assert sum(kind == "skipped" for page in PAGES for kind, _ in blocks(page)) <= 6


def test_every_page_is_in_the_menu():
    menu = (DOCS.parent / "mkdocs.yml").read_text()
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "benchmarks" not in path.parts]
    assert not [page for page in pages if page not in menu]
