"""A cluster of two nodes, joined by its address; one of them goes down on the way."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from lorank.distributed.nodes import check_nodes, refuse_node
from lorank.errors import InputError

pytestmark = pytest.mark.skipif(
    find_spec("ray") is None or find_spec("pyarrow") is None, reason="ray or pyarrow is missing"
)

# Two raylets on this machine, each with two CPUs and a store of its own: what is on one must be sent to the other.
CLUSTER = """
import os, sys, tempfile
folder = tempfile.TemporaryDirectory(prefix="lt", dir="/tmp")  # sockets have short names
os.environ["RAY_TMPDIR"] = folder.name
os.mkdir(folder.name + "/ray")
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
other = cluster.add_node(num_cpus=2, env_vars={"PYTHONPATH": sys.argv[1]} if len(sys.argv) > 1 else None)
print(cluster.address, flush=True)
for line in sys.stdin:
    if line.strip() == "lose":
        cluster.remove_node(other, allow_graceful=False)
        print("lost", flush=True)
    else:
        break
cluster.shutdown()
folder.cleanup()
"""

DRIVER = """
import sys
import numpy as np, ray
from lorank.distributed import fit
params = dict(row="u", col="i", value="v", rank=4, lam=2.0, biases=True, validation=0.1, tol=0.0, max_iter=8)
nodes = []
def watch(progress):
    nodes.append(sum(node["Alive"] for node in ray.nodes()))
    if progress.iteration == 3:
        print("sweep", flush=True)
        sys.stdin.readline()
far = fit(sys.argv[1], **params, address=sys.argv[2], workers=2, callbacks=[watch])
assert nodes[0] == 2 and not ray.is_initialized(), nodes
alone = fit(sys.argv[1], **params, backend="out-of-core")
np.testing.assert_array_equal(far.result.factors.left, alone.result.factors.left)
assert far.result.history.objective == alone.result.history.objective
print("same", flush=True)
"""


def start(code, *words):
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1", "RAY_worker_niceness": "0"}
    command = [sys.executable, "-W", "ignore", "-c", code, *words]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def say(process, word):
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


@pytest.mark.slow
@pytest.mark.parametrize("lose", [False, True])
def test_two_nodes_give_the_same_bits(folder, lose):
    cluster = start(CLUSTER)
    try:
        address = cluster.stdout.readline().strip()
        assert address
        driver = start(DRIVER, str(folder), address)
        assert driver.stdout.readline().strip() == "sweep"
        if lose:
            say(cluster, "lose")
            assert cluster.stdout.readline().strip() == "lost"
        rest, _ = driver.communicate("go on\n", timeout=120)
        assert rest.endswith("same\n")  # Ray may speak of the lost node before that
        assert driver.returncode == 0
    finally:
        say(cluster, "end")
        assert cluster.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("what", ["missing", "another"])
def test_a_node_without_lorank_or_with_another_one_is_refused(folder, tmp_path, what):
    """The node's Python finds, before anything else, a package that is not there or one of another version."""
    (tmp_path / "lorank").mkdir()
    (tmp_path / "lorank" / "__init__.py").write_text("raise ImportError" if what == "missing" else "")
    (tmp_path / "lorank-9.9.dist-info").mkdir()
    (tmp_path / "lorank-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: lorank\nVersion: 9.9\n")
    cluster = start(CLUSTER, str(tmp_path))
    try:
        address = cluster.stdout.readline().strip()
        words = [sys.executable, "-W", "ignore", "-c", DRIVER, str(folder), address]
        answer = subprocess.run(words, capture_output=True, text=True, timeout=300)
        expected = "has no lorank; install lorank" if what == "missing" else "has lorank 9.9, and here it is"
        assert expected in answer.stderr.splitlines()[-1]
    finally:
        say(cluster, "end")
        assert cluster.wait(60) == 0


def test_what_is_wrong_with_a_node_is_one_sentence():
    own = {"lorank": "0.1", "numba": "0.60", "numpy": "2.0"}
    good = {"versions": dict(own), "lost": None, "writes": True}
    refuse_node("10.0.0.2", own, good, "/work")
    for change, expected in (
        ({"versions": {**own, "lorank": None}}, "The node 10.0.0.2 has no lorank; install lorank 0.1 there"),
        ({"versions": {**own, "numba": "0.61"}}, "The node 10.0.0.2 has numba 0.61, and here it is 0.60"),
        ({"lost": "/work"}, "does not see the work folder /work; give one on storage that all nodes share"),
        ({"lost": "/data/0.parquet"}, "does not see /data/0.parquet; put it on storage that all nodes share"),
        ({"writes": False}, "may not write to the work folder /work"),
    ):
        with pytest.raises(InputError, match=re.escape(expected)):
            refuse_node("10.0.0.2", own, {**good, **change}, "/work")


def test_the_nodes_of_this_machine_are_asked(session, tmp_path):
    check_nodes([__file__], str(tmp_path))
    with pytest.raises(InputError, match=r"The node 127\.0\.0\.1 does not see .*nowhere; put it on storage"):
        check_nodes([str(tmp_path / "nowhere")], str(tmp_path))
    with pytest.raises(InputError, match=r"does not see the work folder .*nowhere; give one on storage"):
        check_nodes([], str(tmp_path / "nowhere"))


@pytest.mark.slow
def test_an_address_where_nobody_is(folder):
    words = [sys.executable, "-c", DRIVER, str(folder), "127.0.0.1:1"]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert "InputError: The Ray cluster at 127.0.0.1:1 cannot be joined (Connection refused)." in answer.stderr


@pytest.mark.slow
def test_a_fit_of_more_than_half_a_minute_hears_nothing_of_ray():
    """Ray 2.52 and 2.53 print after 30 seconds that nobody takes their metrics; no setting of theirs keeps that out."""
    waiting = "import time; from lorank.distributed.cluster import open_ray\nwith open_ray(cpus=1): time.sleep(35)"
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", waiting], capture_output=True, text=True, timeout=120
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
