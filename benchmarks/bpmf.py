"""Bayesian factorization beside smurff and beside an average of NNFN fits: MovieLens-1M and synthetic data.

    python benchmarks/bpmf.py DATA [--peer-python PYTHON] [--repeats 3]

DATA is the directory with movielens1m.mat; PYTHON one that has smurff and scipy (pip install smurff). Seconds are wall
time from the sparse training matrix to predictions of the test entries, best of the repeats, which alternate; kernels
are compiled before. 50/25/25 split, standardised by the training entries.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

SWEEPS = (30, 40, 60, 150)


def smurff_fit(folder, rank, burn_in, samples, threads):
    """Run in the peer's own environment; prints one line of JSON."""
    import smurff

    train, test = (sp.load_npz(f"{folder}/{part}.npz").tocoo() for part in ("train", "test"))
    started = time.perf_counter()
    session = smurff.TrainSession(
        priors=["normal", "normal"],
        num_latent=rank,
        burnin=burn_in,
        nsamples=samples,
        seed=0,
        num_threads=threads,
        verbose=0,
        save_freq=0,
    )
    session.addTrainAndTest(train, test, smurff.AdaptiveNoise(1.0, 10.0))
    session.run()
    rmse = session.getRmseAvg()
    print(json.dumps({"error": rmse, "seconds": time.perf_counter() - started}))


def run_peer(python, *args):
    command = [python, __file__, "--smurff", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"error": float("nan"), "seconds": float("nan"), "reason": (done.stderr or done.stdout)[-300:]}
    return json.loads(lines[-1])


def lorank_fit(train, test, threads, **params):
    from lorank import MatrixCompletion

    started = time.perf_counter()
    model = MatrixCompletion(random_state=0, n_jobs=threads, dtype="float32", **params).fit(train)
    rows, cols = test.coords
    error = float(np.sqrt(np.mean((model.predict(rows, cols) - test.data) ** 2)))
    return {"error": error, "seconds": time.perf_counter() - started}


def ensemble_fit(train, test, threads, seeds, **params):
    """The mean of NNFN fits from different starts."""
    from lorank import MatrixCompletion
    from lorank.observations import observe

    started = time.perf_counter()
    rows, cols = test.coords
    observations, total = observe(train).astype("float32"), 0.0
    for seed in range(seeds):
        model = MatrixCompletion(random_state=seed, n_jobs=threads, dtype="float32", **params).fit(observations)
        total = total + model.predict(rows, cols)
    error = float(np.sqrt(np.mean((total / seeds - test.data) ** 2)))
    return {"error": error, "seconds": time.perf_counter() - started}


def movielens(folder):
    """Train and test as scipy COO arrays, in standardised units."""
    from lorank.datasets.splitting import split
    from lorank.observations import observe

    matrix = next(value for value in scipy.io.loadmat(Path(folder) / "movielens1m.mat").values() if sp.issparse(value))
    train, _, test = split(observe(matrix))
    mean, scale = train.values.mean(), train.values.std()
    return [part.with_values((part.values - mean) / scale).to_sparse().tocoo() for part in (train, test)]


def compare(folder, peer, repeats):
    train, test = movielens(folder)
    bpmf = {"method": "bpmf", "rank": 10}
    nnfn = {"method": "nnfn", "rank": 10, "lam": 15.0, "theta": 0.5, "biases": True}
    runs = {}
    with tempfile.TemporaryDirectory() as shared:
        for name, part in (("train", train), ("test", test)):
            sp.save_npz(f"{shared}/{name}.npz", sp.coo_matrix(part))
        for biases in (False, True):
            for sweeps in SWEEPS:
                runs[f"lorank bpmf rank 10 biases={biases} sweeps={sweeps}"] = (
                    lambda threads, sweeps=sweeps, biases=biases: lorank_fit(
                        train, test, threads, **bpmf, max_iter=sweeps, biases=biases
                    )
                )
        runs["lorank bpmf rank 20 biases=True sweeps=60"] = lambda threads: lorank_fit(
            train, test, threads, method="bpmf", rank=20, biases=True, max_iter=60
        )
        for seeds in (1, 5):
            runs[f"lorank nnfn, mean of {seeds}"] = lambda threads, seeds=seeds: ensemble_fit(
                train, test, threads, seeds, **nnfn
            )
        if peer:
            for rank, burn_in, samples in ((10, 20, 40), (10, 20, 100), (16, 20, 60)):
                runs[f"smurff rank {rank} burn-in {burn_in} samples {samples}"] = (
                    lambda threads, args=(rank, burn_in, samples): run_peer(peer, shared, *args, threads)
                )
        for biases in (False, True):  # compile
            lorank_fit(train, test, 1, **bpmf, max_iter=2, biases=biases)
        ensemble_fit(train, test, 1, 1, **nnfn)
        for threads in (1, 2):
            outcomes = {name: [] for name in runs}
            for _ in range(repeats):
                for name, run in runs.items():
                    outcomes[name].append(run(threads))
            for name, outcome in outcomes.items():
                seconds = min(one["seconds"] for one in outcome)
                reason = outcome[0].get("reason", "")
                print(
                    f"{name:48s} threads {threads}  rmse {outcome[0]['error']:.4f}  {seconds:6.2f} s {reason}",
                    flush=True,
                )


def synthetic_table():
    from lorank import MatrixCompletion
    from lorank.datasets import synthetic

    for m in (500, 1000, 2000):
        for rank in (5, 10, 20):
            ratios, truths, values = [], [], []
            for seed in range(5):
                problem = synthetic(m=m, seed=seed)
                model = MatrixCompletion(method="bpmf", rank=rank, max_iter=100, random_state=seed).fit(problem.train)
                unseen = problem.validation
                rows, cols = unseen.rows, unseen.cols
                mean, truth = model.predict(rows, cols), np.einsum("ek,ek->e", problem.W[rows], problem.H[cols])
                truths.append(np.mean(np.abs(mean - truth) < 1.6449 * model.predict_std(rows, cols)))
                values.append(
                    np.mean(np.abs(mean - unseen.values) < 1.6449 * model.predict_std(rows, cols, noise=True))
                )
                d, n = 10 * m - 25, problem.train.nnz
                predictor = model.result_.factors
                nmse = problem.nmse(predictor.W, predictor.H)
                ratios.append(nmse / (0.1 * np.sqrt(d / (n - d)) / np.sqrt(5)))
            print(
                f"m={m} rank {rank}: NMSE {np.mean(ratios):.3f} (worst {max(ratios):.3f}) of least squares at the true "
                f"rank; 90% intervals hold {np.mean(truths):.3f} of true, {np.mean(values):.3f} of observed values",
                flush=True,
            )


def main():
    if sys.argv[1:2] == ["--smurff"]:
        folder, *numbers = sys.argv[2:]
        smurff_fit(folder, *map(int, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--peer-python")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    synthetic_table()
    compare(options.data, options.peer_python, options.repeats)


if __name__ == "__main__":
    main()
