"""Processes that are killed, disks that are full, files that two want: nothing is lost, and nothing is half.

`make faults` runs these at length: LORANK_FAULTS says how often each kill is tried, at moments drawn at random.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import lorank
from lorank import InputError, MatrixCompletion
from lorank.distributed import cluster
from lorank.files import claim, try_claim
from lorank.solvers.checkpoint import claimed

ROUNDS = int(os.environ.get("LORANK_FAULTS", "1"))
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")

# The command, with sweeps that take a while and a checkpoint after each; ready when it listens to signals.
SLOW = """
import contextlib, functools, sys, time
from lorank.estimators import progress, running
from lorank.solvers import Checkpoint
running.Checkpoint = functools.partial(Checkpoint, seconds=0.0)
quick = progress.FitProgress.__call__
def slow(self, state):
    time.sleep(0.004)
    return quick(self, state)
progress.FitProgress.__call__ = slow
from lorank.cli import main
commands = sys.modules["lorank.cli.app"]
quiet = commands.ending_cleanly
@contextlib.contextmanager
def ready():
    with quiet():
        print("ready", file=sys.stderr, flush=True)
        yield
commands.ending_cleanly = ready
main()
"""
FIT = [
    "fit",
    "a.csv",
    "--rank",
    "3",
    "--lam",
    "0.01",
    "--biases",
    "no",
    "--tol",
    "0",
    "-o",
    "model.lorank",
    "--threads",
    "1",
]
KILLS = {
    "kill": [signal.SIGKILL],
    "term": [signal.SIGTERM],
    "interrupt": [signal.SIGINT],
    "interrupt twice": [signal.SIGINT, signal.SIGINT],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 20)) + 0.1 * rng.normal(size=(30, 20))
    lines = [f"{i},{j},{X[i, j]:.9f}" for i in range(30) for j in range(20) if (i + j) % 3]
    Path("a.csv").write_text("row,col,value\n" + "\n".join(lines))
    return tmp_path


def start(*words):
    command = [sys.executable, "-W", "ignore", "-c", SLOW, *words]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = ""
    while "ready" not in said:
        assert child.poll() is None, said
        said = child.stderr.readline()
    return child


def ended(child, within=120):
    try:
        _, err = child.communicate(timeout=within)
    finally:
        child.kill()
    return err


@pytest.mark.parametrize(
    "how", ["kill", "term", *(pytest.param(how, marks=pytest.mark.slow) for how in ("interrupt", "interrupt twice"))]
)
def test_a_fit_that_is_killed_goes_on_and_ends_with_the_same_bits(folder, how):
    whole = start(*FIT)
    assert "Error" not in ended(whole)
    expected = lorank.load("model.lorank")
    chance = random.Random(f"{how} {ROUNDS}")
    for _ in range(ROUNDS):
        Path("model.lorank").unlink()
        child = start(*FIT)
        time.sleep(chance.uniform(0.0, 2.0))
        for number in KILLS[how]:
            child.send_signal(number)
            time.sleep(chance.uniform(0.0, 0.1))
        err = ended(child)
        killed = not Path("model.lorank").exists()
        assert "Traceback" not in err
        if how != "kill" and killed:
            assert child.returncode == 1, err
            assert err.count("Interrupted") == 1
        assert {path.name for path in folder.iterdir()} <= {
            "a.csv",
            "model.lorank",
            "model.lorank.checkpoint",
            *([path.name for path in folder.glob(".*")] if how == "kill" else []),
        }
        assert "Error" not in ended(start(*FIT))
        found = lorank.load("model.lorank")
        np.testing.assert_array_equal(found.factors.W, expected.factors.W)
        np.testing.assert_array_equal(found.factors.H, expected.factors.H)
        assert found.result.n_iter == expected.result.n_iter


def test_an_interrupt_at_the_very_end_changes_nothing():
    late = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT); "
    late += "from lorank.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", late, "version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_second_of_two_fits_at_one_checkpoint_is_refused(folder):
    child = start(*FIT)
    while not Path("model.lorank.checkpoint").exists():
        time.sleep(0.01)
        assert child.poll() is None
    X = np.random.default_rng(0).normal(size=(9, 7))
    with pytest.raises(InputError, match="in use by another process"):
        MatrixCompletion(rank=2, lam=0.1).fit(X, checkpoint="model.lorank.checkpoint")
    child.send_signal(signal.SIGTERM)
    assert "the state is in model.lorank.checkpoint" in ended(child)
    with claimed("model.lorank.checkpoint"):
        pass
    assert not list(folder.glob(".*.lock"))


def test_claims(tmp_path):
    with claim(tmp_path / "lock", "It"), claim(tmp_path / "lock", "It"):  # a thread may claim what it holds
        assert try_claim(tmp_path / "lock") is None
        program = "import sys; from pathlib import Path; from lorank.files import try_claim; "
        program += "print(try_claim(Path(sys.argv[1])))"
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path / "lock"], capture_output=True, text=True, timeout=60
        )
        assert done.stdout == "None\n", done.stderr
    held = try_claim(tmp_path / "lock")
    assert held is not None
    held.release()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r".*"):
        try_claim(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_work_folders_are_known_by_their_lock_and_not_by_a_process_number(tmp_path):
    with cluster.temporary_folder("lorank-test", tmp_path) as live:
        renamed = live.with_name("lorank-test-999999999-x")  # as another container would number it
        live.rename(renamed)
        dead = tmp_path / f"lorank-test-{os.getpid()}-dead"
        dead.mkdir()
        (dead / cluster.LOCK).write_text("")
        young = tmp_path / "lorank-test-1-young"
        young.mkdir()
        cluster.remove_stale("lorank-test", tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["lorank-test-1-young", renamed.name]
        assert renamed.stat().st_mode & 0o777 == 0o700
        renamed.rename(live)
    assert not live.exists()


LIMITED = """
import resource, signal, sys
import numpy, lorank
from lorank.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main()
"""


@pytest.mark.parametrize("limit", [1000, 20_000, 60_000])
def test_files_that_cannot_grow_are_one_sentence(folder, limit):
    """A limit of the size of files says the same as a full disk, wherever it strikes."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((200, 150)) < 0.4)
    Path("data").mkdir()
    parquet.write_table(pa.table({"row": rows, "col": cols, "value": rng.normal(size=rows.size)}), "data/a.parquet")
    Path("work").mkdir()
    words = ["fit", "data", "--out-of-core", "--rank", "2", "--lam", "1", "-o", "model", "--work-folder", "work"]
    command = [sys.executable, "-W", "ignore", "-c", LIMITED, str(limit), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert done.stderr.count("Error: ") == 1
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) in (
        ["a.csv", "data", "work"],
        ["a.csv", "data", "model.checkpoint", "work"],
    )
    assert not list(Path("work").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("size", [200, 600, 900, 1200, 1500])
def test_a_full_disk_is_one_sentence(folder, size):
    """Out of core on a disk of so many kilobytes: no signal ends the process, and nothing is left."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((300, 200)) < 0.4)
    Path("data").mkdir()
    parquet.write_table(pa.table({"row": rows, "col": cols, "value": rng.normal(size=rows.size)}), "data/a.parquet")
    Path("disk").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", "disk"], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        words = ["fit", "data", "--out-of-core", "--rank", "2", "--lam", "1", "-o", "disk/model"]
        command = [sys.executable, "-W", "ignore", "-c", "from lorank.cli import main; main()", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, 1), (done.returncode, done.stderr)
        assert "Traceback" not in done.stderr
        assert not list(Path("disk").glob(".*"))
        if done.returncode:
            assert done.stderr.count("Error: ") == 1
            assert not Path("disk/model").exists()
        else:
            lorank.load("disk/model").predict([0], [0])
    finally:
        subprocess.run(["umount", "disk"], check=True)


def test_a_ray_that_does_not_start_is_one_sentence(monkeypatch):
    def init(**_):
        raise Exception("The current node timed out during startup.\nThis could happen because it is overloaded.")

    ray = SimpleNamespace(__version__="2.60.0", is_initialized=lambda: False, init=init, shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    for name in cluster.SETTINGS:
        monkeypatch.setenv(name, "token")
    with pytest.raises(InputError, match=r"Ray cannot be started .*try again") as refused, cluster.open_ray():
        pass
    assert "\n" not in str(refused.value)


def test_messages_that_nothing_takes_end_no_fit(folder):
    """A log on a full disk: the fit ended with code 1 and without a model."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    command = [sys.executable, "-W", "ignore", "-c", "from lorank.cli import main; main()"]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*command, *FIT], stdout=subprocess.DEVNULL, stderr=full, timeout=120)
        assert lorank.load("model.lorank").shape == (30, 20)
        refused = subprocess.run([*command, "inspect", "nothing"], stderr=full, timeout=120)
    assert (done.returncode, refused.returncode) == (0, 1)


def test_a_terminal_that_is_closed_ends_a_fit_with_its_checkpoint(folder, hangups_end):
    """As when a connection is lost: the state was that of the last minute, or none."""
    pty = pytest.importorskip("pty")
    ours, its = pty.openpty()
    own = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"  # the terminal that ends it, too
    command = [sys.executable, "-W", "ignore", "-c", own + SLOW, *FIT]
    child = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    while not Path("model.lorank.checkpoint").exists():
        time.sleep(0.01)
        assert child.poll() is None
    os.close(ours)
    try:
        assert child.wait(60) == 1
    finally:
        child.kill()
    assert Path("model.lorank.checkpoint").exists()
    assert not list(folder.glob(".*.lock"))
    assert "Error" not in ended(start(*FIT))
    assert Path("model.lorank").exists()


def test_who_asked_to_go_on_after_a_hangup_does(folder):
    """`nohup` has a process ignore SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        child = start(*FIT)
    finally:
        signal.signal(signal.SIGHUP, before)
    child.send_signal(signal.SIGHUP)
    assert "Error" not in ended(child)
    assert Path("model.lorank").exists()
