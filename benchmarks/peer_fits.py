"""One library on one data set, in a process of its own: called by peers.py.

    python peer_fits.py JOB.json        the job: library, settings, data (.npz), threads, repeats, out (.json)

Each function takes shuffled triplets and gives back predictions for pairs; what it does besides is what a user of
that library would have to do. Data preparation counts, reading the file and predicting do not. A first fit on a
corner of the data is not timed: it loads and compiles whatever a library does on first use.
"""

import json
import sys
import time

import numpy as np
import scipy.sparse as sp


def lorank(rows, cols, values, shape, threads, **setting):
    from lorank import MatrixCompletion

    dtype = setting.get("dtype", "float64")
    model = MatrixCompletion(**setting, random_state=1, n_jobs=threads).fit(
        sp.coo_array((values.astype(dtype), (rows, cols)), shape)
    )
    return model.predict


def cmfrec(rows, cols, values, shape, threads, **setting):
    from cmfrec import CMF

    biases = setting.pop("biases")
    model = CMF(
        **setting,
        user_bias=biases,
        item_bias=biases,
        center=biases,
        nthreads=threads,
        precompute_for_predictions=False,
        verbose=False,
    )
    model.fit(sp.coo_matrix((values, (rows, cols)), shape))
    # Lines without ratings are left uninitialised by the exact solver.
    model.A_[np.bincount(rows, minlength=shape[0]) == 0] = 0
    model.B_[np.bincount(cols, minlength=shape[1]) == 0] = 0
    return lambda i, j: model.predict(user=i, item=j)


def libmf(rows, cols, values, shape, threads, lam, **setting):
    from libmf import mf

    model = mf.MF(**setting, lambda_p2=lam, lambda_q2=lam, lambda_p1=0, lambda_q1=0, nr_threads=threads, quiet=True)
    model.fit(np.column_stack([rows, cols, values]).astype(np.float32))
    # Its own predict mixes up the pairs; the factors are right, and NaN where nothing was seen.
    P, Q = (np.nan_to_num(factor) for factor in (model.p_factors(), model.q_factors()))

    def predict(i, j):
        inside = (i < len(P)) & (j < len(Q))
        out = np.zeros(len(i))
        out[inside] = np.einsum("ek,ek->e", P[i[inside]], Q[j[inside]])
        return out

    return predict


def surprise(rows, cols, values, shape, threads, **setting):
    import pandas as pd
    from surprise import SVD, Dataset, Reader

    frame = pd.DataFrame({"u": rows, "i": cols, "r": values})
    reader = Reader(rating_scale=(float(values.min()), float(values.max())))
    train = Dataset.load_from_df(frame, reader).build_full_trainset()
    model = SVD(**setting, random_state=0).fit(train)
    users = np.full(shape[0], -1)
    items = np.full(shape[1], -1)
    for raw, inner in train._raw2inner_id_users.items():
        users[raw] = inner
    for raw, inner in train._raw2inner_id_items.items():
        items[raw] = inner

    def predict(i, j):
        u, v = users[i], items[j]
        out = train.global_mean + np.where(u >= 0, model.bu[u], 0) + np.where(v >= 0, model.bi[v], 0)
        return out + np.where((u >= 0) & (v >= 0), np.einsum("ek,ek->e", model.pu[u], model.qi[v]), 0)

    return predict


def lenskit(rows, cols, values, shape, threads, **setting):
    import pandas as pd
    from lenskit.als import BiasedMFScorer
    from lenskit.data import from_interactions_df

    frame = pd.DataFrame({"user_id": rows, "item_id": cols, "rating": values.astype(np.float32)})
    data = from_interactions_df(frame)
    model = BiasedMFScorer(**setting)
    model.train(data)
    users = model.users.numbers(np.arange(shape[0]), missing="negative")
    items = model.items.numbers(np.arange(shape[1]), missing="negative")

    def predict(i, j):
        u, v = users[i], items[j]
        out = model.bias.global_bias + np.where(u >= 0, model.bias.user_biases[u], 0)
        out = out + np.where(v >= 0, model.bias.item_biases[v], 0)
        return out + np.where(
            (u >= 0) & (v >= 0), np.einsum("ek,ek->e", model.user_embeddings[u], model.item_embeddings[v]), 0
        )

    return predict


def smurff(rows, cols, values, shape, threads, rank, burnin, nsamples):
    import smurff as library

    session = library.TrainSession(
        priors=["normal", "normal"],
        num_latent=rank,
        num_threads=threads,
        burnin=burnin,
        nsamples=nsamples,
        seed=1,
        verbose=0,
    )
    test = smurff.pairs
    session.addTrainAndTest(
        sp.coo_matrix((values, (rows, cols)), shape),
        sp.coo_matrix((np.ones(len(test[0])), test), shape),
        library.AdaptiveNoise(1.0, 10.0),
    )
    predictions = session.run()

    def predict(i, j):
        found = {tuple(p.coords): p.pred_avg for p in predictions}
        return np.array([found.get(pair, np.nan) for pair in zip(i.tolist(), j.tolist())])

    return predict


def myfm(rows, cols, values, shape, threads, rank, n_iter):
    from myfm import MyFMRegressor

    def design(i, j):
        count = len(i)
        indices = np.column_stack([i, shape[0] + j.astype(np.int64)]).ravel()
        return sp.csr_matrix((np.ones(2 * count), indices, 2 * np.arange(count + 1)), shape=(count, sum(shape)))

    model = MyFMRegressor(rank=rank, random_seed=1)
    model.fit(design(rows, cols), values, n_iter=n_iter, n_kept_samples=n_iter * 4 // 5)
    return lambda i, j: model.predict(design(i, j))


def main(job):
    data = np.load(job["data"])
    rows, cols, values = data["rows"], data["cols"], data["values"]
    shape = tuple(int(size) for size in data["shape"])
    # "lorank-mean" and "lorank-bpmf" are lorank with other settings.
    name = job["library"].partition("-")[0]
    fit = globals()[name]
    smurff.pairs = (data["valid_rows"], data["valid_cols"]) if job["tuning"] else (data["test_rows"], data["test_cols"])
    corner = (rows < 300) & (cols < 300)
    if name in ("lorank", "lenskit") and corner.any():
        fit(rows[corner], cols[corner], values[corner], (300, 300), job["threads"], **dict(job["settings"][0]))
    part = "valid" if job["tuning"] else "test"
    for setting in job["settings"]:
        seconds, cpu = [], []
        for _ in range(job["repeats"]):
            started, started_cpu = time.perf_counter(), time.process_time()
            predict = fit(rows, cols, values, shape, job["threads"], **dict(setting))
            seconds.append(time.perf_counter() - started)
            cpu.append(time.process_time() - started_cpu)
        miss = predict(data[f"{part}_rows"], data[f"{part}_cols"]) - data[f"{part}_values"]
        answer = {"setting": setting, "seconds": min(seconds), "cpu": min(cpu)}
        answer["error"] = float(np.sqrt(np.sum(miss**2) / data[f"{part}_scale"]))
        # A line each, as they come: what a library did before it failed still counts.
        with open(job["out"], "a") as file:
            file.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        main(json.load(file))
