"""Load on a served model, from this machine: rate and latencies, over a swap of the model and over a killed worker.

    python benchmarks/serving.py --data FOLDER          # MovieLens-1M's model
    python benchmarks/serving.py                        # a model of the same shape, made up

Requests are bounded in number and time and go to the loopback address only. A request whose connection breaks, because
its worker was killed, is sent once more, as HTTP clients do with questions that change nothing; one that then has no
answer is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

import lorank


def fitted(folder: str | None, seed: int) -> lorank.Model:
    """A model of MovieLens-1M, or of made-up ratings of its size."""
    if folder:
        data = lorank.datasets.movielens_1m(folder)
    else:
        data = _made_up()
    return lorank.MatrixCompletion("nnfn", rank=10, lam=10.0, biases=True, random_state=seed).fit(data).model_


def _made_up() -> lorank.Observations:
    rng = np.random.default_rng(0)
    m, n, count = 6040, 3449, 1_000_000
    cells = rng.choice(m * n, count, replace=False)
    rows, cols = np.divmod(cells, n)
    W, H = rng.standard_normal((m, 5)), rng.standard_normal((n, 5))
    return lorank.Observations.from_coo(rows, cols, 3 + 0.4 * np.einsum("tk,tk->t", W[rows], H[cols]), (m, n))


class Connection:
    """One client that asks, waits for the answer, and asks again."""

    def __init__(self, port: int) -> None:
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, body: bytes) -> tuple[int, bytes]:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = (
            f"POST /v1/recommend HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        header = await self.reader.readuntil(b"\r\n\r\n")
        length = int(header.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(header.split()[1]), await self.reader.readexactly(length)

    def drop(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def load(port: int, clients: int, seconds: float, most: int, rows: int, users: np.ndarray) -> dict[str, float]:
    """Clients that ask for lists of `rows` random rows, one request after the other, for some seconds."""
    times: list[float] = []
    counts = {"lost": 0, "wrong": 0, "again": 0}
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        rng, connection = np.random.default_rng(number), Connection(port)
        while time.perf_counter() < until and len(times) < most:
            body = json.dumps({"rows": rng.choice(users, rows).tolist(), "n": 10}).encode()
            began = time.perf_counter()
            for attempt in range(5):
                try:
                    status, answer = await asyncio.wait_for(connection.ask(body), 20)
                    break
                except (OSError, asyncio.IncompleteReadError, TimeoutError):
                    connection.drop()
                    counts["again"] += 1
                    await asyncio.sleep(0.05 * attempt)
            else:
                counts["lost"] += 1
                continue
            times.append(time.perf_counter() - began)
            lists = json.loads(answer).get("lists", []) if status == 200 else []
            if len(lists) != rows or any(len(own["items"]) != 10 for own in lists):
                counts["wrong"] += 1
        connection.drop()

    began = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    spent = time.perf_counter() - began
    p50, p99 = np.percentile(times, [50, 99]) * 1000
    return {
        "requests": len(times),
        "recommendations/s": rows * len(times) / spent,
        "p50 ms": float(p50),
        "p99 ms": float(p99),
        **counts,
    }


def wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit("The server did not start.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lorank"
        first, second = (fitted(given.data, seed) for seed in (0, 1))
        first.save(path)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "lorank",
            "serve",
            str(path),
            "--port",
            str(port),
            "--workers",
            str(given.workers),
        ]
        server = subprocess.Popen([str(word) for word in command])
        try:
            wait_for(port)
            users = first.names(np.arange(first.shape[0]), 0)

            async def phase(name: str, rows: int, during: object = None) -> None:
                task = asyncio.create_task(load(port, given.clients, given.seconds, 200_000, rows, users))
                if during is not None:
                    await asyncio.sleep(given.seconds / 2)
                    await asyncio.to_thread(during)
                figures[name] = await task
                shown = "  ".join(f"{key} {value:.4g}" for key, value in figures[name].items())
                print(f"{name:28} {shown}", flush=True)

            def kill() -> None:
                children = [
                    child for child in psutil.Process(server.pid).children() if "spawn_main" in str(child.cmdline())
                ]
                os.kill(children[0].pid, signal.SIGKILL)

            async def everything() -> None:
                await load(port, given.clients, 1, 1000, 1, users)  # warm
                await phase("one row a request", 1)
                await phase("ten rows a request", 10)
                await phase("model swapped meanwhile", 1, lambda: second.save(path))
                if given.workers > 1:
                    await phase("worker killed meanwhile", 1, kill)

            asyncio.run(everything())
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
    if given.output:
        given.output.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
