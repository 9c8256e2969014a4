"""lorank beside the libraries people could pick: the same data and split, alternating, several rounds.

    python benchmarks/peers.py --peers-python .venv-bench/bin/python [--rounds 3] [--only tune | measure]
                               [--data synthetic-500 ...] [--libraries lorank cmfrec ...]

Quality first, then time at that quality: every library gets a small sweep on the validation part, which goes on beyond
its ends as long as the best setting lies there and gains by it, and is measured at the fastest of its settings within
0.3% of its best validation error. The sweeps are saved in docs/benchmarks/peers_tuning.json. Prints and saves error on
the test part, seconds on 1 and 2 threads (fastest round), CPU seconds, and the ratio to lorank,
into docs/benchmarks/peers.{md,json,png}. MovieLens-1M is left out without LORANK_DATA or ../shared/data.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from lorank.datasets import movielens_1m, simulated_ratings, split, standardise, synthetic

HERE = Path(__file__).parent
WITHIN = 1.003
# Seconds for one sweep of a library; what has not been reached by then is left out.
LIMIT = 900
# A sweep goes on beyond an end that is better than all else by more than this part of the error.
GAIN = 0.0005
BAYESIAN = ("smurff", "myfm", "lorank-bpmf")


def grid(**choices):
    return [dict(zip(choices, values)) for values in product(*choices.values())]


SYNTHETIC = {
    "lorank": grid(rank=[5], lam=[0.03, 0.1], tol=[1e-4, 1e-3], dtype=["float64", "float32"]),
    "cmfrec": grid(k=[5], lambda_=[0.03, 0.1, 0.3], use_cg=[True, False], niter=[10, 20, 40], biases=[False]),
    "libmf": grid(k=[8], lam=[0.001, 0.01], eta=[0.05, 0.1], nr_iters=[75, 150]),
}
RATINGS = {
    "lorank": grid(rank=[10], lam=[12.0, 15.0], theta=[0.5], biases=[True], tol=[1e-4, 5e-4, 1e-3], dtype=["float32"]),
    "cmfrec": grid(k=[10, 20], lambda_=[5.0, 8.0, 12.0], use_cg=[True, False], niter=[10, 20], biases=[True]),
    "libmf": grid(k=[16, 32], lam=[0.04, 0.06], eta=[0.1], nr_iters=[10, 15, 30]),
    "lenskit": grid(features=[10, 20], epochs=[10, 20], regularization=[0.07, 0.1, 0.15]),
    "surprise": grid(n_factors=[20, 40], n_epochs=[20, 40], reg_all=[0.05, 0.07]),
    # What an average over several fits, and over a posterior, adds: beside the Bayesian libraries.
    "lorank-mean": grid(
        rank=[10], lam=[15.0], theta=[0.5], biases=[True], n_fits=[4, 8], tol=[5e-4, 1e-3], dtype=["float32"]
    ),
    "lorank-bpmf": grid(method=["bpmf"], rank=[10], biases=[True], max_iter=[30, 40, 60], dtype=["float32"]),
    "smurff": grid(rank=[10], burnin=[20, 50], nsamples=[50, 100]),
    "myfm": grid(rank=[10], n_iter=[50, 150]),
}
LARGE = {
    "lorank": grid(
        rank=[8, 10, 16], lam=[6.0, 9.0, 12.0], theta=[0.8], biases=[True], tol=[5e-4, 1e-3], dtype=["float32"]
    ),
    "cmfrec": grid(k=[8, 10], lambda_=[4.0, 6.0, 10.0], use_cg=[False], niter=[10, 15], biases=[True]),
    "libmf": grid(k=[8, 16, 32], lam=[0.03, 0.05], eta=[0.1], nr_iters=[10, 15, 25]),
    "lenskit": grid(features=[8, 10], epochs=[10, 15], regularization=[0.07, 0.1]),
    "lorank-bpmf": grid(method=["bpmf"], rank=[8, 10], biases=[True], max_iter=[15, 20, 30], dtype=["float32"]),
}


def data_folder():
    folder = Path(os.environ.get("LORANK_DATA", HERE.parents[1] / "shared" / "data"))
    return folder if folder.is_dir() else None


def write(path, train, valid, test, scales):
    """Triplets in random order: nobody gets data that is already sorted their way."""
    order = np.random.default_rng(0).permutation(len(train[0]))
    arrays = dict(zip(("rows", "cols", "values"), (part[order] for part in train[:3])), shape=train[3])
    for name, part, scale in (("valid", valid, scales[0]), ("test", test, scales[1])):
        arrays |= {f"{name}_rows": part[0], f"{name}_cols": part[1], f"{name}_values": part[2], f"{name}_scale": scale}
    np.savez(path, **arrays)


def write_synthetic(path, m):
    problem = synthetic(m=m, seed=1)
    rng = np.random.default_rng(2)
    # NMSE on unobserved entries without their noise; a sample of them is enough to compare.
    rows, cols = rng.integers(m, size=(2, 400_000)).astype(np.int32)
    seen = problem.train.rows.astype(np.int64) * m + problem.train.cols
    unseen = ~np.isin(rows.astype(np.int64) * m + cols, seen)
    rows, cols = rows[unseen], cols[unseen]
    truth = np.einsum("ek,ek->e", problem.W[rows], problem.H[cols])
    valid = problem.validation
    write(
        path,
        (problem.train.rows, problem.train.cols, problem.train.values, (m, m)),
        (valid.rows, valid.cols, valid.values),
        (rows, cols, truth),
        (float(np.sum(valid.values**2)), float(np.sum(truth**2))),
    )


def write_ratings(path, ratings):
    (train, valid, test), _ = standardise(*split(ratings, seed=0))
    parts = [(part.rows, part.cols, part.values) for part in (train, valid, test)]
    write(path, (*parts[0], train.shape), parts[1], parts[2], (valid.nnz, test.nnz))


DATA = {
    **{
        f"synthetic-{m}": (lambda path, m=m: write_synthetic(path, m), SYNTHETIC, 5 if m < 20_000 else 1)
        for m in (500, 1000, 2000, 20_000)
    },
    "movielens-1m": (lambda path: write_ratings(path, movielens_1m(data_folder())), RATINGS, 1),
    "simulated-ml10m": (lambda path: write_ratings(path, simulated_ratings("ml10m")), LARGE, 1),
}


class Bench:
    """Runs fits in a process of their own, lorank in this interpreter's environment and peers in theirs."""

    def __init__(self, peers_python, folder, limit=LIMIT):
        self.peers_python, self.folder, self.limit = peers_python, folder, limit

    def run(self, library, settings, data, threads, tuning=False, repeats=1):
        """An answer for each setting that ran, and why the next one did not."""
        out = self.folder / "answer.json"
        out.unlink(missing_ok=True)
        job = {"library": library, "settings": settings, "data": str(data), "threads": threads, "tuning": tuning}
        job |= {"repeats": repeats, "out": str(out)}
        (self.folder / "job.json").write_text(json.dumps(job))
        limit = str(threads)
        env = {**os.environ, "RAYON_NUM_THREADS": limit, "LK_NUM_THREADS": limit, "LK_NUM_BACKEND_THREADS": limit}
        env |= {"OMP_NUM_THREADS": limit, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        python = sys.executable if library.startswith("lorank") else self.peers_python
        command = [python, "-W", "ignore", str(HERE / "peer_fits.py"), str(self.folder / "job.json")]
        failed = None
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=self.limit)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines() or [f"ended with code {done.returncode}"]
                failed = lines[-1][:200]
        except subprocess.TimeoutExpired:
            failed = f"not done after {self.limit} s"
        answers = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        return [answer for answer in answers if np.isfinite(answer["error"])], failed


def searched(tried):
    """The numbers that differ between settings, with all values of each, in order."""
    names = [name for name, value in tried[0]["setting"].items() if type(value) in (int, float)]
    values = {name: sorted({answer["setting"][name] for answer in tried}) for name in names}
    return {name: found for name, found in values.items() if len(found) > 1}


def beyond(tried):
    """The best setting with one number a step further, for each whose end it lies at."""
    best = min(tried, key=lambda answer: answer["error"])["setting"]
    for name, values in searched(tried).items():
        for end, before in ((values[0], values[1]), (values[-1], values[-2])):
            if best[name] == end:
                yield {**best, name: type(end)(round(end * end / before, 6))}


def beside(tried):
    """What was not tried of the best setting with another value of one thing."""
    best = min(tried, key=lambda answer: answer["error"])["setting"]
    known = [answer["setting"] for answer in tried]
    for name, value in best.items():
        for other in sorted({setting[name] for setting in known} - {value}):
            if (setting := {**best, name: other}) not in known:
                yield setting


def tune(bench, library, settings, data):
    """The fastest setting within 0.3% of the best validation error, and between which ends it was searched."""
    tried, failed = bench.run(library, settings, data, 1, tuning=True)
    if not tried:
        return {"failed": failed or "no finite error"}
    while not failed and (further := list(beyond(tried))):
        before = min(answer["error"] for answer in tried)
        more, failed = bench.run(library, further, data, 1, tuning=True)
        tried += more
        if not more or min(answer["error"] for answer in more) > (1 - GAIN) * before:
            break
    # Beyond the sweep only the best went on: what is quicker beside it has its turn too.
    if others := list(beside(tried)):
        tried += bench.run(library, others, data, 1, tuning=True)[0]
    best = min(tried, key=lambda answer: answer["error"])
    near = [answer for answer in tried if answer["error"] <= WITHIN * best["error"]]
    return {
        "setting": min(near, key=lambda answer: answer["cpu"])["setting"],
        "best": best["setting"],
        "validation": best["error"],
        "settings": len(tried),
        "searched": {name: [values[0], values[-1]] for name, values in searched(tried).items()},
        "ended": failed or "",
    }


def measure(bench, name, rounds, tuned, path):
    repeats = DATA[name][2]
    chosen = {library: found["setting"] for library, found in tuned.items() if "setting" in found}
    rows = [
        {"data": name, "library": library, "failed": found["failed"]}
        for library, found in tuned.items()
        if "failed" in found
    ]
    answers = {library: {1: [], 2: []} for library in chosen}
    failures = {}
    for _ in range(rounds):
        for threads in (1, 2):
            for library, setting in chosen.items():
                answer, failures[library] = bench.run(library, [setting], path, threads, repeats=repeats)
                answers[library][threads] += answer
    for library, setting in chosen.items():
        one, two = answers[library][1], answers[library][2]
        if not one or not two:
            rows.append({"data": name, "library": library, "failed": failures[library] or "no finite error"})
            continue
        row = {"data": name, "library": library, "setting": setting, "error": one[0]["error"]}
        row |= {f"seconds_{t}": min(a["seconds"] for a in answers[library][t]) for t in (1, 2)}
        row["cpu"] = min(a["cpu"] for a in one)
        row["cpu_2"] = min(a["cpu"] for a in two)
        rows.append(row)
    mine = next((row for row in rows if row["library"] == "lorank" and "error" in row), None)
    for row in rows:
        if "error" in row and mine:
            row |= {f"ratio_{what}": row[what] / mine[what] for what in ("seconds_1", "seconds_2", "cpu")}
    return rows


def table(rows):
    lines = [
        "| data | library | error | s, 1 thread | s, 2 threads | CPU s | / lorank: 1, 2 threads, CPU | setting |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['data']} | {row['library']} | did not run: {row['failed']} | | | | | |")
            continue
        setting = ", ".join(f"{key}={value}" for key, value in row["setting"].items())
        lines.append(
            f"| {row['data']} | {row['library']}{' (Bayesian)' if row['library'] in BAYESIAN else ''} "
            f"| {row['error']:.4f} | {row['seconds_1']:.3f} | {row['seconds_2']:.3f} | {row['cpu']:.3f} "
            f"| {row['ratio_seconds_1']:.1f}, {row['ratio_seconds_2']:.1f}, "
            f"{row['ratio_cpu']:.1f} | {setting} |"
        )
    return "\n".join(lines)


def draw(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in DATA if any(row["data"] == name and "error" in row for row in rows)]
    figure, axes = plt.subplots(2, -(-len(names) // 2), figsize=(4 * -(-len(names) // 2), 7), squeeze=False)
    libraries = sorted({row["library"] for row in rows if "error" in row})
    for axis in axes.ravel()[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.ravel(), names):
        for row in rows:
            if row["data"] == name and "error" in row:
                colour = f"C{libraries.index(row['library'])}"
                marker = "*" if row["library"].startswith("lorank") else "o"
                axis.plot(row["cpu"], row["error"], marker, color=colour, markersize=13 if marker == "*" else 8)
                axis.annotate(
                    row["library"],
                    (row["cpu"], row["error"]),
                    (0, 9),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                )
        axis.set(xscale="log", title=name, xlabel="CPU seconds, 1 thread", ylabel="test error")
        axis.margins(0.25)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", nargs="*", choices=list(DATA), default=list(DATA))
    parser.add_argument("--libraries", nargs="*", help="lorank and these; all of them by default")
    parser.add_argument(
        "--only", choices=["tune", "measure"], help="one half of the work; measuring needs saved sweeps"
    )
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "benchmarks")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    saved, sweeps = (arguments.out / name for name in ("peers.json", "peers_tuning.json"))
    rows = json.loads(saved.read_text()) if saved.exists() else []
    tuning = json.loads(sweeps.read_text()) if sweeps.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments.peers_python, Path(folder))
        for name in arguments.data:
            if name == "movielens-1m" and data_folder() is None:
                print("movielens-1m is left out: set LORANK_DATA")
                continue
            make, grids, _ = DATA[name]
            path = Path(folder) / f"{name}.npz"
            make(path)
            tuned = tuning.setdefault(name, {})
            for library, settings in grids.items() if arguments.only != "measure" else ():
                if not arguments.libraries or library in arguments.libraries:
                    tuned[library] = tune(bench, library, settings, path)
                    print(f"  {name}: {library} {tuned[library]}", flush=True)
                    sweeps.write_text(json.dumps(tuning, indent=1) + "\n")
            if arguments.only == "tune":
                continue
            # What is not asked for keeps the rows of an earlier run, with its ratios.
            wanted = {"lorank", *(arguments.libraries or tuned)}
            asked = {library: found for library, found in tuned.items() if library in wanted}
            rows = [row for row in rows if row["data"] != name or row["library"] not in asked]
            rows += measure(bench, name, arguments.rounds, asked, path)
            path.unlink()
            rows.sort(key=lambda row: (list(DATA).index(row["data"]), list(DATA[row["data"]][1]).index(row["library"])))
            saved.write_text(json.dumps(rows, indent=1) + "\n")
            (arguments.out / "peers.md").write_text(f"# lorank and its peers\n\n{table(rows)}\n")
            draw(rows, arguments.out / "peers.png")
    print(table(rows))


if __name__ == "__main__":
    main()
