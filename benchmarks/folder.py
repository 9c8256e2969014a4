"""A folder of Parquet files of Yahoo's size, on Ray or out of core: seconds, and memory over all processes.

python benchmarks/folder.py make ratings/ --entries 62500000
python benchmarks/folder.py fit ratings/ --backend ray --rank 10 --sweeps 3
python benchmarks/folder.py fit ratings/ --backend out-of-core --limit-mb 600     # heap limited by RLIMIT_DATA
python benchmarks/folder.py fit ratings/ --backend memory
python benchmarks/folder.py compare ratings/     # in memory, and out of core with a heap of a third of the blocks
python benchmarks/folder.py driver /tmp/made --sizes 1e6 10e6 60e6    # memory of the driver, four entries to a row

RLIMIT_DATA limits what a process allocates, not the system's page cache, which may keep the blocks' files in memory
that nobody else wants. With --cold they are dropped from it after each sweep: each is read from disk in the next.
`compare`, `driver`, and `fit` with --save NAME, write what they measured to docs/benchmarks/distributed.json.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from measured import save

FILES = 8


def make(folder: Path, entries: int, users: int, items: int) -> None:
    """Files with disjoint users, so that no pair comes twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    width = users // FILES
    for number in range(FILES):
        rng = np.random.default_rng(number)
        cells = np.sort(rng.integers(width * items, size=entries // FILES))
        cells = cells[np.diff(cells, prepend=-1) > 0]
        user, item = np.divmod(cells, items)
        rating = rng.integers(1, 101, size=cells.size).astype(np.float32)
        table = pa.table({"user": user + number * width, "item": item, "rating": rating})
        pq.write_table(table, folder / f"{number}.parquet")


def memory(pid: int) -> int:
    """Bytes of a process and all below it, shared pages counted once (PSS)."""
    parents: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(entry))
    total, waiting = 0, [pid]
    while waiting:
        own = waiting.pop()
        waiting += parents.get(own, [])
        try:
            text = Path(f"/proc/{own}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            continue
    return total


def anonymous() -> int:
    """Bytes that this process alone has allocated and touched: without pages of files and of the object store."""
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:")) * 1024


def driver(folder: Path, given: argparse.Namespace) -> None:
    """The driver's peak at several sizes, each in a process of its own; the model goes to a folder of shards."""
    for size in map(int, given.sizes):
        data = folder / str(size)
        if not data.exists():
            make(data, size, size // 4, max(size // 100, 1000))
        with tempfile.TemporaryDirectory(dir=given.work_folder) as work:
            same = ["--rank", str(given.rank), "--sweeps", str(given.sweeps), "--dtype", given.dtype]
            same += ["--work-folder", work, "--output", f"{work}/model", "--backend", given.backend]
            same += ["--search"] if given.search else []
            same += ["--save", f"driver, {size} entries{', with a search' if given.search else ''}"]
            subprocess.run([sys.executable, __file__, "fit", str(data), *same], check=True)


def drop(folder: Path) -> None:
    """Ask the system to forget the pages of the files."""
    for path in folder.rglob("*.part"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fit(
    folder: Path,
    backend: str,
    rank: int,
    sweeps: int,
    limit: int | None,
    dtype: str,
    work: Path | None,
    cold: bool,
    output: Path | None,
    search: bool,
    name: str | None,
) -> None:
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit << 20, limit << 20))
    warnings.simplefilter("ignore")
    peak, own, done = [0], [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02 if output else 0.5):
            own[0] = max(own[0], anonymous())
            peak[0] = max(peak[0], 0 if output else memory(os.getpid()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    ends: list[float] = []
    try:
        began = time.perf_counter()
        common = {"max_iter": sweeps, "tol": 0.0, "dtype": dtype} | ({} if search else {"rank": rank, "lam": 50.0})

        def mark(progress) -> None:
            ends.append(time.perf_counter())
            if cold:
                drop(work)

        if backend == "memory":
            import pyarrow.dataset

            from lorank import MatrixCompletion, Observations

            table = pyarrow.dataset.dataset(folder).to_table().to_pandas()
            data = Observations.from_table(table, "user", "item", "rating")
            del table
            result = MatrixCompletion(**common, random_state=0).fit(data, callbacks=[mark]).result_
        else:
            from lorank.distributed import fit as fit_folder

            model = fit_folder(
                folder,
                row="user",
                col="item",
                value="rating",
                **common,
                backend=backend,
                callbacks=[mark],
                work_folder=work,
                output=output,
                report=print,
            )
            result = model.result
        total = time.perf_counter() - began
    finally:
        done.set()
        watcher.join()
    later = np.diff(ends)
    print(f"{backend}: {total:.1f} s in all, first sweep at {ends[0] - began:.1f} s, then {later.min():.2f} s a sweep")
    print(f"driver: {own[0] / 1e6:.1f} MB allocated at most")
    if name:
        save(
            name,
            backend=backend,
            shape=list(result.factors.shape),
            rank=None if search else rank,
            dtype=dtype,
            seconds=round(total, 2),
            first_sweep_seconds=round(ends[0] - began, 2),
            sweep_seconds=round(float(later.min()), 3),
            driver_mb=round(own[0] / 1e6, 1),
            peak_gib=round(peak[0] / 2**30, 2),
        )
    print(f"objective {result.objective:.6e}, {result.factors.shape}, peak {peak[0] / 2**30:.2f} GiB (PSS)", end="; ")
    print(f"largest process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB resident")


def compare(folder: Path, given: argparse.Namespace) -> None:
    """The same fit in memory, out of core under a limit, and so with its blocks read from disk each sweep."""
    import pyarrow.parquet as pq

    entries = sum(pq.ParquetFile(path).metadata.num_rows for path in folder.glob("*.parquet"))
    blocks = 2 * entries * (np.dtype(given.dtype).itemsize + 4) / 2**20
    limit = given.limit_mb or int(blocks / 3)
    print(f"{entries} entries, {blocks:.0f} MiB of blocks, heap limited to {limit} MiB out of core", flush=True)
    # So tight a limit leaves no room for memory that was freed and is kept for later.
    tight = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}
    tight |= {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "262144"}
    same = ["--rank", str(given.rank), "--sweeps", str(given.sweeps), "--dtype", given.dtype]
    with tempfile.TemporaryDirectory(dir=given.work_folder) as work:
        bounded = ["--backend", "out-of-core", "--limit-mb", str(limit), "--work-folder", work]
        ways = {"in memory": ["--backend", "memory"], "out of core": bounded, "not cached": [*bounded, "--cold"]}
        for way, words in ways.items():
            command = [sys.executable, __file__, "fit", str(folder), *words, *same, "--save", f"compare, {way}"]
            subprocess.run(command, env={**os.environ, **(tight if "--limit-mb" in words else {})}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["make", "fit", "compare", "driver"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--entries", type=int, default=62_500_000)
    parser.add_argument("--users", type=int, default=249_008)
    parser.add_argument("--items", type=int, default=296_111)
    parser.add_argument("--backend", default="ray", choices=["ray", "out-of-core", "memory"])
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--limit-mb", type=int)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--work-folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 10e6, 60e6])
    parser.add_argument("--cold", action="store_true", help="with a work folder: drop the blocks from the page cache")
    parser.add_argument("--search", action="store_true", help="tune rank, lam, theta and biases first, as by default")
    parser.add_argument("--save", help="what docs/benchmarks/distributed.json calls it")
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.entries, given.users, given.items)
    elif given.what == "compare":
        compare(given.folder, given)
    elif given.what == "driver":
        driver(given.folder, given)
    else:
        limits = given.limit_mb, given.dtype, given.work_folder, given.cold, given.output, given.search, given.save
        fit(given.folder, given.backend, given.rank, given.sweeps, *limits)


if __name__ == "__main__":
    main()
