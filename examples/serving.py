"""Serving predictions: a model file, a small HTTP server of the standard library, and new users folded in.

The model is read once and never changes, so that threads can share it. A user who was not in the data is folded in from
a few ratings, which takes a millisecond.
"""

import json
import tempfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np

import lorank

rng = np.random.default_rng(0)
X = 3 + rng.standard_normal((300, 2)) @ rng.standard_normal((2, 100))
rows, cols = np.nonzero(rng.random(X.shape) < 0.3)
names = np.array([f"user{i}" for i in range(300)]), np.array([f"item{j}" for j in range(100)])
ratings = lorank.Observations.from_ids(names[0][rows], names[1][cols], X[rows, cols])
path = Path(tempfile.mkdtemp()) / "model.lorank"
lorank.save(lorank.MatrixCompletion(rank=2, lam=0.5, biases=True, random_state=0).fit(ratings), path)

model = lorank.load(path)


class Answer(BaseHTTPRequestHandler):
    """GET /top?user=user7&n=3 and POST /top with the ratings {"item3": 5, ...} of somebody new."""

    def do_GET(self):
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        try:
            self.reply(lorank.recommend(model, [asked["user"]], int(asked.get("n", 5))))
        except (lorank.InputError, KeyError) as error:
            self.send_error(400, str(error))

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        new = model.fold_in(
            (np.array(["new"] * len(given)), np.array(list(given)), np.array(list(given.values()), float))
        )
        self.reply(lorank.recommend(new, n=5))

    def reply(self, top):
        body = json.dumps(dict(zip(top.cols.tolist(), top.scores.round(2).tolist()))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *parts):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/top"
print("user7:", urllib.request.urlopen(f"{address}?user=user7&n=3").read().decode())
liked = json.dumps({"item3": 5, "item8": 1, "item20": 4}).encode()
print("somebody new:", urllib.request.urlopen(address, data=liked).read().decode())
server.shutdown()
