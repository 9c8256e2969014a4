"""Nothing is left behind, however a fit ends; and a fit whose driver was killed goes on where it was."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from lorank.datasets import synthetic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None or find_spec("pyarrow") is None, reason="ray or pyarrow is missing"),
]

SCRIPT = """
import sys, time, numpy as np
from lorank.distributed import fit
def say(progress):
    print(progress.iteration, flush=True)
    time.sleep(float(sys.argv[3]))
model = fit(sys.argv[1], row="u", col="i", value="v", rank=4, lam=2.0, tol=0.0, max_iter=14, callbacks=[say],
            checkpoint=sys.argv[2] + "/checkpoint")
np.save(sys.argv[2] + "/left.npy", model.result.factors.left)
"""


def start(folder, out, temporary, pause):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder), str(out), str(pause)]
    env = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True)


def wait_for(process, iteration):
    for line in process.stdout:
        if int(line) >= iteration:
            return


def processes(temporary):
    """Command lines that name the temporary folder: Ray's processes do."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str(temporary).encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


@pytest.fixture
def places(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = synthetic(m=200, rank=3, seed=1).train
    for name in ("data", "a", "b"):
        (tmp_path / name).mkdir()
    # Sockets have short names.
    temporary = Path(f"/tmp/lt{os.getpid()}")
    temporary.mkdir()
    pq.write_table(pa.table({"u": data.rows, "i": data.cols, "v": data.values}), tmp_path / "data" / "0.parquet")
    yield tmp_path, temporary
    temporary.rmdir()


def shared_memory():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def test_interrupt_and_failure_while_the_folder_is_prepared(places):
    """Ctrl-C as soon as there are blocks on disk, and a file that is no Parquet."""
    tmp_path, temporary = places
    before = shared_memory()
    stopped = start(tmp_path / "data", tmp_path / "a", temporary, 0)
    while not list(temporary.glob("lorank-blocks-*/ids-*")) and stopped.poll() is None:
        time.sleep(0.01)
    os.killpg(stopped.pid, signal.SIGINT)
    stopped.wait(120)
    assert list(temporary.iterdir()) == []
    assert processes(temporary) == []
    (tmp_path / "data" / "1.parquet").write_bytes(b"PAR1 and nothing more PAR1")
    failed = start(tmp_path / "data", tmp_path / "a", temporary, 0)
    assert failed.wait(120) == 1
    assert list(temporary.iterdir()) == []
    assert processes(temporary) == []
    assert shared_memory() <= before


def test_interrupt_and_kill_of_the_driver(places):
    tmp_path, temporary = places
    whole = start(tmp_path / "data", tmp_path / "a", temporary, 0)
    assert whole.wait(300) == 0
    assert list(temporary.iterdir()) == []
    assert processes(temporary) == []

    stopped = start(tmp_path / "data", tmp_path / "b", temporary, 1.0)
    wait_for(stopped, 3)
    os.killpg(stopped.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
    assert stopped.wait(120) == 0
    assert list(temporary.iterdir()) == []
    assert processes(temporary) == []

    killed = start(tmp_path / "data", tmp_path / "b", temporary, 1.0)
    wait_for(killed, 10)
    killed.kill()
    killed.wait()
    deadline = time.monotonic() + 60
    while processes(temporary) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert processes(temporary) == []

    resumed = start(tmp_path / "data", tmp_path / "b", temporary, 0)
    first = int(resumed.stdout.readline())
    assert first > 3
    assert resumed.wait(300) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "b" / "left.npy"), np.load(tmp_path / "a" / "left.npy"))
    assert list(temporary.iterdir()) == []
