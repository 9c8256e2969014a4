"""Tuning and error bars on MovieLens-1M (50% train, 25% validation, 25% test, standardised).

    python benchmarks/tuning.py [grid] [path] [intervals] [mean]      all of them by default

grid       an exhaustive search against lam = rank = theta = biases = "auto": test error and time
path       what "auto" costs, in single fits of the rank that it chooses, alternating in one run
intervals  coverage of 90% intervals on the test part, by user activity
mean       test error and time of the mean of several fits

The data is read from LORANK_DATA (`movielens1m.mat` or `ratings.dat`) or from ../shared/data.
"""

import itertools
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from lorank import MatrixCompletion
from lorank.datasets import movielens_1m, split, standardise

LAMS, RANKS, THETAS, BIASES = (5, 10, 15, 20, 30), (5, 10, 20, 40), (0.0, 0.5, 1.0), (False, True)
AUTO = dict.fromkeys(("lam", "rank", "theta", "biases"), "auto")
REPEATS = 5


def timed(model, *data):
    began = time.perf_counter()
    model.fit(*data)
    return time.perf_counter() - began


def report_grid(train, validation, test):
    settings = list(itertools.product(LAMS, RANKS, THETAS, BIASES))
    best, total = None, 0.0
    for lam, rank, theta, biases in settings:
        model = MatrixCompletion(lam=lam, rank=rank, theta=theta, biases=biases, random_state=0)
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
    fixed = {"rank": found.rank, "theta": found.theta, "biases": found.biases}
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
        model = MatrixCompletion(**AUTO, random_state=0).fit(*data)
        _, lower, upper = model.predict(*pairs, interval=level)
        inside = (lower <= test.values) & (test.values <= upper)
        deciles = " ".join(f"{inside[decile == d].mean():.3f}" for d in range(10))
        print(f"  {name:15s} {inside.mean():.4f}   mean width {np.mean(upper - lower):.3f}   {deciles}")


def report_mean(train, test):
    options = {"rank": 10, "theta": 0.5, "biases": True, "tol": 1e-3, "random_state": 0}
    print("Mean of several fits, rank 10, theta 0.5, biases, tol 1e-3")
    for n_fits, lam in ((1, 13), (4, 10), (6, 10), (8, 10)):
        model = MatrixCompletion(n_fits=n_fits, lam=lam, **options)
        seconds = timed(model, train)
        print(f"  {n_fits} fits, lam {lam}: test RMSE {-model.score(test):.4f} in {seconds:.2f} s")


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["grid", "path", "intervals", "mean"]
    folder = Path(os.environ.get("LORANK_DATA", Path(__file__).parents[2] / "shared" / "data"))
    train, validation, test = standardise(*split(movielens_1m(folder)))[0]
    MatrixCompletion(rank=2, max_iter=2, biases=True).fit(train)  # compiles
    if "grid" in chosen:
        report_grid(train, validation, test)
    if "path" in chosen:
        report_path(train)
    if "intervals" in chosen:
        report_intervals(train, validation, test)
    if "mean" in chosen:
        report_mean(train, test)
