"""One line on a terminal, with the time left; elsewhere nothing but what is asked for."""

import sys
import time

import pytest

from lorank import progress
from lorank.progress import ProgressBar, clock_time


@pytest.fixture(autouse=True)
def speaking(monkeypatch):
    """A command with --quiet may have run in this process before."""
    monkeypatch.setattr(progress, "quiet", False)


def test_no_bar_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with ProgressBar("waiting", 2) as bar:
        time.sleep(0.05)
        bar.advance(1)
        bar.draw()
    assert capsys.readouterr() == ("", "")
    bar.line("one of two is done")
    assert capsys.readouterr() == ("", "one of two is done\n")


def test_a_bar_on_a_terminal_is_removed_at_the_end(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PACE", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressBar("waiting", 2) as bar:
        bar.advance(1)
        time.sleep(0.2)
        bar.line("this is for files")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.split("\r\x1b[2K")
    assert len(lines) > 3
    assert lines[-1] == ""
    assert any(line.startswith("waiting  [###############...............] 0:0") for line in lines)
    assert all(len(line) < 80 for line in lines)
    assert "for files" not in err


def test_what_is_quick_shows_nothing(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressBar("quick", 2) as bar:
        bar.advance(2)
    assert "quick" not in capsys.readouterr().err


def test_the_time_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = ProgressBar("waiting", 8)
    assert bar.left is None
    now[0] += 10
    bar.advance(2)
    assert bar.left == pytest.approx(30)  # a quarter took 10 seconds
    now[0] += 7
    assert bar.left == pytest.approx(23)
    assert str(bar) == "waiting  [########......................] 0:17, about 0:23 left"
    now[0] += 100
    assert bar.left == 0
    bar.begin("another part")
    assert bar.left is None
    now[0] += 1
    bar.to(0.5)
    assert bar.left == pytest.approx(1)
    assert str(ProgressBar("no total")) == "no total  0:00"
    assert [clock_time(seconds) for seconds in (0, 6.2, 61, 3723)] == ["0:00", "0:07", "1:01", "1:02:03"]


def test_notices_are_left_out_where_nothing_but_errors_is_asked_for(capsys, monkeypatch):
    progress.notice("one")
    monkeypatch.setattr(progress, "quiet", True)
    progress.notice("two")
    assert capsys.readouterr().err == "lorank: one\n"
