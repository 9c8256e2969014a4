"""The formats that are fuzzed: good files as seeds, how one is damaged, and how it is read."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from good_files import (
    FITS,
    block,
    checkpoints,
    excel,
    folder_of_parquet,
    go_on,
    json_lines,
    long_csv,
    matrix_market,
    models,
    netcdf,
    npy,
    npz,
    other_habits,
    packed_csv,
    parquet_files,
    shards,
    side_parquet,
    side_table,
    wide_csv,
    write_block,
    zarr_stores,
    zipped_csv,
)
from mutations import damaged_array, damaged_json, mutated, repacked

Seeds = Any


@dataclass(frozen=True)
class Format:
    """`seeds` writes good files; `damage` makes of them what `read` is given, under `filename` in a folder."""

    seeds: Callable[[Path], Any]
    filename: str
    read: Callable[[Path], None]
    damage: Callable[[Seeds, np.random.Generator, Path], Path]


def as_file(change: Callable[[list[bytes], np.random.Generator], bytes]) -> Callable[..., Path]:
    """Damage to the bytes of one file."""

    def damage(seeds: list[bytes], rng: np.random.Generator, path: Path) -> Path:
        path.write_bytes(change(seeds, rng))
        return path

    return damage


def forged(seeds: list[bytes], rng: np.random.Generator) -> bytes:
    """A model file with other arrays or another description, and the checksum that goes with them."""
    import safetensors.numpy

    from lorank.files import sha256_of_arrays

    seed = seeds[rng.integers(len(seeds))]
    header = json.loads(seed[8 : 8 + int.from_bytes(seed[:8], "little")])["__metadata__"]
    arrays = safetensors.numpy.load(seed)
    if rng.random() < 0.5:
        name = sorted(arrays)[rng.integers(len(arrays))]
        arrays[name] = np.ascontiguousarray(damaged_array(arrays[name], rng))
    else:
        header["model"] = damaged_json(header["model"], rng)
    header["checksum"] = sha256_of_arrays(arrays, header["model"])
    return bytes(safetensors.numpy.save(arrays, metadata=header))


def damage_shard(seeds: dict[str, bytes], rng: np.random.Generator, path: Path) -> Path:
    """One file of a folder, damaged."""
    path.mkdir(exist_ok=True)
    chosen = list(seeds)[rng.integers(len(seeds))]
    for name, content in seeds.items():
        (path / name).write_bytes(mutated([content], rng) if name == chosen else content)
    return path


def damage_store(seeds: list[dict[str, bytes]], rng: np.random.Generator, path: Path) -> Path:
    """One file of a Zarr store, damaged in its bytes, or, of those that describe it, in its fields."""
    shutil.rmtree(path, ignore_errors=True)
    files = seeds[rng.integers(len(seeds))]
    chosen = list(files)[rng.integers(len(files))]
    for name, content in files.items():
        if name == chosen:
            by_field = content.startswith(b"{") and rng.random() < 0.5
            content = damaged_json(content.decode(), rng).encode() if by_field else mutated([content], rng)
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def forge_shards(seeds: dict[str, bytes], rng: np.random.Generator, path: Path) -> Path:
    """A folder with another array or description, and the checksums that go with them."""
    from lorank.models import shard_files

    path.mkdir(exist_ok=True)
    chosen = [*seeds, shard_files.MANIFEST][rng.integers(len(seeds) + 1)]
    for name, content in seeds.items():
        (path / name).write_bytes(content)
    text = seeds[shard_files.MANIFEST].decode()
    if chosen == shard_files.MANIFEST:
        text = damaged_json(text, rng)
    else:
        np.save(path / chosen, damaged_array(np.load(io.BytesIO(seeds[chosen])), rng))
    manifest = json.loads(text)
    manifest = {name: part for name, part in manifest.items() if name not in ("files", "checksum")}
    (path / shard_files.MANIFEST).unlink()
    shard_files.write_manifest(path, manifest)
    return path


def damage_part(seeds: bytes, rng: np.random.Generator, path: Path) -> Path:
    """A block of a fit out of core, damaged; where nothing was changed, it is the good one."""
    path.write_bytes(mutated([seeds], rng))
    return path


def damage_checkpoint(change: Callable[[list[bytes], np.random.Generator], bytes]) -> Callable[..., Path]:
    """Damage to the checkpoint of one of the solvers, whose number is in the name; one in ten is given to another."""

    def damage(seeds: list[bytes], rng: np.random.Generator, path: Path) -> Path:
        own = int(rng.integers(len(seeds)))
        given = int(rng.integers(len(seeds))) if rng.random() < 0.1 else own
        path = path.with_suffix(f".{given}")
        path.write_bytes(change([seeds[own]], rng))
        return path

    return damage


def damage_folder(seeds: list[bytes], rng: np.random.Generator, path: Path) -> Path:
    """A folder of two Parquet files, one of them damaged."""
    path.mkdir(exist_ok=True)
    seed = seeds[rng.integers(len(seeds))]
    (path / "a.parquet").write_bytes(mutated([seed], rng))
    return path


# How they are read.


def read_table(path: Path) -> None:
    from lorank import tables

    tables.read(path, duplicates="last")


def read_habits(path: Path) -> None:
    from lorank import tables
    from lorank.tables.translation import Habits

    tables.read(path, duplicates="last", habits=Habits("latin-1", ",", ("missing",), "#"))


def read_side(path: Path) -> None:
    from lorank.tables.side_tables import read_features

    read_features(path)


def read_model(path: Path) -> None:
    """Loads it, and asks it everything."""
    import lorank

    model = lorank.load(path)
    rows, cols = np.arange(model.shape[0]), np.zeros(model.shape[0], int)
    names = rows if model.row_ids is None else model.row_ids.values
    others = cols if model.col_ids is None else model.col_ids.values[cols]
    model.predict(names, others, interval=0.9 if model.calibration or model.posterior else None)
    model.recommend(n=2, seen=model.observations is None)
    model.similar(row=names[0], n=2)
    model.describe()


def read_checkpoint(path: Path) -> None:
    """The solver that wrote the file, or now and then another, goes on from it."""
    go_on(path, **FITS[int(path.suffix[1:])])


_good_part: Any = None


def read_part(path: Path) -> None:
    """What is read of a block is what was written, or it is refused."""
    global _good_part
    from dataclasses import replace

    if _good_part is None:
        _good_part = write_block(path.with_name("good"))
        _good_part = _good_part, _good_part.read()
    written, content = _good_part
    found = replace(written, path=str(path)).read()
    assert all(np.array_equal(one, other) for one, other in zip(found.arrays[:3], content.arrays[:3]))


def read_folder(path: Path) -> None:
    from lorank import distributed

    fit = {"rank": 2, "lam": 0.1, "max_iter": 1, "backend": "out-of-core"}
    distributed.fit(path, row="row", col="col", value="value", work_folder=path.parent, **fit)


class _OneChild:
    """Stands for `subprocess` in the reader of NetCDF: one child, forked from this process, looks at all files.

    A process that starts from nothing takes a second, and so would each file. A child that crashes or hangs is
    followed by another.
    """

    DEVNULL, TimeoutExpired = subprocess.DEVNULL, subprocess.TimeoutExpired
    _child: Any = None

    @classmethod
    def run(cls, command: list[str], timeout: float, **_: Any) -> Any:
        if cls._child is None:
            forks = multiprocessing.get_context("fork")
            ours, theirs = forks.Pipe()
            cls._child = forks.Process(target=_run_commands, args=(theirs,), daemon=True), ours
            cls._child[0].start()
            theirs.close()
        process, pipe = cls._child
        pipe.send(command[-3:])
        try:
            if pipe.poll(timeout):
                return subprocess.CompletedProcess(command, *pipe.recv())
            process.kill()
            raise subprocess.TimeoutExpired(command, timeout)
        except (EOFError, ConnectionError):
            process.join()
            cls._child = None
            return subprocess.CompletedProcess(command, process.exitcode, b"")
        except subprocess.TimeoutExpired:
            process.join()
            cls._child = None
            raise


def _run_commands(pipe: Any) -> None:
    """What the program would print for each file that comes."""
    from lorank.tables import netcdf_probe

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        path, seconds, free = pipe.recv()
        found = netcdf_probe.read(Path(path), int(seconds), int(free))
        signal.alarm(0)
        pipe.send((0, json.dumps(found).encode(), b""))


def read_netcdf(path: Path) -> None:
    from lorank.tables import netcdf

    netcdf.subprocess, netcdf.PATIENCE = _OneChild, 10.0  # type: ignore[assignment]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_table(path)


def read_store(path: Path) -> None:
    from lorank.spatial.arrays import open_file

    open_file(path).close()


BYTES, INSIDE = as_file(mutated), as_file(repacked)
FORMATS = {
    "csv": Format(long_csv, "a.csv", read_table, BYTES),
    "wide csv": Format(wide_csv, "a.csv", read_table, BYTES),
    "tsv": Format(wide_csv, "a.tsv", read_table, BYTES),
    "other habits": Format(other_habits, "a.csv", read_habits, BYTES),
    "JSON": Format(json_lines, "a.jsonl", read_table, BYTES),
    "csv.gz": Format(packed_csv, "a.csv.gz", read_table, BYTES),
    "csv.gz, inside": Format(packed_csv, "a.csv.gz", read_table, INSIDE),
    "csv.zip": Format(zipped_csv, "a.csv.zip", read_table, BYTES),
    "csv.zip, inside": Format(zipped_csv, "a.csv.zip", read_table, INSIDE),
    "Excel": Format(excel, "a.xlsx", read_table, BYTES),
    "Excel, inside": Format(excel, "a.xlsx", read_table, INSIDE),
    "Parquet": Format(parquet_files, "a.parquet", read_table, BYTES),
    "folder of Parquet": Format(folder_of_parquet, "folder", read_folder, damage_folder),
    "npz": Format(npz, "a.npz", read_table, BYTES),
    "npz, inside": Format(npz, "a.npz", read_table, INSIDE),
    "npy": Format(npy, "a.npy", read_table, BYTES),
    "Matrix Market": Format(matrix_market, "a.mtx", read_table, BYTES),
    "NetCDF": Format(netcdf, "a.nc", read_netcdf, BYTES),
    "Zarr": Format(zarr_stores, "a.zarr", read_store, damage_store),
    "side table": Format(side_table, "a.csv", read_side, BYTES),
    "side table, Parquet": Format(side_parquet, "a.parquet", read_side, BYTES),
    "model": Format(models, "a.lorank", read_model, BYTES),
    "model, forged": Format(models, "a.lorank", read_model, as_file(forged)),
    "shards": Format(shards, "folder", read_model, damage_shard),
    "shards, forged": Format(shards, "folder", read_model, forge_shards),
    "checkpoint": Format(checkpoints, "c", read_checkpoint, damage_checkpoint(mutated)),
    "checkpoint, forged": Format(checkpoints, "c", read_checkpoint, damage_checkpoint(repacked)),
    "block": Format(block, "part", read_part, damage_part),
}
