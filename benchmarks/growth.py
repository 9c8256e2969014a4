"""How cost grows: seconds per sweep against entries and rank, threads, memory, and a fit of Yahoo! Music's shape.

    python benchmarks/growth.py [entries] [rank] [threads] [yahoo]      all of them by default

Every fit runs in a process of its own, so that its peak memory is its own; memory is given as a multiple of the COO
triplets in float32 (12 bytes an entry), the caller's triplets included. Results: docs/benchmarks/growth.json.
"""

import json
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from lorank import MatrixCompletion
from lorank.datasets import simulated_ratings

OUT = Path(__file__).parents[1] / "docs" / "benchmarks" / "growth.json"


def triplets(entries):
    """Ratings of a matrix that grows with its entries: 150 a row, three rows a column."""
    rng = np.random.default_rng(0)
    m, n = max(entries // 150, 100), max(entries // 50, 300)
    cols = np.sort(rng.integers(n, size=(m, entries // m), dtype=np.int32), axis=1)
    # A column that a row draws twice counts once.
    keep = np.diff(cols, axis=1, prepend=-1) > 0
    rows = np.repeat(np.arange(m, dtype=np.int32), keep.sum(axis=1))
    cols = cols[keep]
    return rows, cols, rng.standard_normal(rows.size, np.float32), (m, n)


def fit(job):
    """One fit; prints its figures as a line of JSON."""
    if job["entries"] == "yahoo":
        seen = simulated_ratings("yahoo")
        values = (seen.values - seen.values.mean()) / seen.values.std()
        rows, cols, values = seen.rows, seen.cols, values.astype(np.float32)
        shape = seen.shape
        del seen
    else:
        rows, cols, values, shape = triplets(job["entries"])
    from lorank.observations import Observations

    small = {"rank": job["rank"], "lam": 5.0, "dtype": "float32", "random_state": 0, "n_jobs": job["threads"]}
    MatrixCompletion(**small, max_iter=2, tol=0.1).fit(np.random.default_rng(0).standard_normal((100, 90)))
    base = _resident()
    _reset_peak()
    started, cpu = time.perf_counter(), time.process_time()
    seen = Observations.from_coo(rows, cols, values, shape)
    _ = seen.by_col
    prepared = time.perf_counter() - started
    clock = [time.process_time()]
    model = MatrixCompletion(**small, max_iter=job["sweeps"], tol=job["tol"]).fit(
        seen, callbacks=[lambda _progress: clock.append(time.process_time())]
    )
    seconds = time.perf_counter() - started
    steps = np.diff(model.history_["seconds"], prepend=0)
    print(
        json.dumps(
            job
            | {
                "entries": int(values.size),
                "shape": shape,
                "preparation": prepared,
                "seconds": seconds,
                "cpu": time.process_time() - cpu,
                "sweeps": model.n_iter_,
                "status": str(model.result_.status),
                "sweep": float(steps.min()),
                "sweep_cpu": float(np.diff(clock)[1:].min()),
                "peak_over_triplets": (_peak() - base + 12 * values.size) / (12 * values.size),
                "peak_bytes": _peak(),
            }
        )
    )


def _status(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _resident():
    return _status("VmRSS")


def _peak():
    return _status("VmHWM")


def _reset_peak():
    # Where this cannot be done the peak of making the data counts too.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def run(entries, rank=10, threads=1, sweeps=6, tol=0.0):
    job = {"entries": entries, "rank": rank, "threads": threads, "sweeps": sweeps, "tol": tol}
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import growth; growth.fit({job!r})"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    print(
        f"  {answer['entries']:>11,} entries, rank {rank:2d}, {threads} thread(s): {answer['sweep']:.3f} s a sweep, "
        f"preparation {answer['preparation']:.2f} s, {answer['sweeps']} sweeps in {answer['seconds']:.1f} s "
        f"({answer['cpu']:.1f} CPU s), peak {answer['peak_over_triplets']:.2f} x triplets",
        flush=True,
    )
    return answer


def exponent(answers, key):
    x, y = (np.log([answer[name] for answer in answers]) for name in (key, "sweep_cpu"))
    return float(np.polyfit(x, y, 1)[0])


def report_entries():
    answers = [run(entries) for entries in (1_000_000, 4_000_000, 15_000_000, 60_000_000)]
    print(f"CPU seconds per sweep grow like entries^{exponent(answers, 'entries'):.2f} (to stay under: 1.1)")
    return answers


def report_rank():
    answers = [run(1_000_000, rank) for rank in (5, 10, 20, 40, 80)]
    print(f"CPU seconds per sweep grow like rank^{exponent(answers, 'rank'):.2f} (arithmetic: 2)")
    return answers


def report_threads():
    answers = [run(5_000_000, 10, threads) for threads in (1, 2, 1, 2)]
    one, two = (min(a["sweep"] for a in answers if a["threads"] == threads) for threads in (1, 2))
    print(f"5 million entries: two threads are {one / two:.2f} times as fast as one (to reach: 1.7)")
    return answers


def report_yahoo():
    answer = run("yahoo", 20, 2, sweeps=200, tol=1e-4)
    print(f"Yahoo's shape: {answer['status']}, {answer['seconds'] / 60:.1f} min, {answer['peak_bytes'] / 1e9:.2f} GB")
    return [answer]


def summary(saved):
    """What is quoted of the answers: exponents of growth, and what a second thread brings."""
    seconds = {threads: [a["sweep"] for a in saved.get("threads", []) if a["threads"] == threads] for threads in (1, 2)}
    found = {f"exponent of {key}": exponent(saved[key], key) for key in ("entries", "rank") if key in saved}
    return found | ({"two threads": min(seconds[1]) / min(seconds[2])} if all(seconds.values()) else {})


REPORTS = {"entries": report_entries, "rank": report_rank, "threads": report_threads, "yahoo": report_yahoo}

if __name__ == "__main__":
    OUT.parent.mkdir(parents=True, exist_ok=True)
    saved = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in sys.argv[1:] or REPORTS:
        print(name)
        saved[name] = REPORTS[name]()
        saved["summary"] = summary(saved)
        OUT.write_text(json.dumps(saved, indent=1) + "\n")
