"""Damage: to bytes, to the members of an archive whose checksums are right again, to arrays and to JSON."""

from __future__ import annotations

import copy
import gzip
import io
import json
import zipfile
from typing import Any

import numpy as np

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
# What a field of JSON is replaced by.
ODD: list[Any] = [None, True, -1, 0, 1, 2**31, 2**70, 1e308, float("nan"), "", "x", "nnfn", [], [[1]], {}, {"a": 1}]
TYPES = ["<f4", "<f8", "<i4", "<i8", "<u1", "<f2", "?"]


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


def repacked(seeds: list[bytes], rng: np.random.Generator) -> bytes:
    """A gzip or zip file whose content is damaged and whose checksums are right: the damage gets past them."""
    seed = seeds[rng.integers(len(seeds))]
    if seed.startswith(b"\x1f\x8b"):
        return gzip.compress(mutated([gzip.decompress(seed)], rng), 1, mtime=0)
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen = list(members)[rng.integers(len(members))]
    content = members[chosen]
    if chosen.endswith(".npy") and rng.random() < 0.5:
        members[chosen] = _npy(damaged_array(np.load(io.BytesIO(content)), rng))
    elif chosen == "meta.npy":  # JSON, as bytes
        text = damaged_json(np.load(io.BytesIO(content)).tobytes().decode(), rng)
        members[chosen] = _npy(np.frombuffer(text.encode(), np.uint8))
    else:
        members[chosen] = mutated([content], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, part in members.items():
            archive.writestr(name, part)
    return out.getvalue()


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def damaged_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array with another shape, another type, or with a few numbers that do not belong there."""
    kind = int(rng.integers(6))
    if kind == 0 and array.ndim:
        axis = int(rng.integers(array.ndim))
        return np.delete(array, slice(int(rng.integers(array.shape[axis] + 1)), None), axis)
    if kind == 1 and array.size:
        return np.concatenate([array.ravel(), array.ravel()[: rng.integers(1, array.size + 1)]])
    if kind == 2:
        return array.reshape(-1) if array.ndim != 1 else array.reshape(-1, 1)
    if kind == 3 and array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            return array.astype(TYPES[rng.integers(len(TYPES))])
    if kind == 4 and array.ndim > 1:
        return array.T
    array = array.copy()
    if array.size and array.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            odd = np.array([np.nan, np.inf, -1e300, -1.0, 0.0, 2.0**31, 2.0**62, 255.0]).astype(array.dtype)
        array.reshape(-1)[rng.integers(array.size, size=rng.integers(1, 4))] = odd[rng.integers(odd.size)]
    return array


def damaged_json(text: str, rng: np.random.Generator) -> str:
    """JSON with one to three of its fields replaced or removed."""
    content = json.loads(text)
    for _ in range(int(rng.integers(1, 4))):
        inside: Any = content
        while True:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            if isinstance(inside[key], (dict, list)) and inside[key] and rng.random() < 0.8:
                inside = inside[key]
                continue
            if rng.random() < 0.2:
                del inside[key]
            else:
                inside[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])  # which may be damaged in its turn
            break
    return json.dumps(content)
