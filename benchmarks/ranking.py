"""Lists on MovieLens-1M: lorank's goal="ranking" beside implicit's ALS, irspack's iALS and EASE.

    python benchmarks/ranking.py --peers .venv-bench/bin/python --budget 60

Positives are ratings of at least 4; a fifth of each user's is the test part. Every method is tuned for the same number
of seconds on the same fifth of the rest, by NDCG@10, and then fitted to all of the rest. Peers run in an interpreter of
their own, which has them installed; they get arrays and give lists of ten columns for each user back, and all lists are
measured here. `--data simulated` runs without MovieLens.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

K = 10


def ndcg(lists, wanted):
    """Mean NDCG@10 over the rows that want something; wanted is a CSR matrix."""
    discounts = 1 / np.log2(np.arange(2, K + 2))
    counts = np.diff(wanted.indptr)
    total = []
    for i in np.flatnonzero(counts):
        right = np.isin(lists[i], wanted.indices[wanted.indptr[i] : wanted.indptr[i + 1]])
        total.append(right @ discounts / discounts[: min(counts[i], K)].sum())
    return float(np.mean(total))


def top(scores, seen):
    """Best ten columns of each row of a dense array of scores, those seen left out."""
    scores[seen.nonzero()] = -np.inf
    best = np.argpartition(-scores, K, axis=1)[:, :K]
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
    return np.take_along_axis(best, order, 1)


def implicit_als(train, factors, regularization, alpha, iterations=15):
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors, regularization, alpha, iterations=iterations, random_state=0)
    model.fit(train, show_progress=False)
    return lambda: model.recommend(np.arange(train.shape[0]), train, N=K)[0]


def irspack_ials(train, factors, reg, alpha0, nu=1.0):
    from irspack.recommenders import IALSRecommender

    model = IALSRecommender(train, n_components=factors, reg=reg, alpha0=alpha0, nu=nu, train_epochs=15, n_threads=2)
    model.learn()
    return lambda: top(model.get_score(np.arange(train.shape[0])).astype(np.float32), train)


def ease(train, lam):
    gram = np.asarray((train.T @ train).todense(), np.float64)
    gram[np.diag_indices_from(gram)] += lam
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return lambda: top(np.asarray(train @ weights), train)


PEERS = {
    "implicit": (
        implicit_als,
        [
            {"factors": f, "regularization": r, "alpha": a}
            for f, a, r in itertools.product((64, 128), (5.0, 10.0, 2.0), (10.0, 1.0, 30.0, 0.1))
        ],
    ),
    "irspack": (
        irspack_ials,
        [
            {"factors": f, "reg": r, "alpha0": a}
            for f, a, r in itertools.product((64, 128), (0.1, 0.3, 0.03), (0.003, 0.01, 0.001))
        ],
    ),
    "ease": (ease, [{"lam": lam} for lam in (300.0, 600.0, 1000.0, 150.0)]),
}


def run_peer(name, folder, budget):
    """Tune, fit, list: in the peers' interpreter."""
    inner, held, train = (sp.load_npz(folder / f"{part}.npz") for part in ("inner", "held", "train"))
    fit, grid = PEERS[name]
    began, tried = time.perf_counter(), []
    for setting in grid:
        tried.append((ndcg(fit(inner, **setting)(), held), setting))
        if time.perf_counter() - began > budget:
            break
    best = max(tried, key=lambda pair: pair[0])
    searched = time.perf_counter() - began
    began = time.perf_counter()
    lists = fit(train, **best[1])
    fitted = time.perf_counter() - began
    began = time.perf_counter()
    np.save(folder / f"{name}.npy", lists())
    facts = {"setting": best[1], "validation": best[0], "trials": len(tried), "search": searched, "fit": fitted}
    (folder / f"{name}.json").write_text(json.dumps(facts | {"recommend": time.perf_counter() - began}))


def run_lorank(folder, budget):
    """The same with lorank: the search of goal="ranking", then a fit of what it chose to all of the training part."""
    from lorank import MatrixCompletion
    from lorank.observations import Observations

    inner, held, train = (
        Observations.from_sparse(sp.load_npz(folder / f"{part}.npz")) for part in ("inner", "held", "train")
    )
    options = {"goal": "ranking", "dtype": "float32", "random_state": 0}
    began = time.perf_counter()
    MatrixCompletion(rank=4, lam=1.0, unobserved_weight=0.1, frequency_power=0.5, theta=0.0, **options).fit(
        inner
    )  # compiled
    began = time.perf_counter()
    chosen = MatrixCompletion(rank="auto", lam="auto", max_seconds=2 * budget, **options).fit(inner, validation=held)
    searched = time.perf_counter() - began
    setting = chosen.setting_
    given = {
        name: setting.facts()[name]
        for name in ("lam", "rank", "theta", "unobserved_weight", "frequency_power")
        if name in setting.facts()
    }
    problem_options = {**options, "goal": "values", "frequency_power": setting.frequency_power}
    model = MatrixCompletion(**{**given, **problem_options}, tol=1e-3)
    began = time.perf_counter()
    model.fit(train)
    fitted = time.perf_counter() - began
    began = time.perf_counter()
    ranking = model.recommend(n=K)
    facts = {"setting": given, "validation": 1 - chosen.tuning_.chosen.error, "trials": len(chosen.tuning_)}
    facts |= {"search": searched, "fit": fitted, "recommend": time.perf_counter() - began}
    lists = np.full((train.shape[0], K), -1)
    place = np.arange(ranking.rows.size) - np.searchsorted(ranking.rows, ranking.rows)
    lists[ranking.rows, place] = ranking.cols
    np.save(folder / "lorank.npy", lists)
    (folder / "lorank.json").write_text(json.dumps(facts))


def ratings(name):
    """Users x films, 1 where a rating is at least 4."""
    if name == "simulated":
        rng = np.random.default_rng(0)
        groups = rng.integers(12, size=(2000, 2))
        likes = 0.004 + 0.15 * (groups[:, :1] == np.arange(900) % 12) + 0.1 * (groups[:, 1:] == np.arange(900) % 12)
        return sp.csr_matrix(rng.random(likes.shape) < likes, dtype=np.float32)
    from lorank.datasets import movielens_1m

    seen = movielens_1m().to_sparse().tocoo()
    good = seen.data >= 4
    return sp.csr_matrix((np.ones(good.sum(), np.float32), (seen.row[good], seen.col[good])), seen.shape)


def parts(matrix, seed):
    """All but a fifth of each row, and that fifth, by lorank's own split."""
    from lorank.observations import Observations
    from lorank.observations.splits import hold_out_of_rows

    made = hold_out_of_rows(Observations.from_sparse(matrix), 0.2, seed)
    return [sp.csr_matrix(part.to_sparse(), dtype=np.float32) for part in made]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="interpreter that has implicit and irspack")
    parser.add_argument("--methods", default="lorank,implicit,irspack,ease")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of each search")
    parser.add_argument("--data", choices=("movielens", "simulated"), default="movielens")
    parser.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        run_peer(given.peer[0], Path(given.peer[1]), given.budget)
        return
    train, test = parts(ratings(given.data), 0)
    inner, held = parts(train, 1)
    popular = np.argsort(-np.asarray(train.sum(0)).ravel())
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, matrix in (("train", train), ("inner", inner), ("held", held)):
            sp.save_npz(folder / f"{name}.npz", matrix)
        scores = np.zeros(train.shape, np.float32)
        scores[:, popular] = -np.arange(len(popular), dtype=np.float32)
        print(f"{train.shape[0]} x {train.shape[1]}, {train.nnz} positives to learn from, {test.nnz} to find")
        print(f"{'most popular':14} NDCG@10 {ndcg(top(scores, train), test):.4f}")
        for name in given.methods.split(","):
            if name == "lorank":
                run_lorank(folder, given.budget)
            else:
                interpreter = given.peers or sys.executable
                command = [interpreter, __file__, "--peer", name, made, "--budget", str(given.budget)]
                # implicit asks for it: its own threads do the work.
                threads = {"OPENBLAS_NUM_THREADS": "1"} if name == "implicit" else {}
                subprocess.run(
                    command,
                    check=True,
                    env={**os.environ, **threads},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            facts = json.loads((folder / f"{name}.json").read_text())
            measured = ndcg(np.load(folder / f"{name}.npy"), test)
            print(
                f"{name:14} NDCG@10 {measured:.4f}  search {facts['search']:6.1f} s ({facts['trials']} trials)  fit "
                f"{facts['fit']:6.2f} s  lists for all {facts['recommend']:5.2f} s  {facts['setting']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
