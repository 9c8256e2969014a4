"""Ratings: fit, predict with intervals, recommend, find similar films, save.

Ratings come as a DataFrame of any library, or as triplets. Rank, weight and biases are chosen on held-out ratings. Use
your own table in place of the made-up one.
"""

import tempfile
from pathlib import Path

import numpy as np

import lorank

rng = np.random.default_rng(0)
users, films, rank = 500, 200, 3
tastes = 0.6 * rng.standard_normal((users, rank)) @ rng.standard_normal((rank, films))
stars = np.clip(np.round(3.5 + tastes + rng.standard_normal(films) / 2 + 0.3 * rng.standard_normal(tastes.shape)), 1, 5)
user, film = np.nonzero(rng.random(stars.shape) < 0.2)
user_names = np.array([f"user {i}" for i in range(users)])
film_names = np.array([f"film {j}" for j in range(films)])

ratings = lorank.Observations.from_ids(user_names[user], film_names[film], stars[user, film])
train, test = ratings.split(0.2, seed=0)
model = lorank.MatrixCompletion(lam="auto", rank="auto", theta="auto", biases="auto", random_state=0).fit(train)
print(model.setting_)
print(f"test RMSE {-model.score(test):.3f}")

prediction, lower, upper = model.predict("user 7", ["film 1", "film 2"], interval=0.9)
for name, *numbers in zip(("film 1", "film 2"), prediction, lower, upper):
    print(name, "predicted {:.2f}, with probability 0.9 between {:.2f} and {:.2f}".format(*numbers))

top = lorank.recommend(model, ["user 7"], n=3)
print("for user 7:", ", ".join(top.cols))
print("similar to film 1:", ", ".join(lorank.similar(model, col="film 1", n=3)[0]))

path = Path(tempfile.mkdtemp()) / "model.lorank"
lorank.save(model, path)
assert lorank.load(path).predict("user 7", "film 1") == prediction[0]
