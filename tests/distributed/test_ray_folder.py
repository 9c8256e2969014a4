"""Folders on Ray: the bits of the fit without it, whoever dies on the way; one sentence for what cannot be mended."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lorank.datasets import synthetic
from lorank.distributed import fit, folder_backend, folder_fit, folder_steps, parts
from lorank.distributed.actors import RayEngine
from lorank.errors import InputError

pytestmark = pytest.mark.usefixtures("session")

NAMES = {"row": "u", "col": "i", "value": "v"}
PARAMS = {**NAMES, "rank": 4, "lam": 2.0, "biases": True, "validation": 0.1, "tol": 1e-8, "max_iter": 6}
# As /proc writes 127.0.0.1, ::1 and ::ffff:127.0.0.1.
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


@pytest.fixture(scope="module")
def data():
    """With offsets of rows and columns: where there are none, their variances take hundreds of rounds to vanish."""
    made, rng = synthetic(m=300, n=220, rank=3, seed=1), np.random.default_rng(0)
    seen = made.train
    return replace(
        made, train=seen.with_values(seen.values + rng.normal(size=300)[seen.rows] + rng.normal(size=220)[seen.cols])
    )


@pytest.fixture
def work(tmp_path):
    """A work folder, which must be empty in the end."""
    (tmp_path / "work").mkdir()
    yield tmp_path / "work"
    assert list((tmp_path / "work").iterdir()) == []


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    monkeypatch.setattr(parts, "PARTS", 4)


def same(one, other):
    np.testing.assert_array_equal(one.result.factors.left, other.result.factors.left)
    np.testing.assert_array_equal(one.result.factors.right, other.result.factors.right)
    assert one.result.history.objective == other.result.history.objective
    np.testing.assert_array_equal(one.result.history.validation, other.result.history.validation)  # NaN where none
    for name in ("row_scale", "col_scale", "ratios"):
        scales = [np.asarray(getattr(model.calibration, name), np.float32) for model in (one, other)]
        np.testing.assert_array_equal(*scales)


def actors():
    """Processes of this test's workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if b"ray::_Worker" in (entry / "cmdline").read_bytes() and parent(parent(entry.name)) == os.getpid():
                    found.append(int(entry.name))
    return found


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.fixture(params=["one node", "several"])
def nodes(request, monkeypatch):
    """Workers of one node read each other's files; those that know of no common one ask each other."""
    if request.param == "several":
        know = RayEngine._know
        monkeypatch.setattr(RayEngine, "_know", lambda self, nodes: know(self, [None] * len(nodes)))


@pytest.mark.usefixtures("nodes")
def test_the_same_bits_though_a_worker_dies(folder, work):
    """And, while the workers are at work, nobody listens but on the loopback."""
    addresses = []

    def kill(progress):
        addresses.append(listening())
        if progress.iteration == 2:
            os.kill(actors()[0], signal.SIGKILL)

    alone = fit(folder, **PARAMS, backend="out-of-core")
    same(fit(folder, **PARAMS, work_folder=work, callbacks=[kill]), alone)
    assert all(addresses)
    assert set().union(*addresses) <= LOOPBACK


def test_what_is_chosen_is_the_same(folder, work, monkeypatch):
    """The sample is drawn and searched as without Ray, and so are all entries; three workers, one of them dies."""
    monkeypatch.setattr(folder_steps, "SAMPLE", 3000)
    params = {**NAMES, "rank": 3, "theta": 1.0, "biases": False}
    alone, killed = fit(folder, **params, backend="out-of-core"), []

    def kill(progress):
        if not killed:
            killed.append(actors()[0])
            os.kill(killed[0], signal.SIGKILL)

    counts = []
    monkeypatch.setattr(folder_steps, "search_sample", None)  # not here, but in an actor
    far = fit(
        folder, **params, workers=3, work_folder=work, callbacks=[kill], on_trial=lambda *count: counts.append(count)
    )
    assert killed
    same(far, alone)
    searched = [trial for trial in far.trials if not trial["candidate"].endswith("all rows")]
    assert counts[-1][0] == len(searched)
    told = [[(trial["candidate"], trial["lam"], trial["error"]) for trial in model.trials] for model in (far, alone)]
    assert told[0] == told[1]


@pytest.mark.usefixtures("nodes")
def test_only_the_lines_that_are_needed_travel(tmp_path, work, monkeypatch):
    """Groups of rows that know mostly columns of their own; a worker dies on the way, and the model is written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(parts, "PARTS", 8)
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(400, size=(2, 9000))
    far = rng.random(9000) < 0.01
    cells = np.unique(rows * 400 + np.where(far, cols, rows // 50 * 50 + cols % 50))
    (tmp_path / "data").mkdir()
    table = pa.table({"u": cells // 400, "i": cells % 400, "v": rng.normal(3, 1, cells.size)})
    pq.write_table(table, tmp_path / "data" / "0.parquet")

    def kill(progress):
        if progress.iteration == 2:
            os.kill(actors()[1], signal.SIGKILL)

    said = []
    params = {**PARAMS, "report": said.append}
    near = fit(tmp_path / "data", **params, backend="out-of-core", memory_budget=1)
    assert not said
    same(fit(tmp_path / "data", **params, work_folder=work, output=tmp_path / "model", callbacks=[kill]), near)
    (plan,) = said
    assert "from each other" in plan
    # A line has 8 numbers of 8 bytes; far entries, and a group on the border, name those that others own.
    moved = [float(word) * 1e6 / 64 for word in re.findall(r"([\d.]+) MB for the", plan)]
    assert len(moved) == 2
    assert 0 < max(moved) < far.sum() + 100


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_bits_though_workers_die_at_any_moment(folder, work, workers):
    """Every second one of them, idle, computing or only starting."""
    alone = fit(folder, **PARAMS | {"max_iter": 200, "tol": 0.0}, backend="out-of-core")
    done, kills = threading.Event(), []

    def kill():
        chance = random.Random(workers)
        # Short waits: on a quick machine the sweeps of 200 iterations are over in a second or two.
        while not done.wait(chance.uniform(0.05, 0.6)) and len(kills) < 6:
            with suppress(ProcessLookupError, IndexError):
                victim = chance.choice(actors())
                os.kill(victim, signal.SIGKILL)
                kills.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        far = fit(folder, **PARAMS | {"max_iter": 200, "tol": 0.0}, workers=workers, work_folder=work)
    finally:
        done.set()
        killer.join()
    assert kills
    same(far, alone)


def test_the_same_bits_though_tasks_die(folder, work, monkeypatch, tmp_path):
    """Every task of the preparation is killed in the middle of it, once."""
    alone = fit(folder, **PARAMS, backend="out-of-core")
    marks = tmp_path / "marks"
    marks.mkdir()
    real = folder_backend._on_ray

    def deadly(function, jobs):
        def once(mark, *job):
            answer = function(*job)
            if not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        # One in each pass is enough: what takes long is starting processes anew.
        return real(once, [(f"{marks}/{function.__name__}", *job) for job in jobs])

    monkeypatch.setattr(folder_backend, "_on_ray", deadly)
    same(fit(folder, **PARAMS, work_folder=work), alone)
    numbering = {"sort_table", "merge_range", "cut_range", "number_table", "write_part_ids"}
    assert {path.name for path in marks.iterdir()} == {"scan", "spill", "assemble"} | numbering


def test_a_file_that_vanishes_is_named(folder, work, monkeypatch):
    real = folder_backend._on_ray

    def losing(function, jobs):
        if function.__name__ == "spill":
            (folder / "1.parquet").unlink()
        return real(function, jobs)

    monkeypatch.setattr(folder_backend, "_on_ray", losing)
    with pytest.raises(InputError, match=r"1\.parquet is gone"):
        fit(folder, **PARAMS, work_folder=work)


@pytest.mark.parametrize("lost", [True, False])
def test_a_block_that_is_lost_or_changed_is_rebuilt(folder, work, lost):
    """The block is read again by a worker that takes the place of one that died."""
    damaged = []

    def damage(progress):
        if progress.iteration == 2:
            (block,) = work.glob("lorank-blocks-*/rows-1.part")
            content = bytearray(block.read_bytes())
            content[-1] ^= 1
            block.unlink()
            damaged.append(block)
            if not lost:
                block.write_bytes(content)
                for pid in actors():
                    os.kill(pid, signal.SIGKILL)

    model = fit(folder, **PARAMS, work_folder=work, callbacks=[damage])
    assert damaged
    whole = fit(folder, **PARAMS, work_folder=work, backend="out-of-core")
    np.testing.assert_array_equal(model.factors.left, whole.factors.left)


def test_too_much_for_the_cluster_is_refused_before_it_starts(folder, work, monkeypatch):
    monkeypatch.setattr(folder_fit, "prepare", None)
    with pytest.raises(InputError, match="64 CPUs and Ray has 4"):
        fit(folder, **PARAMS, workers=64, work_folder=work)
    with monkeypatch.context() as patch:
        patch.setattr(folder_fit.parquet, "count_lines", lambda files: 10**12)
        patch.setattr(folder_backend.shutil, "disk_usage", lambda path: SimpleNamespace(free=5 << 30))
        with pytest.raises(InputError, match=r"need about \d+\.\d GiB and .* has 5\.0 GiB free"):
            fit(folder, **PARAMS, work_folder=work)
        patch.setattr(folder_backend.shutil, "disk_usage", lambda path: SimpleNamespace(free=5 << 60))
        with pytest.raises(InputError, match=r"needs about \d+\.\d GiB over all workers and Ray has"):
            fit(folder, **PARAMS, work_folder=work)


def test_factors_that_the_disk_has_no_room_for_are_refused_before_they_are_made(folder, work, monkeypatch):
    monkeypatch.setattr(folder_backend, "SHARD_FILES", 10**12)
    with pytest.raises(InputError, match=r"^Factors of \d+ x \d+ need about .* give a larger work folder"):
        fit(folder, **PARAMS, work_folder=work)


def listening():
    """Addresses on which this process or one below it listens, as /proc writes them."""
    own, waiting = set(), [os.getpid()]
    listed = [line.split() for line in os.popen("ps -eo pid=,ppid=").read().splitlines()]
    while waiting:
        own.add(waiting.pop())
        waiting += [int(pid) for pid, parent in listed if int(parent) in own and int(pid) not in own]
    sockets = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" or "udp" in table:
                sockets[f"socket:[{fields[9]}]"] = fields[1].split(":")[0]
    found = set()
    for pid in own:
        with suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    found.add(sockets.get(os.readlink(f"/proc/{pid}/fd/{number}")))
    return found - {None}


def test_a_ray_that_was_imported_too_early_is_not_started():
    """Whether it listens on the loopback, and asks for a token, it has read already."""
    code = "import ray\nfrom lorank.distributed import open_ray\nwith open_ray():\n    print('started')"
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert "InputError: Ray was imported before lorank could close it to others" in done.stderr
    assert "started" not in done.stdout


def test_workers_that_would_only_wait_for_a_core_are_not_started():
    """Each is a process of some 250 MB: fifty of them bring a machine with two cores to a halt."""
    code = "from lorank.distributed import open_ray\nwith open_ray(cpus=1000):\n    print('started')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "1000 threads of workers were asked for; ask for fewer workers" in done.stderr
    assert "started" not in done.stdout


def test_only_its_user_can_open_the_folder_of_a_ray():
    """Ray gives everybody all rights on the folder that it is told to use, and its sockets ask for no token."""
    code = "import glob, os, sys, tempfile; from lorank.distributed import open_ray\nwith open_ray():\n"
    code += "    [found] = glob.glob(f'{tempfile.gettempdir()}/lorank-ray-{os.getpid()}-*')\n"
    code += (
        "    print(oct(os.stat(found).st_mode & 0o777), any(glob.iglob(f'{found}/**/plasma_store', recursive=True)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0o700", "True"], done.stderr
