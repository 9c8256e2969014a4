"""A Ray cluster of three nodes on one machine, each in a network namespace behind a link of 1 Gbit/s: the bytes on each
link beside the prediction, and a node that goes down in the middle of a sweep.

sudo python benchmarks/nodes.py [--entries 2000000] [--sweeps 6] [--rate 1gbit] [--lose] [--save]

Needs root, iproute2 and Ray. The nodes are joined by a bridge in a fourth namespace; nothing of it is connected to the
machine's own network, and at the end, whatever it is, the processes and namespaces are removed. Each node has its own
folder for Ray; other files are shared, as the work folder of a fit must be. The driver is on the first node.

Prints lines of JSON. "bytes": what each node received and sent over its link in a sweep, and what the factors' sizes
predict (docs/explanation/distributed.md); Ray may have a node that has a factor already pass it on to another. "same":
whether the bits are those of a fit out of core in one process. With --save the last whole sweep goes to
docs/benchmarks/distributed.json.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from measured import save

NODES, CPUS = 3, 2
PORT = 6379
# Seconds in which Ray's own messages are counted.
QUIET = 4.0
RAY = "from ray.scripts.scripts import main; main()"
# A node without a link is given up after 3 s instead of about 20.
HEALTH = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "3"}
# Workers as nice as what starts them, as lorank has it where it starts Ray itself.
NICE = {"RAY_worker_niceness": "0"}

# Ends when Ray has so many nodes.
JOINED = """
import sys, time
import ray
ray.init(address=sys.argv[1], log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(0.2)
"""

DRIVER = """
import json, sys, time
import numpy as np
import ray
from lorank.distributed import fit
given = json.loads(sys.argv[1])
params = dict(row="u", col="i", value="v", rank=given["rank"], lam=2.0, tol=0.0, max_iter=given["sweeps"])

def watch(progress):
    from ray._private import state
    where = {name: actor["Address"]["IPAddress"] for name, actor in state.actors().items() if actor["State"] == "ALIVE"}
    engine = progress.factors.left.engine
    lines = [sum(run[-1].hi - run[0].lo for run in (runs[number] for runs in engine._runs.values()) if run)
             for number in range(engine.workers)]
    owned = [(where.get(actor._actor_id.hex()), own) for actor, own in zip(engine._actors, lines)]
    print(json.dumps({"sweep": progress.iteration, "owned": owned}), flush=True)
    sys.stdin.readline()

began = time.perf_counter()
far = fit(given["folder"], **params, address=given["address"], workers=given["nodes"], work_folder=given["work"],
          callbacks=[watch])
seconds = time.perf_counter() - began
alone = fit(given["folder"], **params, backend="out-of-core")
pairs = zip((far.factors.left, far.factors.right), (alone.factors.left, alone.factors.right))
same = all(np.array_equal(a, b) for a, b in pairs) and far.result.history.objective == alone.result.history.objective
print(json.dumps({"same": bool(same), "seconds": seconds}), flush=True)
"""


class Nodes:
    """Three namespaces with a link each to a bridge in a fourth one."""

    def __init__(self, rate: str) -> None:
        self.name = f"lorank-{secrets.token_hex(3)}"
        self.hub = f"{self.name}-hub"
        self.home = Path(tempfile.mkdtemp(prefix="lr-", dir="/run"))  # Ray's sockets have short names
        self.rate, self.token = rate, secrets.token_hex(32)
        self.made: list[str] = []

    def space(self, node: int) -> str:
        return f"{self.name}-{node}"

    def address(self, node: int) -> str:
        return f"10.213.57.{node + 1}"

    def connect(self) -> None:
        self._add(self.hub)
        _run("ip", "-n", self.hub, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", self.hub, "link", "set", "br0", "up")
        for node in range(NODES):
            space = self.space(node)
            self._add(space)
            _run("ip", "-n", self.hub, "link", "add", f"port{node}", "type", "veth", "peer", "eth0", "netns", space)
            _run("ip", "-n", self.hub, "link", "set", f"port{node}", "master", "br0", "up")
            _run("ip", "-n", space, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _run("ip", "-n", space, "link", "set", device, "up")
            for where, device in ((space, "eth0"), (self.hub, f"port{node}")):
                limit = ("rate", self.rate, "burst", "1mb", "latency", "100ms")
                _run("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", *limit)

    def _add(self, space: str) -> None:
        self.made.append(space)
        _run("ip", "netns", "add", space)

    def start(self, node: int, *words: str, **more: object) -> subprocess.Popen:
        """A command on a node, where /run/lr-... is the node's own."""
        own = self.home.with_name(f"{self.home.name}-{node}")
        own.mkdir(exist_ok=True)
        shell = 'mount --bind "$0" "$1" && shift 1 && exec "$@"'
        inside = ["sh", "-c", shell, str(own), str(self.home), *words]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1", **HEALTH, **NICE}
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}
        return subprocess.Popen(["ip", "netns", "exec", self.space(node), *inside], env=environment, **more)

    def start_ray(self, store: int = 300 << 20) -> None:
        for node in range(NODES):
            words = ["--block", "--num-cpus", str(CPUS), "--object-store-memory", str(store)]
            words += ["--node-ip-address", self.address(node), "--disable-usage-stats"]
            if node == 0:
                head = ["--head", "--port", str(PORT), "--include-dashboard", "false", "--temp-dir", str(self.home)]
                words = [*head, *words]
            else:
                words = ["--address", f"{self.address(0)}:{PORT}", *words]
            with open(self.home / f"log-{node}", "wb") as log:
                self.start(node, sys.executable, "-c", RAY, "start", *words, stdout=log, stderr=log)
            if node == 0:
                self._wait_for_head()
        # A fit begins with the nodes that there are.
        address, log = f"{self.address(0)}:{PORT}", self.home / "log-joined"
        with open(log, "wb") as said:
            joined = self.start(0, sys.executable, "-c", JOINED, address, str(NODES), stdout=said, stderr=said)
        try:
            ended = joined.wait(120)
        except subprocess.TimeoutExpired:
            ended = None
        if ended != 0:
            joined.kill()
            raise SystemExit(f"The nodes did not join: {log.read_text()[-2000:]}")

    def _wait_for_head(self) -> None:
        probe = f"import socket; socket.create_connection(('{self.address(0)}', {PORT}), 2)"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.start(0, sys.executable, "-c", probe, stderr=subprocess.DEVNULL).wait() == 0:
                return
            time.sleep(0.5)
        raise SystemExit(f"Ray did not start: {(self.home / 'log-0').read_text()[-2000:]}")

    def counters(self) -> np.ndarray:
        """Bytes that each node has (received, sent)."""
        names = [f"/sys/class/net/port{node}/statistics/{way}_bytes" for node in range(NODES) for way in ("tx", "rx")]
        said = _run("ip", "netns", "exec", self.hub, "cat", *names)
        return np.array(said.split(), np.int64).reshape(NODES, 2)

    def idle(self) -> np.ndarray:
        """Bytes a second that each node (receives, sends) while nobody asks for anything: Ray's own messages."""
        time.sleep(1)
        before, began = self.counters(), time.perf_counter()
        time.sleep(QUIET)
        return (self.counters() - before) / (time.perf_counter() - began)

    def lose(self, node: int) -> None:
        """A node goes down: first its link, then its processes."""
        _run("ip", "-n", self.hub, "link", "set", f"port{node}", "down")
        self._end(self.space(node))

    def _end(self, space: str) -> None:
        for _ in range(5):
            found = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True).stdout.split()
            for process in found:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            if not found:
                return
            time.sleep(0.2)

    def close(self) -> None:
        for space in reversed(self.made):
            self._end(space)
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
        for folder in self.home.parent.glob(f"{self.home.name}*"):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(rate: str) -> Iterator[Nodes]:
    """The nodes for the time of the block; gone at its end, also by Ctrl-C and SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    nodes = Nodes(rate)
    try:
        nodes.connect()
        nodes.start_ray()
        yield nodes
    finally:
        nodes.close()


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def make(folder: Path, entries: int) -> tuple[int, int]:
    """Files of about so many entries, twenty in a row, a hundred in a column, by which the factors are large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    m, n = entries // 20, entries // 100
    cells = np.unique(np.concatenate([rng.integers(m * n, size=entries), np.arange(m) * n + np.arange(m) % n]))
    rows, cols = np.divmod(cells, n)
    values = rng.standard_normal(cells.size)
    folder.mkdir()
    for number in range(NODES):
        part = slice(number, None, NODES)
        table = pa.table({"u": rows[part], "i": cols[part], "v": values[part]})
        pq.write_table(table, folder / f"{number}.parquet")
    return m, n


def predicted(owned: list[list[int]], rank: int) -> np.ndarray:
    """Bytes that each node receives and sends in a sweep, where every worker needs most lines of both factors.

    Those are the shards of all other nodes' workers, once, and requests; `owned` has the lines of each node's workers.
    """
    from lorank.distributed.travel import MESSAGES
    from lorank.linalg import padded_width

    line, whole = 8 * padded_width(rank), np.zeros((NODES, 2))
    own, with_workers = np.array([sum(lines) for lines in owned]), sum(map(bool, owned))
    for node, lines in enumerate(own):
        if lines:
            whole[node] = line * (own.sum() - lines) + MESSAGES, line * lines * (with_workers - 1) + MESSAGES
    return whole


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=2_000_000)
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=6)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--save", action="store_true", help="into docs/benchmarks/distributed.json")
    parser.add_argument("--lose", action="store_true", help="a node goes down in the middle of the third sweep")
    parser.add_argument("--private", action="store_true", help="a work folder that only the first node sees: refused")
    given = parser.parse_args()
    if os.geteuid() or shutil.which("ip") is None or shutil.which("tc") is None:
        raise SystemExit("Network namespaces need root and iproute2.")
    with tempfile.TemporaryDirectory(prefix="lorank-nodes-") as shared, running(given.rate) as nodes:
        folder, work = Path(shared) / "data", Path(shared) / "work"
        shape = make(folder, given.entries)
        work.mkdir()
        if given.private:
            work = nodes.home / "work"
            nodes.start(0, "mkdir", str(work)).wait()
        about = {"folder": str(folder), "work": str(work), "address": f"{nodes.address(0)}:{PORT}", "nodes": NODES}
        about |= {"rank": given.rank, "sweeps": given.sweeps}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        driver = nodes.start(0, sys.executable, "-W", "ignore", "-c", DRIVER, json.dumps(about), **pipes)
        before = began = None
        measured: list[tuple[list[int], list[float], list[int]]] = []
        for text in driver.stdout:
            if not text.startswith("{"):
                continue
            said = json.loads(text)
            if "sweep" not in said:
                print(text, end="", flush=True)
                break
            now, at = nodes.counters(), time.perf_counter()
            if before is None:
                idle = nodes.idle()
            owned = [[lines for where, lines in said["owned"] if where == nodes.address(node)] for node in range(NODES)]
            placed = [len(lines) for lines in owned]
            if before is not None:
                guess = predicted(owned, given.rank)
                line = {"sweep": said["sweep"], "seconds": round(at - began, 3), "workers": placed}
                beside = (idle * (at - began)).round().astype(int)
                line |= {"bytes": (now - before - beside).tolist(), "predicted": guess.round().astype(int).tolist()}
                print(json.dumps(line | {"idle": beside.tolist()}), flush=True)
                measured = list(zip((now - before - beside).tolist(), guess.tolist(), beside.tolist()))
            sweep = 0.0 if began is None else at - began
            before, began = nodes.counters(), time.perf_counter()
            driver.stdin.write("\n")
            driver.stdin.flush()
            if given.lose and said["sweep"] == 2:
                time.sleep(sweep / 2)
                victim = max(node for node in range(1, NODES) if placed[node])  # one that has a worker
                nodes.lose(victim)
                print(json.dumps({"lost": victim}), flush=True)
        if driver.wait(60):
            raise SystemExit("The driver failed.")
    for node, (seen, expected, beside) in enumerate(measured if given.save else ()):
        figures = {"received": seen[0], "expected_received": expected[0], "sent": seen[1], "expected_sent": expected[1]}
        figures |= {"idle_received": beside[0], "idle_sent": beside[1]}
        in_mb = {f"{name}_mb": round(value / 1e6, 2) for name, value in figures.items()}
        save(f"bytes of node {node + 1}", shape=list(shape), entries=given.entries, rank=given.rank, **in_mb)


if __name__ == "__main__":
    main()
