"""Every method on the paper's synthetic problem and on MovieLens-1M, tuned on a validation set.

    python benchmarks/rivals.py synthetic --size 500 --seeds 5
    python benchmarks/rivals.py movielens --folder ../shared/data

Synthetic: the rank is capped at 5 where a method takes one; each method has the same search with as many fits, and the
error is NMSE against the truth. The bound is 1.06 times what least squares at
the true rank reaches, 0.1 sqrt(d / (n - d)) / sqrt(5), d = 2 m 5 - 25. Seconds are those of one cold fit with the
chosen parameters, the better of two. MovieLens: 50/25/25 split, ranks 5 and 10, RMSE in standardised units.
"""

import argparse
import time
import warnings

import numpy as np

import lorank
from lorank import datasets
from lorank.estimators.comparison import row_of
from lorank.registry import CATALOGUE
from lorank.results_table import Table

RANK = 5
# The nuclear norm takes no rank: the convex problem finds its own, which this only has to leave room for.
ROOM = {"nuclear": 50}


def tuned(name, train, validation, ranks, trials, budget):
    """Parameters that the comparison's own search finds on the validation set."""
    common = {"tol": 1e-4, "biases": False, "random_state": 0}
    row = row_of(CATALOGUE[name], train, validation, validation, ranks, trials, budget, common)
    return row["parameters"], row["reason"]


def timed_fit(name, train, parameters, repeats=2):
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        given = CATALOGUE[name].arguments(parameters)
        model = lorank.MatrixCompletion(random_state=0, **given).fit(train)
        seconds.append(time.perf_counter() - started)
    return model, min(seconds)


def synthetic(size, seeds, methods, trials, budget):
    rows = []
    for name in methods:
        errors, seconds, ranks, reasons, chosen = [], [], [], set(), None
        for seed in range(seeds):
            problem = datasets.synthetic(m=size, seed=seed)
            chosen, reason = tuned(name, problem.train, problem.validation, (ROOM.get(name, RANK),), trials, budget)
            if chosen is None:
                reasons.add(reason)
                continue
            model, spent = timed_fit(name, problem.train, chosen)
            errors.append(problem.nmse(*model.factors_))
            seconds.append(spent)
            ranks.append(model.rank_)
        n, d = problem.train.nnz, 2 * size * RANK - RANK**2
        bound = 1.06 * 0.1 * np.sqrt(d / (n - d)) / np.sqrt(RANK)
        rows.append(
            {
                "method": name,
                "NMSE": float(np.mean(errors)) if errors else None,
                "deviation": float(np.std(errors)) if errors else None,
                "bound": float(bound),
                "within": bool(errors) and bool(np.mean(errors) <= bound),
                "seconds": float(np.mean(seconds)) if seconds else None,
                "rank": max(ranks, default=None),
                "last parameters": chosen,
                "reason": "; ".join(sorted(reasons)),
            }
        )
        print(Table(rows[-1:]), flush=True)
    return Table(rows)


def movielens(folder, methods, trials, budget):
    parts = datasets.split(datasets.movielens_1m(folder), seed=0)
    (train, validation, test), _ = datasets.standardise(*parts)
    rows = []
    for name in methods:
        chosen, reason = tuned(name, train, validation, (5, 10), trials, budget)
        row = {"method": name, "RMSE": None, "seconds": None, "rank": None, "parameters": chosen, "reason": reason}
        if chosen is not None:
            model, spent = timed_fit(name, train, chosen, repeats=1)
            row |= {"RMSE": -model.score(test), "seconds": spent, "rank": model.rank_}
        rows.append(row)
        print(Table(rows[-1:]), flush=True)
    return Table(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=["synthetic", "movielens"])
    parser.add_argument("--size", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=list(CATALOGUE))
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of search for each method and seed")
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.data == "synthetic":
        table = synthetic(options.size, options.seeds, options.methods, options.trials, options.budget)
    else:
        table = movielens(options.folder, options.methods, options.trials, options.budget)
    print("\n" + str(table))


if __name__ == "__main__":
    main()
