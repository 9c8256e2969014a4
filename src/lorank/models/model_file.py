"""Model files: arrays as safetensors, the rest as JSON in its header. Reading one runs no code.

Layout (format 2): the header's metadata holds "format", "checksum" and "model", a JSON text with parameters, result and
history; tensors are W, H, biases, ids, and, unless they were left out, the entries that the model was fitted on. A
model that was sampled has all draws side by side in W and H, and what error bars need besides. Graphs and kernel priors
are tensors too. Format 1 is read as well: it has no graphs, and of a loss its name alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError, one_line
from lorank.files import check_exists, on_disk, reading_once, replacing, sha256_of_arrays
from lorank.linalg import Factors
from lorank.models.contents import Contents
from lorank.models.description import current, describe, fields_of, outcome_of
from lorank.models.packing import (
    pack_ids,
    pack_observations,
    pack_posterior,
    unpack_ids,
    unpack_observations,
    unpack_posterior,
)
from lorank.models.sharded import UnknownValues
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers
from lorank.solvers import Result
from lorank.types import Array

FORMAT, READABLE = 2, (1, 2)


def write(model: Contents, path: str | Path, *, data: bool = True) -> None:
    """Write a model to one file, whole or not at all: if the disk is full, an older file at `path` stays.

    Parameters
    ----------
    path : usually ending in .lorank
    data : bool
        Keep the entries that it was fitted on (two to twelve bytes each), which `recommend` needs to leave out
        what was seen, and `complete` to keep it. Without them the file is little larger than the factors.
    """
    path = Path(path)
    if data and model.observations is not None and isinstance(model.observations.values, UnknownValues):
        raise InputError(
            "This folder of shards keeps which entries were seen and not their values, which a file needs: "
            "save it with data=False."
        )
    model = model.loaded()
    factors, seen = model.factors, model.observations if data else None
    arrays = {"W": factors.W, "H": factors.H}
    posterior = model.posterior
    if posterior is not None:
        # The room for draws that were not made stays behind.
        arrays = {name: side[:, : posterior.draws * posterior.width] for name, side in arrays.items()}
    if factors.biased:
        arrays |= {"row_bias": factors.row_bias, "col_bias": factors.col_bias}
    kinds = {}
    for side, ids in (("row", model.row_ids), ("col", model.col_ids)):
        if ids is not None:
            kinds[side] = pack_ids(ids.values, f"{side}_ids", arrays)
    if seen is not None:
        pack_observations(seen, arrays)
    about = {
        **describe(model, arrays),
        "offset": float(factors.offset),
        "posterior": None if posterior is None else pack_posterior(posterior, arrays),
        "ids": kinds,
        "data": seen is not None,
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(about)
    import safetensors.numpy

    header = {"format": f"lorank {FORMAT}", "checksum": sha256_of_arrays(arrays, text), "model": text}
    content = safetensors.numpy.save(arrays, metadata=header)
    with replacing(path) as beside:
        beside.write_bytes(content)


def read(path: str | Path) -> Contents:
    """The contents of the model that `write` wrote.

    A file that is damaged, newer than this lorank or something else gets an InputError that says which.
    """
    path = Path(path)
    arrays, about = _read(path)
    try:
        return _build(arrays, about)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{path} is not a model that can be used: {one_line(error)}.") from None


def _read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    check_exists(path)
    try:
        with reading_once(), safe_open(on_disk(path), framework="numpy") as file:
            header = file.metadata() or {}
            written = header.get("format", "")
            if not written.startswith("lorank "):
                raise InputError(f"{path} is a safetensors file, but not a lorank model.")
            if written not in [f"lorank {version}" for version in READABLE]:
                raise InputError(
                    f"{path} has the format {written.removeprefix('lorank ')!r} and this lorank reads up to {FORMAT}: "
                    "upgrade lorank, or save the model again."
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except SafetensorError as error:
        raise InputError(f"{path} is not a lorank model, or it is damaged or cut off ({one_line(error)}).") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None
    if header.get("checksum") != sha256_of_arrays(arrays, header.get("model", "")):
        raise InputError(f"{path} is damaged: its checksum is wrong; save the model again.")
    try:
        about = json.loads(header["model"])
        if written == "lorank 1":
            about = current(about, arrays["seen.cols"].size if about["data"] else 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path} is damaged: its description cannot be read.") from None
    return arrays, about


def _build(arrays: dict[str, Array], about: dict[str, Any]) -> Contents:
    """The contents of a model from what a file holds, every part of it checked: a file can be made to do harm."""
    W, H = arrays["W"], arrays["H"]
    if W.ndim != 2 or H.ndim != 2 or W.shape[1] != H.shape[1] or W.dtype != H.dtype or W.dtype.kind != "f":
        raise ValueError(f"its factors have the shapes {W.shape} and {H.shape}")
    row_bias, col_bias = arrays.get("row_bias"), arrays.get("col_bias")
    if [None if bias is None else bias.shape for bias in (row_bias, col_bias)] not in (
        [None, None],
        [(len(W),), (len(H),)],
    ):
        raise ValueError("its biases do not go with its factors")
    factors = Factors.of(W, H, row_bias, col_bias, float(about["offset"]))
    if not factors.is_finite():
        raise ValueError("its factors are not finite")
    ids = [
        Identifiers(unpack_ids(about["ids"][side], f"{side}_ids", arrays, size)) if side in about["ids"] else None
        for side, size in (("row", len(W)), ("col", len(H)))
    ]
    seen = None
    if about["data"]:
        # Draws are kept in float32, also of data in float64.
        dtype = np.promote_types(W.dtype, arrays["seen.values"].dtype)
        seen = Observations(factors.shape, unpack_observations(arrays, factors.shape, dtype), *ids)
    posterior = about.get("posterior")
    drawn = None if posterior is None else unpack_posterior(posterior, arrays, factors)
    result = Result(factors, posterior=drawn, **outcome_of(about, arrays))
    return Contents(
        result=result,
        row_ids=ids[0],
        col_ids=ids[1],
        observations=seen,
        **fields_of(about, arrays, factors.shape),
    )
