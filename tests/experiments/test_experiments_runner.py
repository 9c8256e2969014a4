"""Cells, records and the runner: nothing is lost, nothing is repeated."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lorank.errors import InputError
from lorank.experiments import records
from lorank.experiments.records import Records
from lorank.experiments.run_cell import run_cell
from lorank.experiments.runner import run
from lorank.experiments.settings import Budget

sys.path.insert(0, str(Path(__file__).parent))
from small_run import SUITE

# What depends on the hour and the machine's mood.
MOODS = {"seconds", "search_seconds", "wall", "processor_seconds", "started", "peak_mb", "fit_mb", "curve"}


def results(path):
    return {key: {k: v for k, v in row.items() if k not in MOODS} for key, row in records.read(path).items()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The records of an undisturbed run."""
    path = tmp_path_factory.mktemp("run") / "records.jsonl"
    run(SUITE.cells(seeds=2), path)
    return path


def test_a_record_says_all_that_is_needed(finished):
    rows = records.read(finished)
    assert len(rows) == 20
    row = rows["synthetic/small-80/nnfn/1"]
    assert row["status"] == "ok"
    assert row["trials"] == 3
    assert row["parameters"]["rank"] == 2
    assert row["parameters"]["theta"] == 1.0
    assert 0 < row["error"] < 0.2
    assert row["error"] > 0.5 * row["floor"]
    assert row["seconds"] > 0
    assert row["peak_mb"] > 10
    assert row["threads"] == 1
    assert row["code"] == records.code_version()
    assert row["allowed_trials"] == 3
    assert row["edges"]["lam"] >= 0
    assert {"lorank", "numpy", "numba"} <= set(row["versions"])
    assert row["curve"][-1][1] == pytest.approx(row["error"], rel=1e-5)
    assert all(a[0] <= b[0] for a, b in zip(row["curve"], row["curve"][1:]))


def test_a_printed_algorithm_has_the_parameters_of_the_librarys_solver(finished):
    """Whether it takes them from the record, or has to search for them by itself."""
    rows = records.read(finished)
    (cell,) = (cell for cell in SUITE.cells(1, ["mcp-plain"]) if cell.dataset.name == "small-60")
    alone = run_cell(cell, None)
    base, printed = (rows[f"synthetic/small-60/{name}/0"] for name in ("mcp", "mcp-plain"))
    assert printed["parameters"] == alone["parameters"] == base["parameters"]
    assert printed["trials"] == 3
    assert printed["iterations"] != base["iterations"]
    assert printed["error"] == pytest.approx(alone["error"], rel=1e-12)


def test_a_method_that_the_catalogue_lacks_is_a_row_with_its_reason(finished):
    row = records.read(finished)["synthetic/small-60/unheard/0"]
    assert row["status"] == "skipped"
    assert "unheard" in row["reason"]


def test_data_that_are_absent_are_a_row_with_their_reason(tmp_path):
    dataset = replace(SUITE.datasets[0], kind="ratings", parameters={"name": "movielens_1m"})
    cell = replace(SUITE.cells(1)[0], dataset=dataset)
    run([cell], tmp_path / "records.jsonl", tmp_path)
    (row,) = records.read(tmp_path / "records.jsonl").values()
    assert row["status"] == "skipped"
    assert "MovieLens-1M is not in" in row["reason"]


def test_absent_data_have_a_row_under_other_settings_too(tmp_path):
    """Or the report of those settings would not name them."""
    path = tmp_path / "records.jsonl"
    dataset = replace(SUITE.datasets[0], kind="ratings", parameters={"name": "movielens_1m"})
    cell = replace(SUITE.cells(1)[0], dataset=dataset)
    other = replace(cell, budget=Budget(trials=4))
    for each in (cell, other, other):
        run([each], path, tmp_path)
    assert len(path.read_text().splitlines()) == 2
    (row,) = records.read(path).values()
    assert row["fingerprint"] == records.fingerprint(other)


def test_a_finished_run_repeats_nothing(finished):
    before = finished.read_bytes()
    said = []
    run(SUITE.cells(seeds=2), finished, on_end=lambda done, of, row: said.append(row))
    assert finished.read_bytes() == before
    assert {row["status"] for row in said} == {"skipped"}  # what may have become possible is looked at again


def test_other_settings_are_another_cell(finished):
    cell = next(cell for cell in SUITE.cells(2) if cell.entry.name == "nnfn")
    with Records(finished) as opened:
        assert opened.is_done(cell)
        assert not opened.is_done(replace(cell, budget=Budget(trials=4)))


def test_records_of_other_code_are_made_again(finished, monkeypatch):
    (cell,) = SUITE.cells(1, ["nnfn"])[:1]
    monkeypatch.setattr(records, "code_version", lambda: "another")
    with Records(finished) as opened:
        assert not opened.is_done(cell)


def test_only_the_meaning_of_code_counts(tmp_path):
    def version(text):
        for name in (*records.FILES, "losses/pointwise.py"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        (tmp_path / "experiments" / "page.py").write_text(f"# {len(text)}\nx = {len(text)}")
        (tmp_path / "losses" / "pointwise.py").write_text(text)
        records.code_version.cache_clear()
        return records.code_version(tmp_path)

    written = version('def f(x):\n    """Twice x."""\n    return 2 * x\n')
    assert version('# Quick.\ndef f( x ):\n    """x, twice."""\n\n    return 2*x\n') == written
    assert version('def f(x):\n    """Twice x."""\n    return 3 * x\n') != written
    records.code_version.cache_clear()


def test_cells_run_side_by_side_each_on_its_own_core(tmp_path, monkeypatch):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("One core.")
    cells, open_now, most = SUITE.cells(seeds=2), [], []

    def begin(done, of, cell):
        open_now.append(cell.key)
        most.append(len(open_now))

    run(cells, tmp_path / "records.jsonl", None, lambda done, of, row: open_now.remove(row["key"]), begin)
    assert max(most) == len(cores)
    assert {row.get("threads", 1) for row in records.read(tmp_path / "records.jsonl").values()} == {1}


def test_reports_leave_out_records_of_other_settings(finished):
    rows = records.read(finished)
    assert records.matching(rows, [SUITE]) == rows
    assert not records.matching(rows, [replace(SUITE, budget=Budget(trials=4))])


def test_a_cell_over_its_time_is_ended(tmp_path):
    cell = replace(SUITE.cells(1)[0], budget=Budget(cell_seconds=0.01))
    run([cell], tmp_path / "records.jsonl")
    (row,) = records.read(tmp_path / "records.jsonl").values()
    assert row["status"] == "time-limit"
    assert "0.01 s" in row["reason"]


def test_a_torn_line_is_cut_off(tmp_path):
    path = tmp_path / "records.jsonl"
    with Records(path) as opened:
        opened.append({"key": "a", "status": "ok"})
    with path.open("a") as file:
        file.write('{"key": "b", "sta')
    assert set(records.read(path)) == {"a"}
    with Records(path) as opened:
        opened.append({"key": "c", "status": "ok"})
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "c"]


def test_two_runs_cannot_write_to_one_file(tmp_path):
    with Records(tmp_path / "r"), pytest.raises(InputError, match="Another run"):
        Records(tmp_path / "r")


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_kills_change_nothing(finished, tmp_path, kills):
    path = tmp_path / "records.jsonl"
    program = [sys.executable, str(Path(__file__).with_name("small_run.py")), str(path)]
    rng = random.Random(5)
    for _ in range(kills):
        process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
        recorded = path.stat().st_size if path.exists() else 0
        started = time.monotonic()
        # At any moment: while it starts, or after a record more and a little.
        if rng.random() < 0.7:
            while process.poll() is None and time.monotonic() - started < 30:
                if path.exists() and path.stat().st_size > recorded:
                    break
                time.sleep(0.002)
        time.sleep(rng.random() * 0.3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(program, check=True, stderr=subprocess.DEVNULL)
    assert results(path) == results(finished)
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert len(keys) == len(set(keys))
