"""The same fit on Ray actors: the same bits as on this machine, whoever dies on the way."""

import os
import signal
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from lorank import MatrixCompletion
from lorank.datasets import synthetic
from lorank.distributed import fit, open_ray, over_ray, parts
from lorank.distributed.problem import ROWS, BlockProblem
from lorank.errors import InputError
from lorank.problems import Problem
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating, Stopping, solve

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")

REGULARIZER = FactoredNNFN(lam=2.0, theta=0.9)
STOPPING = Stopping(tol=1e-8, max_iter=12)


@pytest.fixture(scope="module", autouse=True)
def session():
    with open_ray(cpus=4, store_bytes=200 << 20):
        yield


@pytest.fixture(scope="module")
def data():
    return synthetic(m=300, n=220, rank=3, seed=1)


def fitted(problem, validation=None):
    return solve(Alternating(), problem, stopping=STOPPING, validation=validation, seed=5)


def same(one, other):
    a, b = one.factors, other.factors
    np.testing.assert_array_equal(a.left, b.left)
    np.testing.assert_array_equal(a.right, b.right)
    assert a.offset == b.offset
    assert one.history.objective == other.history.objective


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_same_bits_as_the_local_fit(data, workers):
    problem = over_ray(data.train, REGULARIZER, 4, None, workers)
    for weight in (None, 3.0):
        local = Problem(data.train, REGULARIZER, 4, weight)
        far = BlockProblem(data.train, REGULARIZER, 4, weight, engine=problem.engine)
        same(fitted(far, data.validation), fitted(local, data.validation))
        start, ridge, pull = local.random_start(0), np.eye(4), 0.1 * np.ones((4, 4))
        for transposed in (False, True):
            factors = start.transposed() if transposed else start
            expected, given = (p.solve_left(factors, ridge, pull, transposed) for p in (local, far))
            np.testing.assert_array_equal(given[0], expected[0])
            assert given[1] == expected[1]
    shares = [sum(part.entries for part in run) for run in problem.engine._runs[ROWS]]
    assert sum(shares) == data.train.nnz
    assert max(shares) / min(shares) < 1.3
    problem.engine.close()


def test_workers_killed_again_and_again(data):
    local = fitted(Problem(data.train, REGULARIZER, 4))
    problem = over_ray(data.train, REGULARIZER, 4, None, 2)
    import ray

    kills = []

    def kill(progress):
        if progress.iteration in (1, 2, 4):
            victim = problem.engine._actors[progress.iteration % 2]
            pid = ray.get(victim.process.remote())
            kills.append(pid)
            os.kill(pid, signal.SIGKILL)

    result = solve(Alternating(), problem, stopping=STOPPING, callbacks=[kill], seed=5)
    assert len(kills) == 3
    assert problem.engine.deaths >= 3
    same(result, local)
    problem.engine.close()


def test_estimator_gives_the_same_model(data):
    params = {"rank": 4, "lam": 2.0, "biases": True, "random_state": 0, "tol": 1e-6}
    local = MatrixCompletion(**params).fit(data.train, validation=0.1)
    far = MatrixCompletion(**params, backend="ray").fit(data.train, validation=0.1)
    same(far.result_, local.result_)


def test_what_runs_on_one_machine_only_says_so(data):
    with pytest.raises(InputError, match=r"nuclear.*one machine"):
        MatrixCompletion("nuclear", backend="ray").fit(data.train)
    with pytest.raises(InputError, match=r"gradient.*one machine"):
        MatrixCompletion(solver="gradient", backend="ray").fit(data.train)
    with pytest.raises(InputError, match="backend"):
        MatrixCompletion(backend="dask").fit(data.train)


def test_a_cluster_that_is_too_small_is_refused_with_the_estimate(data):
    with pytest.raises(InputError, match="64 CPUs"):
        over_ray(data.train, REGULARIZER, 4, workers=64)
    with pytest.raises(InputError, match="GiB over all workers"):
        over_ray(data.train, REGULARIZER, 10**9)


@pytest.fixture
def folder(data, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    for number in range(3):
        part = slice(number, None, 3)
        table = {"u": data.train.rows[part], "i": data.train.cols[part], "v": data.train.values[part]}
        pq.write_table(pa.table(table), tmp_path / "data" / f"{number}.parquet")
    return tmp_path / "data"


def check_folder(folder, own, counts, deaths):
    """The bits of the fit without Ray, for these numbers of workers, with workers killed after these sweeps."""
    own.mkdir()
    params = {"row": "u", "col": "i", "value": "v", "rank": 4, "lam": 2.0, "biases": True, "validation": 0.1}
    params |= {"tol": 1e-8, "max_iter": 6, "work_folder": own}

    def kill(progress):
        if progress.iteration in deaths:
            os.kill(keepers()[0], signal.SIGKILL)

    alone = fit(folder, **params, backend="out-of-core")
    for count in counts:
        same(fit(folder, **params, workers=count, callbacks=[kill]).result, alone.result)
    assert list(own.iterdir()) == []


def keepers():
    """Processes of this test's workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if b"ray::_Keeper" in (entry / "cmdline").read_bytes() and parent(parent(entry.name)) == os.getpid():
                    found.append(int(entry.name))
    return found


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_a_folder_gives_the_same_bits_whoever_dies(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PARTS", 4)
    check_folder(folder, tmp_path / "work", counts=[2], deaths=[2])


@pytest.mark.slow
def test_a_folder_gives_the_same_bits_for_many_workers_and_deaths(folder, tmp_path):
    check_folder(folder, tmp_path / "work", counts=[1, 2, 4], deaths=[1, 2, 4])


def test_listens_on_the_loopback_only():
    listed = [line.split() for line in os.popen("ps -eo pid=,ppid=").read().splitlines()]
    own = {os.getpid()}
    for _ in range(4):
        own |= {int(pid) for pid, parent in listed if int(parent) in own}
    listening = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                listening[fields[9]] = fields[1].split(":")[0]
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    found = 0
    for pid in own:
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        for link in links:
            if link.startswith("socket:[") and link[8:-1] in listening:
                found += 1
                assert listening[link[8:-1]] in loopback
    assert found
