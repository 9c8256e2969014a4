"""Peak memory of reading a long csv file, and of predicting many pairs with a model file and with shards.

    python benchmarks/memory.py [--lines 20e6] [--pairs 2e6 50e6]

Ratings of 100,000 users and 10,000 items, rank 5; each measurement is a process of its own, and its largest resident
memory counts, libraries included. Results: docs/benchmarks/memory.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np

OUT = Path(__file__).parents[1] / "docs" / "benchmarks" / "memory.json"
USERS, ITEMS = 100_000, 10_000
READ = "import sys; from lorank.tables import read; read(sys.argv[1], 'user', 'item', 'rating')"


def pairs(count: int, seed: int) -> dict[str, np.ndarray]:
    """Distinct pairs in random order."""
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(USERS * ITEMS, size=count))
    user, item = np.divmod(rng.permutation(cells), ITEMS)
    return {"user": user, "item": item}


def peak(*words: str) -> float:
    """GiB of a process that runs these words, without those below it.

    The system counts what the process that starts it holds at that moment: that one must be small.
    """
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"It failed: {' '.join(words)}")
    return round(used.ru_maxrss / 2**20, 2)


def make(folder: Path, lines: int) -> None:
    """A long csv file, and some of it as a folder of Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    table = pa.table(pairs(lines, 0))
    table = table.append_column("rating", pa.array(np.random.default_rng(1).integers(1, 6, size=len(table))))
    pyarrow.csv.write_csv(table, folder / "long.csv")
    (folder / "ratings").mkdir()
    pq.write_table(table.slice(0, 2_000_000), folder / "ratings" / "0.parquet")


def make_pairs(path: Path, count: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(pairs(count, 2)), path)


def elsewhere(work: Callable[..., None], *args: object) -> None:
    """In a process of its own, which takes its memory with it."""
    process = get_context("spawn").Process(target=work, args=args)
    process.start()
    process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=float, default=20e6)
    parser.add_argument("--pairs", type=float, nargs="+", default=[2e6, 50e6])
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        long, table = folder / "long.csv", folder / "ratings" / "0.parquet"
        elsewhere(make, folder, int(given.lines))
        rows.append({"what": "read csv", "lines": int(given.lines), "megabytes": round(long.stat().st_size / 1e6)})
        rows[-1]["peak_gib"] = peak(sys.executable, "-c", READ, str(long))
        print(rows[-1], flush=True)
        lorank = (sys.executable, "-m", "lorank", "-q")
        fit = ("--rank", "5", "--lam", "5", "--row", "user", "--col", "item", "--value", "rating")
        models = {"a model file": folder / "model.lorank", "shards": folder / "shards"}
        peak(*lorank, "fit", str(table), *fit, "-o", str(models["a model file"]))
        peak(*lorank, "fit", str(table.parent), "--out-of-core", *fit, "-o", str(models["shards"]))
        for count in map(int, given.pairs):
            asked, out = folder / "pairs.parquet", folder / "out.parquet"
            elsewhere(make_pairs, asked, count)
            for kind, model in models.items():
                words = ("predict", str(model), str(asked), "-o", str(out))
                rows.append({"what": f"predict with {kind}", "pairs": count, "peak_gib": peak(*lorank, *words)})
                out.unlink()
                print(rows[-1], flush=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
