"""Lists on MovieLens: lorank's goal="ranking" beside implicit's ALS, irspack's iALS and EASE.

    python benchmarks/ranking.py --peers .venv-bench/bin/python             # MovieLens-1M, every method's best
    python benchmarks/ranking.py --peers .venv-bench/bin/python --speed     # seconds of a fit at equal NDCG too
    python benchmarks/ranking.py --data movielens-100k                      # u1 to u5, lorank and EASE

MovieLens-1M: positives are ratings of at least 4; a fifth of each user's is the test part. MovieLens-100K: the
published splits; test ratings at or above the training mean are relevant. All that a user has not in the training part
compete.

lorank is one call, which chooses on a part of the training part; each peer gets as many fits as that took, on a fifth
of the same training part, by steps along one parameter after the other, and is then fitted to all of it. Peers run in
an interpreter of their own, which has them installed; they get arrays and give lists of ten columns for each user back,
and all lists are measured here. `--data simulated` runs without MovieLens.

What was measured is kept in --output, from which ranking.md beside it is written; a run that is given again does only
what is not there yet.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
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


def implicit_als(train, factors, regularization, alpha):
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors, regularization, alpha, iterations=15, random_state=0)
    model.fit(train, show_progress=False)
    return lambda: model.recommend(np.arange(train.shape[0]), train, N=K)[0]


def irspack_ials(train, factors, reg, alpha0, nu):
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


# Where the search of each begins, and by which factor each parameter moves at first.
PEERS = {
    "implicit": (
        implicit_als,
        {"factors": 64, "regularization": 30.0, "alpha": 5.0},
        {"regularization": 2, "alpha": 2, "factors": 2},
    ),
    "irspack": (
        irspack_ials,
        {"factors": 64, "reg": 0.01, "alpha0": 0.1, "nu": 1.0},
        {"reg": 2, "alpha0": 2, "nu": 1.5, "factors": 2},
    ),
    "ease": (ease, {"lam": 300.0}, {"lam": 2}),
}


def climb(score, first, factors, fits):
    """The best of so many settings: along one parameter after the other while that helps, in ever smaller steps."""
    tried = {}

    def attempt(setting):
        key = tuple(setting.values())
        if key not in tried and len(tried) < fits:
            tried[key] = score(setting)
        return tried.get(key, -np.inf)

    best, reached = first, attempt(first)
    for power in (1, 0.5, 0.25, 0.125):
        for name, factor in factors.items():
            for ratio in (factor**power, factor**-power):
                while True:
                    value = best[name] * ratio
                    moved = {**best, name: round(value) if isinstance(best[name], int) else value}
                    if moved == best or (found := attempt(moved)) <= reached:
                        break
                    best, reached = moved, found
    return best, reached, len(tried)


def run_peer(name, folder, fits):
    """Tune, fit, list: in the peers' interpreter."""
    inner, held, train = (sp.load_npz(folder / f"{part}.npz") for part in ("inner", "held", "train"))
    fit, first, factors = PEERS[name]
    began = time.perf_counter()
    setting, validation, tried = climb(lambda given: ndcg(fit(inner, **given)(), held), first, factors, fits)
    searched = time.perf_counter() - began
    facts = {"setting": setting, "validation": validation, "trials": tried, "search": searched}
    facts |= timed(lambda: fit(train, **setting), folder / f"{name}.npy")
    (folder / f"{name}.json").write_text(json.dumps(facts))


def timed(fit, path):
    """Seconds, and those of all threads together, of a fit and of its lists for all rows, which are saved."""
    facts = {}

    def clocked(name, call):
        began, used = time.perf_counter(), time.process_time()
        made = call()
        facts.update({name: time.perf_counter() - began, f"{name}_cpu": time.process_time() - used})
        return made

    lists = clocked("fit", fit)
    np.save(path, clocked("recommend", lists))
    return facts


def run_fit(name, folder, setting):
    """One fit of a peer at a setting that is given, compiled and read before: its seconds."""
    train = sp.load_npz(folder / "train.npz")
    fit = PEERS[name][0]
    fit(train[:100], **{**setting, "factors": 4})
    facts = timed(lambda: fit(train, **setting), folder / f"{name}.npy")
    (folder / f"{name}.json").write_text(json.dumps(facts))


def run_lorank(folder, effort):
    """The same with lorank, as its users call it."""
    from lorank import MatrixCompletion

    train = sp.load_npz(folder / "train.npz")
    MatrixCompletion(goal="ranking", rank=4, lam=1.0, theta=0.0, dtype="float32").fit(train[:200])  # compiled
    began = time.perf_counter()
    model = MatrixCompletion(goal="ranking", effort=effort, dtype="float32", random_state=0).fit(observed(train))
    searched = time.perf_counter() - began - model.result_.seconds
    facts = {"setting": model.setting_.facts(), "validation": 1 - model.tuning_.chosen.error}
    facts |= {"trials": len(model.tuning_), "search": searched}
    facts |= timed(lambda: lambda: lists_of(model, train.shape[0]), folder / "lorank.npy")
    del facts["fit_cpu"]
    (folder / "lorank.json").write_text(json.dumps(facts | {"fit": model.result_.seconds}))


def fit_lorank(folder, setting, rank):
    """One fit of what lorank chose, at another rank and with the sweeps of its trials, of clicks (all ones)."""
    from lorank import MatrixCompletion
    from lorank.tuning.ranking import SWEEPS

    names = ("lam", "theta", "unobserved_weight", "frequency_power")
    given = {name: setting[name] for name in names if name in setting}
    ends = {"max_iter": SWEEPS, "biases": False, "dtype": "float32", "random_state": 0}
    data = observed(sp.load_npz(folder / "train.npz"))

    def fit():
        with warnings.catch_warnings(action="ignore"):  # so many sweeps are asked for
            model = MatrixCompletion("nnfn", rank, **given, **ends, goal="values").fit(data)
        return lambda: lists_of(model, data.shape[0])

    return timed(fit, folder / "lorank.npy")


def lists_of(model, rows):
    ranking = model.recommend(n=K)
    lists = np.full((rows, K), -1)
    lists[ranking.rows, np.arange(ranking.rows.size) - np.searchsorted(ranking.rows, ranking.rows)] = ranking.cols
    return lists


def observed(matrix):
    from lorank.observations import Observations

    return Observations.from_sparse(matrix)


def parts(matrix, seed):
    """All but a fifth of each row, and that fifth, by lorank's own split."""
    from lorank.observations.splits import hold_out_of_rows

    made = hold_out_of_rows(observed(matrix), 0.2, seed)
    return [sp.csr_matrix(part.to_sparse(), dtype=np.float32) for part in made]


def splits(name):
    """Pairs of a training and a test matrix, with names; of the test part only what is relevant."""
    if name == "movielens-100k":
        from lorank.datasets.location import data_folder

        with zipfile.ZipFile(data_folder() / "ml-100k.zip") as archive:
            for number in range(1, 6):
                tables = [
                    np.loadtxt(io.BytesIO(archive.read(f"ml-100k/u{number}.{part}"))) for part in ("base", "test")
                ]
                tables[1] = tables[1][tables[1][:, 2] >= tables[0][:, 2].mean()]
                yield (
                    f"MovieLens-100K u{number}",
                    *(
                        sp.csr_matrix(
                            (t[:, 2].astype(np.float32), (t[:, 0].astype(int), t[:, 1].astype(int))), (944, 1683)
                        )
                        for t in tables
                    ),
                )
        return
    if name == "simulated":
        rng = np.random.default_rng(0)
        groups = rng.integers(12, size=(2000, 2))
        likes = 0.004 + 0.15 * (groups[:, :1] == np.arange(900) % 12) + 0.1 * (groups[:, 1:] == np.arange(900) % 12)
        matrix = sp.csr_matrix(rng.random(likes.shape) < likes, dtype=np.float32)
    else:
        from lorank.datasets import movielens_1m

        seen = movielens_1m().to_sparse().tocoo()
        good = seen.data >= 4
        matrix = sp.csr_matrix((np.ones(good.sum(), np.float32), (seen.row[good], seen.col[good])), seen.shape)
    yield name, *parts(matrix, 0)


def call_peer(interpreter, folder, *words):
    name = words[1]
    # implicit asks for it: its own threads do the work.
    threads = {"OPENBLAS_NUM_THREADS": "1"} if name == "implicit" else {}
    command = [interpreter, __file__, *words, "--folder", str(folder)]
    subprocess.run(command, check=True, env={**os.environ, **threads}, stdout=subprocess.DEVNULL)
    return json.loads((folder / f"{name}.json").read_text())


def measure(title, train, test, methods, interpreter, speed, effort, output):
    """All libraries on one split; what is in the output already is not done again."""
    records = json.loads(output.read_text()) if output.exists() else []
    known = {record["library"]: record for record in records if record["data"] == title and "trials" in record}
    inner, held = parts(train, 1)
    held.data[held.data < train.data.mean()] = 0
    held.eliminate_zeros()
    print(f"\n{title}: {train.shape[0]} x {train.shape[1]}, {train.nnz} to learn from, {test.nnz} to find", flush=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, matrix in (("train", train), ("inner", inner), ("held", held)):
            # Peers get values up to 1, so that a strength means the same for ones and for stars.
            sp.save_npz(folder / f"{name}.npz", matrix / matrix.data.max() if name != "held" else matrix)
        for name in ["lorank", *methods]:
            if name not in known:
                if name == "lorank":
                    run_lorank(folder, effort)
                    facts = json.loads((folder / "lorank.json").read_text())
                else:
                    facts = call_peer(interpreter, folder, "--peer", name, "--fits", str(known["lorank"]["trials"]))
                found = {"ndcg@10": ndcg(np.load(folder / f"{name}.npy"), test), **facts}
                known[name] = {"data": title, "library": name, **found}
                records.append(known[name])
                keep(records, output)
            show(known[name])
        if speed:
            records = [record for record in records if record["data"] != title or "trials" in record]
            records += [{"data": title, **row} for row in measure_speed(folder, known, test, interpreter)]
            keep(records, output)
    popular = np.tile(np.asarray((train > 0).sum(0), np.float32), (train.shape[0], 1))
    popular = {"data": title, "library": "most popular", "ndcg@10": ndcg(top(popular, train), test), "trials": 0}
    if "most popular" not in known:
        keep([*records, popular], output)
    show(popular)


def measure_speed(folder, known, test, interpreter):
    """Seconds of single fits at several ranks, what was chosen else: the least of three, in turn."""
    rows = {}
    for _ in range(3):
        given = known["implicit"]["setting"]
        facts = call_peer(interpreter, folder, "--fit", "implicit", "--setting", json.dumps(given))
        rows.setdefault(("implicit", given["factors"]), []).append(facts)
        for rank in (32, 48, 64, 96, 128):
            facts = fit_lorank(folder, known["lorank"]["setting"], rank)
            rows.setdefault(("lorank", rank), []).append(
                facts | {"ndcg@10": ndcg(np.load(folder / "lorank.npy"), test)}
            )
    made = []
    for (name, rank), runs in rows.items():
        least = {key: min(run[key] for run in runs) for key in runs[0]}
        made.append({"library": name, "rank": rank, "ndcg@10": known[name]["ndcg@10"], **least})
        show(made[-1])
    return made


def show(record):
    """One line of the table that is printed."""
    times = (("search", "search"), ("fit", "fit"), ("fit_cpu", "of all threads"), ("recommend", "lists for all"))
    shown = "  ".join(f"{label} {record[key]:.2f} s" for key, label in times if key in record)
    setting = record.get("setting", {"rank": record["rank"]} if "rank" in record else {})
    setting = {key: round(v, 4) if isinstance(v, float) else v for key, v in setting.items()}
    fits = f" ({record['trials']} fits)" if "trials" in record else ""
    print(f"{record['library']:12} NDCG@10 {record['ndcg@10']:.4f}{fits}  {shown}  {setting}", flush=True)


def keep(records, output):
    """Write the records, and the table that is made of them."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(records, indent=1) + "\n")
    head = ("data", "library", "rank", "ndcg@10", "validation", "trials", "search", "fit", "fit_cpu", "recommend")
    lines = [
        "# Lists on MovieLens",
        "",
        "Written by `benchmarks/ranking.py`, which says what was measured. Times are seconds; `fit_cpu` those of all "
        "threads. Rows without trials are single fits, for speed.",
        "",
        "|".join(("", *head, "")),
        "|".join(("", *("---" for _ in head), "")),
    ]
    for record in records:
        given = record.get("setting", {})
        record = {"rank": given.get("rank", given.get("factors", "")), **record}
        cells = (record.get(name, "") for name in head)
        lines.append("|".join(("", *(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells), "")))
    output.with_suffix(".md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="interpreter that has implicit and irspack")
    parser.add_argument("--methods", help="peers, with commas between")
    parser.add_argument("--data", choices=("movielens-1m", "movielens-100k", "simulated"), default="movielens-1m")
    parser.add_argument("--effort", default="best", help="of lorank's search: ranks up to 64, 256 or 512")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks/ranking.json"))
    for hidden in ("--peer", "--fit", "--setting", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--fits", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        run_peer(given.peer, Path(given.folder), given.fits)
    elif given.fit:
        run_fit(given.fit, Path(given.folder), json.loads(given.setting))
    else:
        methods = given.methods or ("implicit,irspack,ease" if given.peers else "ease")
        for title, train, test in splits(given.data):
            peers = given.peers or sys.executable, given.speed
            measure(title, train, test, methods.split(","), *peers, given.effort, given.output)


if __name__ == "__main__":
    main()
