"""Damaged files for every reader: whatever a file holds, it is read, or refused in one sentence.

    python tests/fuzz/fuzz.py --files 100000 --formats csv parquet --seed 0

Each format has a few good files as seeds, written here. File number i of a seed is made of one of them by a handful of
mutations drawn from (seed, i), so that a failure can be made again: `--first i --files 1`. Files are read in a process
of its own: one that crashes it or never comes back is a failure like any other, and the run goes on behind it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

# Seconds after which a file that is still being read is taken as hanging, and a child that has not begun.
PATIENCE, STARTING = 120, 900
TOKENS = [
    b"\0",
    b"\xff" * 4,
    b"nan",
    b"inf",
    b"-1",
    b"1e999",
    b"9" * 30,
    b'"',
    b"\n",
    b"\r",
    b",",
    b"::",
    b"\xef\xbb\xbf",
]
NUMBERS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, 1 << 28]


def mutated(seeds: list[bytes], rng: np.random.Generator) -> bytes:
    """One of the seeds with one to six mutations."""
    data = bytearray(seeds[rng.integers(len(seeds))])
    for _ in range(int(rng.choice([1, 1, 1, 2, 3, 6]))):
        at = int(rng.integers(len(data) + 1))
        size = int(rng.integers(1, 1 + min(64, max(1, len(data)))))
        kind = int(rng.choice(9, p=[0.3, 0.05, 0.05, 0.05, 0.1, 0.15, 0.2, 0.05, 0.05]))
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            data[at:at] = rng.bytes(size)
        elif kind == 4:
            data[at : at + size] = rng.bytes(size)
        elif kind == 5:
            data[at:at] = TOKENS[rng.integers(len(TOKENS))]
        elif kind == 6:
            width = int(rng.choice([2, 4, 8]))
            number = NUMBERS[rng.integers(len(NUMBERS))] & (256**width - 1)
            data[at : at + width] = number.to_bytes(width, "little")
        elif kind == 7:
            data[at:at] = data[at : at + size]
        else:
            other = seeds[rng.integers(len(seeds))]
            data[at:] = other[int(rng.integers(len(other) + 1)) :]
    return bytes(data)


# The formats: good files, and how one is read.


def _table():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((12, 9)) < 0.6)
    return rows, cols, np.round(rng.normal(size=rows.size), 3)


def _csv(folder):
    rows, cols, values = _table()
    lines = [f"u{i},{j},{v}" for i, j, v in zip(rows, cols, values)]
    yield ("user,item,value\n" + "\n".join(lines) + "\n").encode()
    yield "\n".join(f'"ü {i}";{j};{v}' for i, j, v in zip(rows, cols, values)).encode()
    yield b"\xef\xbb\xbf" + "\r\n".join(f"{i}::{j}::{v}" for i, j, v in zip(rows, cols, values)).encode()


def _wide(folder):
    rng = np.random.default_rng(1)
    cells = [["", *(f"c{j}" for j in range(6))]]
    cells += [
        [f'"r,{i}"', *("NA" if rng.random() < 0.2 else f"{rng.normal():.4g}" for _ in range(6))] for i in range(9)
    ]
    yield "\n".join(",".join(line) for line in cells).encode()
    yield "\r\n".join("\t".join(line[1:]) for line in cells[1:]).encode()


def _packed(folder):
    yield from (gzip.compress(content, mtime=0) for content in _csv(folder))


def _zipped(folder):
    for number, content in enumerate(_csv(folder)):
        with zipfile.ZipFile(folder / f"{number}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", content)
        yield (folder / f"{number}.zip").read_bytes()


def _parquet(folder):
    import pyarrow as pa
    from pyarrow import parquet

    rows, cols, values = _table()
    ids = [pa.array(rows), pa.array([f"i{j}" for j in cols]), pa.array(rows.astype("datetime64[D]"))]
    for number, (row, col) in enumerate(((ids[0], ids[1]), (ids[1].dictionary_encode(), ids[0]), (ids[2], ids[1]))):
        table = pa.table({"row": row, "col": col, "value": values})
        parquet.write_table(table, folder / f"{number}.parquet", compression=["none", "snappy", "gzip"][number])
        yield (folder / f"{number}.parquet").read_bytes()
    wide = {"name": [f"r{i}" for i in range(9)], **{f"c{j}": np.arange(9.0) + j for j in range(4)}}
    parquet.write_table(pa.table(wide), folder / "wide.parquet")
    yield (folder / "wide.parquet").read_bytes()


def _npz(folder):
    from scipy import sparse

    rows, cols, values = _table()
    matrix = sparse.coo_array((values, (rows, cols)), shape=(12, 9))
    for packed in (False, True):
        for kind in ("csr", "csc", "coo", "bsr"):
            sparse.save_npz(folder / "a.npz", matrix.asformat(kind), compressed=packed)
            yield (folder / "a.npz").read_bytes()
    np.savez(folder / "a.npz", rows=rows, cols=np.array([f"i{j}" for j in cols]), values=values)
    yield (folder / "a.npz").read_bytes()


def _npy(folder):
    X = np.random.default_rng(0).normal(size=(7, 5))
    X[1, 2] = np.nan
    for array in (X, X.astype(">f4"), np.asfortranarray(X), X.astype(object).astype(float)):
        np.save(folder / "a.npy", array)
        yield (folder / "a.npy").read_bytes()


def _mtx(folder):
    from scipy import io, sparse

    rows, cols, values = _table()
    matrix = sparse.coo_array((values, (rows, cols)), shape=(12, 9))
    square = (matrix @ matrix.T).tocoo()
    for given, more in (
        (matrix, {}),
        (matrix.toarray(), {}),
        (square, {"symmetry": "symmetric"}),
        (matrix, {"field": "pattern"}),
    ):
        io.mmwrite(folder / "a.mtx", given, **more)
        yield (folder / "a.mtx").read_bytes()


def _nc(folder):
    import xarray

    X = np.random.default_rng(0).normal(size=(5, 4))
    data = xarray.Dataset({"tas": (("station", "time"), X)}, {"station": np.arange(5), "time": np.arange(4.0)})
    for engine in ("h5netcdf", "scipy"):
        data.to_netcdf(folder / "a.nc", engine=engine)
        yield (folder / "a.nc").read_bytes()


def _model(folder):
    import lorank

    rows, cols, values = _table()
    names = np.array([f"r{i}" for i in range(12)])
    observations = lorank.Observations.from_coo(rows, cols, values, (12, 9), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method, more in (("nnfn", {"biases": True}), ("bpmf", {"max_iter": 8})):
            fitted = lorank.MatrixCompletion(method, rank=2, lam=0.1, random_state=0, **more)
            fitted.fit(observations, validation=0.2).save(folder / "a.lorank")
            yield (folder / "a.lorank").read_bytes()


def _checkpoint(folder):
    import lorank

    X = np.random.default_rng(0).normal(size=(9, 7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lorank.MatrixCompletion(rank=2, lam=0.1, max_iter=3, tol=0, random_state=0).fit(X, checkpoint=folder / "c")
    yield (folder / "c").read_bytes()


def read_table(path):
    from lorank import tables

    tables.read(path, duplicates="last")


def read_model(path):
    """Loads it, and asks it everything."""
    import lorank

    model = lorank.load(path)
    rows, cols = np.arange(model.shape[0]), np.zeros(model.shape[0], int)
    names = rows if model.row_ids is None else model.row_ids.values
    model.predict(
        names,
        cols if model.col_ids is None else model.col_ids.values[cols],
        interval=0.9 if model.calibration else None,
    )
    model.recommend(n=2, seen=model.observations is None)


def read_checkpoint(path):
    import lorank

    X = np.random.default_rng(0).normal(size=(9, 7))
    lorank.MatrixCompletion(rank=2, lam=0.1, max_iter=3, tol=0, random_state=0).fit(X, checkpoint=path)


FORMATS = {
    "csv": (_csv, "a.csv", read_table),
    "wide csv": (_wide, "a.csv", read_table),
    "csv.gz": (_packed, "a.csv.gz", read_table),
    "csv.zip": (_zipped, "a.csv.zip", read_table),
    "parquet": (_parquet, "a.parquet", read_table),
    "npz": (_npz, "a.npz", read_table),
    "npy": (_npy, "a.npy", read_table),
    "mtx": (_mtx, "a.mtx", read_table),
    "nc": (_nc, "a.nc", read_table),
    "model": (_model, "a.lorank", read_model),
    "shards": (_model, "a.lorank", read_model),
    "checkpoint": (_checkpoint, "c", read_checkpoint),
}


def read_all(name: str, seed: int, first: int, last: int, failures: list[str] | None = None) -> Counter[str]:
    """Make and read files first..last; without a list for failures, a line of JSON for each file and one of counts."""

    def say(**facts: object) -> None:
        if failures is None:
            print(json.dumps(facts), flush=True)
        elif "failed" in facts:
            failures.append(f"{name} {facts['failed']}: {facts['why']}\n{facts['trace']}")

    from lorank.errors import InputError

    warnings.simplefilter("ignore")
    write, filename, read = FORMATS[name]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="lorank-fuzz-") as folder:
        path = Path(folder) / "file" / filename
        path.parent.mkdir()
        shards = None
        if name == "shards":
            import lorank

            seeds = list(write(Path(folder)))
            (path.parent / filename).write_bytes(seeds[0])
            shards = path.parent / "shards"
            lorank.load(path).save(shards, shards=True)
            originals = {file: file.read_bytes() for file in sorted(shards.iterdir())}
        else:
            seeds = list(write(Path(folder)))
        for number in range(first, last):
            say(at=number)
            rng = np.random.default_rng([seed, number])
            target = path
            if shards is None:
                path.write_bytes(mutated(seeds, rng))
            else:
                file = list(originals)[rng.integers(len(originals))]
                file.write_bytes(mutated([originals[file]], rng))
                target = shards
            try:
                read(target)
                counts["read"] += 1
            except (InputError, MemoryError):
                counts["refused"] += 1
            except Exception as error:
                counts["failed"] += 1
                say(failed=number, why=f"{type(error).__name__}: {error}"[:300], trace=traceback.format_exc())
            if shards is not None:
                file.write_bytes(originals[file])
            Path(f"{path}.path").unlink(missing_ok=True)
    say(counts=counts)
    return counts


def fuzz(name: str, files: int, seed: int = 0, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Read so many damaged files in child processes; how many were read, refused and failed, and how those failed."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    at, last = first, first + files
    while at < last:
        chunk = min(last, at + 5000)
        command = [
            sys.executable,
            __file__,
            "--child",
            name,
            "--seed",
            str(seed),
            "--first",
            str(at),
            "--files",
            str(chunk - at),
        ]
        done, here, err = False, at - 1, b""
        with tempfile.NamedTemporaryFile() as log, tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(command, stdout=log, stderr=errors)
            with open(log.name, encoding="utf-8") as said:
                moved, rest = time.monotonic(), ""
                while True:
                    ended = child.poll() is not None
                    *lines, rest = (rest + said.read()).split("\n")
                    for line in map(json.loads, lines):
                        moved = time.monotonic()
                        here = line.get("at", here)
                        if "failed" in line:
                            failures.append(f"{name} {line['failed']}: {line['why']}\n{line['trace']}")
                        if "counts" in line:
                            counts.update(line["counts"])
                            done = True
                    if ended:
                        break
                    if time.monotonic() - moved > (PATIENCE if here >= at else STARTING):
                        child.kill()
                    time.sleep(0.02)
            errors.seek(0)
            err = errors.read()
        if done:
            at = chunk
            continue
        # It crashed, was killed, or did not even start; what it had read before is read again.
        code = child.returncode
        counts["failed"] += 1
        reason = "hangs" if code == -signal.SIGKILL else f"ends the process ({code})"
        failures.append(f"{name} {here}: {reason}\n{err[-2000:].decode(errors='replace')}")
        if here < at:
            break
        counts["read or refused"] += here - at
        at = here + 1
    return counts, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", choices=[*FORMATS], default=[*FORMATS])
    parser.add_argument("--child", choices=[*FORMATS])
    parser.add_argument(
        "--together", action="store_true", help="all formats in this process: quick, and a crash ends it"
    )
    given = parser.parse_args()
    if given.child:
        read_all(given.child, given.seed, given.first, given.first + given.files)
        return 0
    wrong = 0
    for name in given.formats:
        began = time.monotonic()
        if given.together:
            failures = []
            counts = read_all(name, given.seed, given.first, given.first + given.files, failures)
        else:
            counts, failures = fuzz(name, given.files, given.seed, given.first)
        seconds = time.monotonic() - began
        parts = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
        print(f"{name:12} {given.files:7} files  {seconds:7.1f} s  {parts}", flush=True)
        for failure in failures[:20]:
            print(failure, flush=True)
        wrong += len(failures)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
