"""Tuning and error bars on MovieLens-1M (50% train, 25% validation, 25% test, standardised).

    python benchmarks/tuning.py [grid] [path] [intervals] [mean] [seeds]      all of them by default

grid       an exhaustive search against lam = rank = theta = biases = "auto": test error and time
path       what "auto" costs, in single fits of the rank that it chooses, alternating in one run
intervals  coverage of 90% intervals on the test part, by user activity
mean       test error and time of the mean of several fits
seeds      how much the test error depends on the seed of the search, on sparse data (26,000 entries in 3,000 x 3,000);
           into docs/benchmarks/tuning.json

The data is read from LORANK_DATA (`movielens1m.mat` or `ratings.dat`) or from ../shared/data.
"""

import itertools
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from lorank import MatrixCompletion
from lorank.datasets import movielens_1m, movietweetings, split, standardise
from lorank.observations import Observations

LAMS, RANKS, THETAS, BIASES = (5, 10, 15, 20, 30), (5, 10, 20, 40), (0.0, 0.5, 1.0), (False, True)
AUTO = {"method": "nnfn", "features": None, **dict.fromkeys(("lam", "rank", "theta", "biases"), "auto")}
REPEATS = 5
SAVED = Path(__file__).parents[1] / "docs" / "benchmarks" / "tuning.json"


def timed(model, *data):
    began = time.perf_counter()
    model.fit(data[0], validation=data[1] if len(data) > 1 else None)
    return time.perf_counter() - began


def report_grid(train, validation, test):
    settings = list(itertools.product(LAMS, RANKS, THETAS, BIASES))
    best, total = None, 0.0
    for lam, rank, theta, biases in settings:
        model = MatrixCompletion("nnfn", lam=lam, rank=rank, theta=theta, biases=biases, random_state=0)
        total += timed(model, train)
        if best is None or model.score(validation) > best.score(validation):
            best = model
    print(
        f"Exhaustive grid, {len(settings)} fits: test RMSE {-best.score(test):.4f} in {total:.1f} s ({best.setting_})"
    )
    for name, data in (("auto on the same validation set", (train, validation)), ("auto by itself", (train,))):
        model = MatrixCompletion(**AUTO, random_state=0)
        seconds = timed(model, *data)
        print(
            f"{name}: test RMSE {-model.score(test):.4f} in {seconds:.2f} s, {seconds / total:.4f} of the grid's time"
            f" ({model.setting_})"
        )
    print(model.tuning_)


def report_path(train):
    found = MatrixCompletion(**AUTO, random_state=0).fit(train).setting_
    fixed = {"method": "nnfn", "features": None, "rank": found.rank, "theta": found.theta, "biases": found.biases}
    ways = {
        "a single fit": fixed | {"lam": found.lam},
        'lam="auto"': fixed | {"lam": "auto"},
        'all four "auto"': AUTO,
    }
    seconds = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, params in ways.items():
            seconds[name].append(timed(MatrixCompletion(**params, random_state=0), train))
    print(f"Cost, medians of {REPEATS} alternating repeats ({found})")
    for name, times in seconds.items():
        ratio = statistics.median(time / single for time, single in zip(times, seconds["a single fit"]))
        print(f"  {name:16s} {statistics.median(times):6.2f} s   {ratio:5.2f} single fits")


def report_intervals(train, validation, test, level=0.9):
    activity = np.argsort(np.argsort(np.bincount(train.rows, minlength=train.shape[0]), kind="stable"))
    decile = (10 * activity // train.shape[0])[test.rows]
    sides = (test.rows, test.row_ids), (test.cols, test.col_ids)
    pairs = [index if ids is None else ids.values[index] for index, ids in sides]
    print(f"Coverage of {level:.0%} intervals on the test part; deciles of users by activity, least active first")
    ways = {"validation set": (train, validation), "validation=0.1": (train, 0.1), "by itself": (train,)}
    for name, data in ways.items():
        model = MatrixCompletion(**AUTO, random_state=0).fit(data[0], validation=data[1] if len(data) > 1 else None)
        _, lower, upper = model.predict(*pairs, interval=level)
        inside = (lower <= test.values) & (test.values <= upper)
        deciles = " ".join(f"{inside[decile == d].mean():.3f}" for d in range(10))
        print(f"  {name:15s} {inside.mean():.4f}   mean width {np.mean(upper - lower):.3f}   {deciles}")


def report_mean(train, test):
    options = {"rank": 10, "theta": 0.5, "biases": True, "tol": 1e-3, "random_state": 0}
    print("Mean of several fits, rank 10, theta 0.5, biases, tol 1e-3")
    for n_fits, lam in ((1, 13), (4, 10), (6, 10), (8, 10)):
        model = MatrixCompletion("nnfn", n_fits=n_fits, lam=lam, **options)
        seconds = timed(model, train)
        print(f"  {n_fits} fits, lam {lam}: test RMSE {-model.score(test):.4f} in {seconds:.2f} s")


def sparse(factors, noise, m=3000, entries=26_000, rank=3, seed=0):
    """Offsets of deviation 1/2 and a part of rank 3 of deviation `factors`, some lines with many entries: two parts."""
    rng = np.random.default_rng(seed)
    rows, cols = (rng.choice(m, 4 * entries, p=share / share.sum()) for share in rng.lognormal(size=(2, m)))
    rows, cols = np.unravel_index(rng.permutation(np.unique(rows * m + cols))[: 3 * entries // 2], (m, m))
    W, H = rng.standard_normal((2, m, rank))
    values = 3.5 + rng.normal(0, 0.5, m)[rows] + rng.normal(0, 0.5, m)[cols] + rng.normal(0, noise, rows.size)
    values += factors * np.sum(W[rows] * H[cols], axis=1) / np.sqrt(rank)
    halves = slice(0, entries), slice(entries, None)
    return [Observations.from_coo(rows[half], cols[half], values[half], (m, m)) for half in halves]


def most_active(data, m=3000, entries=26_000, seed=0):
    """So many entries of the m rows and columns that have most of them, and the others as a test part."""
    kept = []
    for index, lines in zip((data.rows, data.cols), data.shape):
        counts = np.bincount(index, minlength=lines)
        place = np.full(lines, -1)
        place[np.argsort(-counts, kind="stable")[:m]] = np.arange(min(m, lines))
        kept.append(place[index])
    inside = np.flatnonzero((kept[0] >= 0) & (kept[1] >= 0))
    inside = np.random.default_rng(seed).permutation(inside)
    shape = tuple(min(m, lines) for lines in data.shape)
    halves = inside[:entries], inside[entries : 2 * entries]
    return [Observations.from_coo(kept[0][half], kept[1][half], data.values[half], shape) for half in halves]


def report_seeds(folder, seeds=10):
    print(f"Spread of the test error, (largest - smallest) / mean over {seeds} seeds of the search")
    kinds = {
        "offsets, weak factors": lambda: sparse(0.4, 0.9),
        "offsets, strong factors": lambda: sparse(1.0, 0.7),
        "MovieTweetings-100K, a part": lambda: most_active(movietweetings(folder)),
        "MovieLens-1M, a part": lambda: most_active(movielens_1m(folder)),
    }
    rows = []
    for name, data in kinds.items():
        train, test = data()
        began = time.process_time()
        models = [MatrixCompletion(**AUTO, random_state=seed).fit(train) for seed in range(seeds)]
        seconds = (time.process_time() - began) / seeds
        errors = np.array([-model.score(test) for model in models])
        ranks = sorted({model.setting_.rank for model in models})
        spread = np.ptp(errors) / errors.mean()
        print(f"  {name:28s} RMSE {errors.mean():.4f}   spread {spread:.2%}   ranks {ranks}   {seconds:.1f} s of CPU")
        found = {"error": round(errors.mean(), 4), "spread": round(spread, 5), "ranks": str(ranks)}
        rows.append({"data": name, "seeds": seeds, **found, "cpu": round(seconds, 2)})
    SAVED.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["grid", "path", "intervals", "mean", "seeds"]
    folder = Path(os.environ.get("LORANK_DATA", Path(__file__).parents[2] / "shared" / "data"))
    train, validation, test = standardise(*split(movielens_1m(folder)))[0]
    MatrixCompletion("nnfn", rank=2, lam=1.0, max_iter=2, tol=1.0, biases=True).fit(train)  # compiles
    if "grid" in chosen:
        report_grid(train, validation, test)
    if "path" in chosen:
        report_path(train)
    if "intervals" in chosen:
        report_intervals(train, validation, test)
    if "mean" in chosen:
        report_mean(train, test)
    if "seeds" in chosen:
        report_seeds(folder)
