"""Three nodes in network namespaces: the bytes on their links, and one that goes down in the middle of a sweep.

Run by `make cluster`: it needs root.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "nodes.py"
MISSING = [name for name in ("ip", "tc") if shutil.which(name) is None]
MISSING += [name for name in ("ray", "pyarrow") if find_spec(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


def spaces() -> set[str]:
    found = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in found.splitlines()}


def run(*words: str) -> tuple[list[dict], str]:
    """Lines of the harness, and its errors; nothing of it may be left."""
    before, folders = spaces(), set(Path("/run").glob("lr-*"))
    command = [sys.executable, str(SCRIPT), "--entries", "300000", *words]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert spaces() <= before
    assert set(Path("/run").glob("lr-*")) <= folders
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")], answer.stderr


def test_the_bytes_on_each_link_are_those_predicted():
    lines, errors = run("--sweeps", "5")
    assert lines, errors
    assert lines[-1]["same"]
    sweeps = lines[:-1]
    assert len(sweeps) == 4
    assert all(line["workers"] == [1, 1, 1] for line in sweeps), "each node brings its memory"
    found, expected = (np.sum([line[name] for line in sweeps], axis=0) for name in ("bytes", "predicted"))
    # What each node receives; who sends it is Ray's choice: a node that has a factor already may pass it on.
    np.testing.assert_allclose(found[:, 0], expected[:, 0], rtol=0.1)
    assert found[:, 1].sum() == pytest.approx(expected[:, 1].sum(), rel=0.1)


def test_a_node_that_goes_down_changes_no_bit():
    lines, errors = run("--sweeps", "6", "--lose")
    assert {"lost": 2} in lines, errors
    assert lines[-1].get("same"), errors
    after = [line for line in lines if line.get("sweep", 0) > 3]
    assert after
    assert all(line["workers"][2] == 0 and sum(line["workers"]) == 3 for line in after)


def test_a_work_folder_that_nodes_do_not_see_is_refused():
    lines, errors = run("--sweeps", "2", "--private")
    assert not lines
    assert "does not see the work folder" in errors
    assert "give one on storage that all nodes share" in errors
