"""Errors, seconds and coverage on public ratings: lorank's methods and defaults beside smurff and myFM.

    python benchmarks/accuracy.py [--data ml-100k ml-1m movietweetings] [--rows offsets nnfn ...] [--splits 0 1 2 3 4]
                                  [--peers-python .venv-bench/bin/python] [--again] [--records FILE]
    python benchmarks/accuracy.py --page

Data: the five published splits u1..u5 of MovieLens-100K, five random 90/10 splits of MovieLens-1M and of
MovieTweetings-100K. Nothing is chosen on test entries: lorank searches on a part of the training entries, and the
peers' settings are chosen on a held-out tenth of the training entries of split 0. Splits from 5 on (random ones, of
MovieLens-100K too) count for the coverage of intervals alone. Seconds are of the whole call, search
included, on all cores; kernels are compiled before. Records go into docs/benchmarks/accuracy.json, one for each data
set, row and split. What is recorded already is not run again, so that a run that was cut off goes on; --again runs it
and replaces the record. --page writes the tables of docs/accuracy.md from them.
"""

import argparse
import inspect
import io
import json
import os
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from peers import HERE, WITHIN, Bench, data_folder, grid, write

from lorank import MatrixCompletion, distributed
from lorank.datasets import movielens_1m, movietweetings, split
from lorank.observations import Observations
from lorank.problems.offsets import empirical_bayes_offsets

SAVED = HERE.parent / "docs" / "benchmarks" / "accuracy.json"
PAGE = HERE.parent / "docs" / "accuracy.md"
LEVEL = 0.9
# Splits that the errors are means of. Further ones are for coverage alone, of lines with few entries.
SPLITS = 5
# Entries of a row or column in the training part, by which coverage is told.
COUNTS = {"none": (0, 0), "1 to 4": (1, 4), "5 to 19": (5, 19), "20 to 99": (20, 99), "100 or more": (100, np.inf)}


def movielens_100k(number):
    """u1..u5 as published, base and test; beyond them random ones of the same size."""
    if number >= SPLITS:
        base, test = movielens_100k(0)
        both = [
            np.concatenate(pair)
            for pair in zip((base.rows, base.cols, base.values), (test.rows, test.cols, test.values))
        ]
        return split(Observations.from_coo(*both, base.shape), (0.8, 0.2), seed=number)
    parts = []
    with zipfile.ZipFile(data_folder() / "ml-100k.zip") as archive:
        for part in ("base", "test"):
            table = np.loadtxt(io.BytesIO(archive.read(f"ml-100k/u{number + 1}.{part}")))
            rows, cols = (table[:, i].astype(np.int64) - 1 for i in (0, 1))
            parts.append(Observations.from_coo(rows, cols, table[:, 2], (943, 1682)))
    return parts


def random_split(load):
    def parts(number):
        whole = load(data_folder())
        return split(Observations(whole.shape, whole.by_row), (0.9, 0.1), seed=number)

    return parts


DATA = {
    "ml-100k": ("MovieLens-100K, u1 to u5", movielens_100k),
    "ml-1m": ("MovieLens-1M, random 90/10", random_split(movielens_1m)),
    "movietweetings": ("MovieTweetings-100K, random 90/10", random_split(movietweetings)),
}

POINT = {"rank": "auto", "lam": "auto", "biases": True, "features": None}
SAMPLER = {"method": "bpmf", "rank": 20, "biases": True, "features": None}
ROWS = {
    "nuclear": ("factored nuclear norm", {"method": "factored-nuclear", **POINT}),
    "nnfn": ("NNFN, theta searched", {"method": "nnfn", "theta": "auto", **POINT}),
    "nuclear-features": (
        "factored nuclear norm + who rated what",
        {"method": "factored-nuclear", **POINT, "features": "implicit"},
    ),
    "nnfn-features": (
        "NNFN + who rated what",
        {"method": "nnfn", "theta": "auto", **POINT, "features": "implicit"},
    ),
    "nuclear-mean": ("factored nuclear norm, mean of 8 fits", {"method": "factored-nuclear", "n_fits": 8, **POINT}),
    "nnfn-mean": ("NNFN, mean of 8 fits", {"method": "nnfn", "theta": "auto", "n_fits": 8, **POINT}),
    "bpmf-short": ("`bpmf`, rank 10, 40 sweeps", {**SAMPLER, "rank": 10, "max_iter": 40}),
    "bpmf": ("`bpmf`, rank 20", SAMPLER),
    "bpmf-features": ("`bpmf` + who rated what", {**SAMPLER, "features": "implicit"}),
    "bpmf-ordinal": ("`bpmf` + who rated what + levels", {**SAMPLER, "features": "implicit", "loss": "ordinal"}),
    "fast": ('`MatrixCompletion(effort="fast")`', {"effort": "fast"}),
    "balanced": ("`MatrixCompletion()`", {"effort": "balanced"}),
    "best": ('`MatrixCompletion(effort="best")`', {"effort": "best"}),
}
PEERS = {
    "smurff": grid(rank=[10, 20], burnin=[50], nsamples=[100, 200]),
    "myfm": grid(rank=[10, 20], n_iter=[100, 300]),
}
# On MovieLens-1M they take minutes: fewer settings, and as many splits as --splits says.
FEWER = {
    ("ml-1m", "smurff"): grid(rank=[10, 20], burnin=[50], nsamples=[100]),
    ("ml-1m", "myfm"): grid(rank=[10, 20], n_iter=[100]),
}
# Seconds for all settings of a peer: enough on a machine that does other things too.
LIMIT = 3600
TITLES = {"offsets": "offsets alone", **{row: title for row, (title, _) in ROWS.items()}}
TITLES |= {"folder": "`distributed.fit`, out of core", "smurff": "smurff", "myfm": "myFM"}


def rmse(predicted, test):
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


def timed(action):
    wall, cpu = time.perf_counter(), time.process_time()
    answer = action()
    return answer, {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def covered(model, train, test):
    """How many test entries are within their interval, of how many: all, and by entries of their row and column."""
    _, low, high = model.predict(test.rows, test.cols, interval=LEVEL)
    inside = (low <= test.values) & (test.values <= high)
    answer = {"all": [int(inside.sum()), inside.size]}
    counts = {"row": train.by_row, "column": train.by_col}
    for side, index in (("row", test.rows), ("column", test.cols)):
        entries = np.diff(counts[side].pointers)[index]
        for name, (least, most) in COUNTS.items():
            chosen = (entries >= least) & (entries <= most)
            answer[f"{side}: {name}"] = [int(inside[chosen].sum()), int(chosen.sum())]
    return answer


def fit_lorank(row, train, test, number):
    if row == "offsets":
        found, record = timed(lambda: empirical_bayes_offsets(train))
        return {**record, "error": rmse(found.predict(test.rows, test.cols), test)}
    if row == "folder":
        return fit_folder(train, test, number)
    params = {"random_state": number, "dtype": "float32", **ROWS[row][1]}
    model, record = timed(lambda: MatrixCompletion(**params).fit(train))
    record |= {"error": rmse(model.predict(test.rows, test.cols), test), "setting": str(model.setting_)}
    if model.result_.posterior is not None or model.calibration_ is not None:
        record["coverage"] = covered(model, train, test)
    return record


def fit_folder(train, test, number):
    """All defaults, of the same entries in a Parquet file."""
    with tempfile.TemporaryDirectory() as folder:
        table = pa.table({"row": train.rows, "col": train.cols, "value": train.values})
        pq.write_table(table, Path(folder) / "0.parquet")
        columns = {"row": "row", "col": "col", "value": "value"}
        params = {"backend": "out-of-core", "seed": number, "dtype": "float32"}
        model, record = timed(lambda: distributed.fit(folder, **columns, **params))
        predicted = model.predict(test.rows, test.cols, unseen="bias")
    return record | {"error": rmse(predicted, test), "setting": f"{model.method}, features {model.params['features']}"}


def fit_peer(bench, row, train, test, name, number):
    """The peer at the setting that a held-out tenth of the first split's training entries chooses, kept from split to
    split: the quickest one within 0.3% of the best."""
    path = bench.folder / f"{name}-{number}.npz"
    rest, held = train.split(0.1, 0)
    parts = [(part.rows, part.cols, part.values) for part in (train, held, test)]
    write(path, (*parts[0], train.shape), parts[1], parts[2], (held.nnz, test.nnz))
    if (name, row) not in bench.chosen:
        write(path, (rest.rows, rest.cols, rest.values, rest.shape), parts[1], parts[2], (held.nnz, test.nnz))
        tried, failed = bench.run(row, FEWER.get((name, row), PEERS[row]), path, 1, tuning=True)
        if not tried:
            return {"failed": failed or "no finite error"}
        bar = WITHIN * min(answer["error"] for answer in tried)
        near = [answer for answer in tried if answer["error"] <= bar]
        bench.chosen[name, row] = min(near, key=lambda answer: answer["cpu"])["setting"]
        write(path, (*parts[0], train.shape), parts[1], parts[2], (held.nnz, test.nnz))
    answers, failed = bench.run(row, [bench.chosen[name, row]], path, len(os.sched_getaffinity(0)))
    path.unlink()
    if not answers:
        return {"failed": failed}
    return {key: answers[0][key] for key in ("seconds", "cpu", "error", "setting")}


def saved(path):
    return json.loads(path.read_text()) if path.exists() else []


def run(names, rows, splits, peers_python, again, path):
    known = inspect.signature(MatrixCompletion).parameters
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(peers_python, Path(folder), LIMIT)
        bench.chosen, compiled = {}, set()
        for name in names:
            for number in splits:
                train, test = DATA[name][1](number)
                for row in rows:
                    key = {"data": name, "row": row, "split": number}
                    if not again and any(key.items() <= old.items() for old in saved(path)):
                        continue
                    if row in PEERS:
                        record = fit_peer(bench, row, train, test, name, number)
                    elif row in ROWS and not set(ROWS[row][1]) <= set(known):
                        continue
                    else:
                        if row not in compiled:
                            corner = train.subset((train.rows < 300) & (train.cols < 300))
                            fit_lorank(row, corner, test, number)
                            compiled.add(row)
                        record = fit_lorank(row, train, test, number)
                    # Read again: another run may have added to them.
                    records = [old for old in saved(path) if not key.items() <= old.items()]
                    records.append({**key, **record})
                    path.write_text("[\n" + ",\n".join(json.dumps(each) for each in records) + "\n]\n")
                    print(name, row, number, record.get("failed") or f"{record['error']:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", choices=list(DATA), default=list(DATA))
    parser.add_argument("--rows", nargs="*", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--splits", nargs="*", type=int, default=list(range(SPLITS)))
    parser.add_argument("--peers-python", default=str(HERE.parent / ".venv-bench" / "bin" / "python"))
    parser.add_argument("--again", action="store_true", help="also what is recorded already")
    parser.add_argument("--records", type=Path, default=SAVED)
    parser.add_argument("--page", action="store_true", help="only write the tables of docs/accuracy.md")
    arguments = parser.parse_args()
    if arguments.page:
        from accuracy_page import write_page

        write_page(saved(arguments.records), {name: title for name, (title, _) in DATA.items()}, TITLES, SPLITS, PAGE)
        return
    warnings.simplefilter("ignore")
    run(arguments.data, arguments.rows, arguments.splits, arguments.peers_python, arguments.again, arguments.records)


if __name__ == "__main__":
    main()
