"""Spark's ALS beside lorank: the same Parquet files, the same rank, both threads of two cores; seconds, memory, error.

python3 -m venv /tmp/env-spark && /tmp/env-spark/bin/pip install pyspark numpy        # and Java 17
python benchmarks/spark.py --spark-python /tmp/env-spark/bin/python [--entries 1e6 10e6 20e6]

Both read the training file, fit, and predict the pairs of the test file, in a process of their own. The strength of the
regularizer is chosen for each at the smallest size, by the error on a tenth of the training file; entries in a row and
in a column are as many at all sizes. Spark runs its ALS for 10 iterations, its default. lorank, on all entries in
memory and on a folder out of core, stops by its own rule. Memory is the largest PSS over all processes of a run,
sampled four times a second; the heap of Spark's Java machine is limited (--heap), and it takes what it is given. Where
others use the machine, wall seconds say little; CPU seconds over all processes of a run, start included, say more.
Results go to docs/benchmarks/distributed.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

RANK = 10
NAMES = ("user", "item", "rating")
STRENGTHS = {"spark": [0.001, 0.003, 0.01], "lorank": [0.3, 1.0, 3.0]}


def make(folder: Path, entries: int, seed: int = 0) -> None:
    """A matrix of rank 10 with noise of standard deviation 0.5: a hundred entries in a row, a thousand in a column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    m, n = entries // 100, entries // 1000
    left, right = (rng.standard_normal((lines, RANK)).astype(np.float32) for lines in (m, n))
    cells = np.unique(rng.integers(m * n, size=int(1.05 * entries)))
    rng.shuffle(cells)
    cells = cells[:entries]
    tenth = cells.size // 10
    for name, part in (
        ("train", np.sort(cells[tenth:])),
        ("test", np.sort(cells[:tenth])),
    ):
        rows, cols = np.divmod(part, n)
        values = np.empty(part.size, np.float32)
        for at in range(0, part.size, 1 << 20):
            block = slice(at, at + (1 << 20))
            values[block] = (left[rows[block]] * right[cols[block]]).sum(1)
        values += 0.5 * rng.standard_normal(part.size).astype(np.float32)
        table = {"user": rows.astype(np.int32), "item": cols.astype(np.int32), "rating": values}
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table(table), folder / name / "0.parquet")
    whole = pq.read_table(folder / "train" / "0.parquet")
    held = rng.random(len(whole)) < 0.1
    for name, chosen in (("choose-train", ~held), ("choose-test", held)):
        (folder / name).mkdir()
        pq.write_table(whole.filter(pa.array(chosen)), folder / name / "0.parquet")


def with_spark(train: str, test: str, strength: float, heap: str) -> dict[str, float]:
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": heap,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
    }
    build = SparkSession.builder.master("local[2]").appName("als")
    for name, value in settings.items():
        build = build.config(name, value)
    spark = build.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    began = time.perf_counter()
    als = ALS(rank=RANK, maxIter=10, regParam=strength, userCol="user", itemCol="item", ratingCol="rating", seed=0)
    model = als.setColdStartStrategy("drop").fit(spark.read.parquet(train))
    fitted = time.perf_counter() - began
    judge = RegressionEvaluator(metricName="rmse", labelCol="rating", predictionCol="prediction")
    return {"fit": fitted, "rmse": judge.evaluate(model.transform(spark.read.parquet(test)))}


def with_lorank(train: str, test: str, strength: float, backend: str) -> dict[str, float]:
    import pyarrow.parquet as pq

    import lorank
    from lorank import distributed, tables

    began = time.perf_counter()
    if backend == "memory":
        observations, _ = tables.read(Path(train) / "0.parquet", *NAMES)
        estimator = lorank.MatrixCompletion(method="nnfn", rank=RANK, lam=strength, biases=False, n_jobs=2)
        model = estimator.fit(observations).model_
    else:
        names = dict(zip(("row", "col", "value"), NAMES))
        model = distributed.fit(train, **names, rank=RANK, lam=strength, backend="out-of-core", workers=2)
    fitted, total, count = time.perf_counter() - began, 0.0, 0
    for batch in pq.ParquetFile(Path(test) / "0.parquet").iter_batches(1 << 20):
        users, items, ratings = (batch.column(name).to_numpy() for name in NAMES)
        known = (model.find(users, 0, refuse=False) >= 0) & (model.find(items, 1, refuse=False) >= 0)
        total += float(((model.predict(users[known], items[known]) - ratings[known]) ** 2).sum())
        count += int(known.sum())
    return {"fit": fitted, "rmse": (total / count) ** 0.5}


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and all below it that are alive."""
    import psutil  # which Spark's environment need not have

    total = 0.0
    with suppress(psutil.Error):
        for process in (whole := psutil.Process(pid), *whole.children(recursive=True)):
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
    return total


def run(given: argparse.Namespace, who: str, folder: Path, names: tuple[str, str], strength: float) -> dict[str, float]:
    """One run in a process of its own: seconds of the fit and of everything, the largest PSS, the error."""
    from folder import memory

    python = given.spark_python if who == "spark" else sys.executable
    words = [
        python,
        __file__,
        "--run",
        who,
        *(str(folder / name) for name in names),
        str(strength),
        "--heap",
        given.heap,
    ]
    began, peak, cpu = time.perf_counter(), 0, 0.0
    with tempfile.TemporaryFile() as said:
        quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, env=quiet)
        output: list[bytes] = []
        reader = threading.Thread(target=lambda: output.append(process.stdout.read()))
        reader.start()
        while process.poll() is None:
            peak, cpu = max(peak, memory(process.pid)), max(cpu, cpu_seconds(process.pid))
            if time.perf_counter() - began > given.limit:
                process.kill()
            time.sleep(0.25)
        reader.join()
        said.seek(0)
        if process.returncode:
            return {"failed": process.returncode, "said": said.read()[-300:].decode(errors="replace")}
    answer = json.loads(output[0].splitlines()[-1])
    return {**answer, "seconds": time.perf_counter() - began, "cpu": cpu, "gib": peak / 2**30}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spark-python", default="/tmp/env-spark/bin/python")
    parser.add_argument("--entries", type=float, nargs="+", default=[1e6, 10e6, 20e6])
    parser.add_argument("--heap", default="6g")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which a run is ended")
    parser.add_argument("--folder", type=Path, help="where the files go; a temporary folder if not given")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        who, train, test, strength = given.run
        own = (train, test, float(strength))
        answer = with_spark(*own, given.heap) if who == "spark" else with_lorank(*own, who.partition(" ")[2])
        print(json.dumps(answer), flush=True)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as work:
        best: dict[str, float] = {}
        print("entries who strength fit_s all_s cpu_s peak_GiB rmse", flush=True)
        for entries in sorted(map(int, given.entries)):
            folder = Path(work) / str(entries)
            make(folder, entries)
            for who, grid in STRENGTHS.items() if not best else ():
                name = "spark" if who == "spark" else "lorank memory"
                tried = {s: run(given, name, folder, ("choose-train", "choose-test"), s) for s in grid}
                print(f"# {who}: {tried}", flush=True)
                best[who] = min(tried, key=lambda s: tried[s].get("rmse", np.inf))
            for who in ("spark", "lorank memory", "lorank out-of-core"):
                strength = best[who.partition(" ")[0]]
                found = run(given, who, folder, ("train", "test"), strength)
                if "failed" in found:
                    print(entries, who, strength, found, flush=True)
                    continue
                times = " ".join(f"{found[name]:.1f}" for name in ("fit", "seconds", "cpu"))
                figures = f"{times} {found['gib']:.2f} {found['rmse']:.4f}"
                print(f"{entries} {who.replace(' ', '-')} {strength} {figures}", flush=True)
                from measured import save  # Spark's environment has no lorank

                kept = {name: round(value, 4) for name, value in found.items()}
                save(f"beside Spark, {entries} entries, {who}", rank=RANK, strength=strength, **kept)


if __name__ == "__main__":
    main()
