"""A small model with titles."""

import numpy as np

import lorank


def fitted(seed=0, rank=2):
    rng = np.random.default_rng(seed)
    X = 3 + rng.standard_normal((40, 2)) @ rng.standard_normal((2, 25))
    X[rng.random(X.shape) < 0.5] = np.nan
    data = lorank.Observations.from_dense(X, [f"u{i}" for i in range(40)], list(range(100, 125)))
    model = lorank.MatrixCompletion(rank=rank, lam=0.1, biases=True, random_state=0).fit(data, validation=0.2).model_
    return model.with_titles({"id": list(range(100, 125)), "title": [f"<i>Film</i> {j} \u202e" for j in range(25)]})
