"""Model files: arrays as safetensors, the rest as JSON in its header. Reading one runs no code.

Layout (format 1): the header's metadata holds "format", "checksum" and "model", a JSON text with parameters, result and
history; tensors are W, H, biases, ids, and, unless they were left out, the entries that the model was fitted on. A
model that was sampled has all draws side by side in W and H, and what error bars need besides.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import lorank
from lorank import losses
from lorank.errors import InputError
from lorank.estimators import MatrixCompletion
from lorank.files import check_exists, replacing, sha256
from lorank.linalg import Factors
from lorank.models.intervals import Calibration
from lorank.models.packing import (
    pack_ids,
    pack_observations,
    pack_posterior,
    unpack_ids,
    unpack_observations,
    unpack_posterior,
)
from lorank.observations import Lines, Observations
from lorank.observations.identifiers import Identifiers
from lorank.solvers import Result
from lorank.solvers.gibbs import SampledResult
from lorank.solvers.result import History, Status
from lorank.tuning.setting import Setting
from lorank.tuning.trials import Trial, Trials
from lorank.types import Array

FORMAT = 1
CALIBRATION = ("row_scale", "col_scale", "ratios")


def save(model: MatrixCompletion, path: str | Path, *, data: bool = True) -> None:
    """Write a fitted model to one file, whole or not at all: if the disk is full, an older file at `path` stays.

    Parameters
    ----------
    model : MatrixCompletion, fitted
    path : usually ending in .lorank
    data : bool
        Keep the entries that it was fitted on (two to twelve bytes each), which `recommend` needs to leave out
        what was seen, and `complete` to keep it. Without them the file is little larger than the factors.
    """
    check_is_fitted(model)
    path = Path(path)
    factors, seen = model.result_.factors, model.observations_
    arrays = {"W": factors.W, "H": factors.H}
    posterior = model.result_.posterior if isinstance(model.result_, SampledResult) else None
    if posterior is not None:
        # The room for draws that were not made stays behind.
        arrays = {name: side[:, : posterior.draws * posterior.width] for name, side in arrays.items()}
    if factors.biased:
        arrays |= {"row_bias": factors.row_bias, "col_bias": factors.col_bias}
    kinds = {}
    for side, ids in (("row", seen.row_ids), ("col", seen.col_ids)):
        if ids is not None:
            kinds[side] = pack_ids(ids.values, f"{side}_ids", arrays)
    if data:
        pack_observations(seen, arrays)
    calibration = model.calibration_
    if calibration is not None:
        # Seven digits are plenty for the width of a range.
        arrays |= {f"calibration.{part}": getattr(calibration, part).astype(np.float32) for part in CALIBRATION}
    result = model.result_
    about = {
        "written_by": f"lorank {lorank.__version__}",
        "params": _parameters(model),
        "setting": {name: _plain(value) for name, value in vars(model.setting_).items()},
        "mean": float(model.mean_),
        "range": list(model.range_),
        "calibration": None if calibration is None else int(calibration.count),
        "tuning": [list(map(_plain, vars(trial).values())) for trial in getattr(model, "tuning_", ())],
        "offset": float(factors.offset),
        "posterior": None if posterior is None else pack_posterior(posterior, arrays),
        "ids": kinds,
        "data": data,
        "columns": getattr(model, "columns_", None),
        "result": {
            "objective": float(result.objective),
            "status": result.status.name,
            "message": result.message,
            "n_iter": int(result.n_iter),
            "seconds": float(result.seconds),
        },
        "history": {name: list(map(_plain, column)) for name, column in vars(result.history).items()},
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(about)
    import safetensors.numpy

    header = {"format": f"lorank {FORMAT}", "checksum": _checksum(arrays, text), "model": text}
    content = safetensors.numpy.save(arrays, metadata=header)
    with replacing(path) as beside:
        beside.write_bytes(content)


def load(path: str | Path) -> MatrixCompletion:
    """The model that `save` wrote, ready to predict.

    A file that is damaged, newer than this lorank or something else gets an InputError that says which.
    """
    path = Path(path)
    arrays, about = _read(path)
    try:
        return _build(arrays, about)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} is not a model that can be used: {_one_line(error)}.") from None


def _read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    if (path / "manifest.json").is_file():
        raise InputError(f"{path} is a folder of shards, for predict, recommend and inspect; the rest needs one file.")
    check_exists(path)
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            written = header.get("format", "")
            if not written.startswith("lorank "):
                raise InputError(f"{path} is a safetensors file, but not a lorank model.")
            if written != f"lorank {FORMAT}":
                raise InputError(
                    f"{path} has the format {written.removeprefix('lorank ')!r} and this lorank reads {FORMAT}: "
                    "upgrade lorank, or save the model again."
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except SafetensorError as error:
        raise InputError(f"{path} is not a lorank model, or it is damaged or cut off ({_one_line(error)}).") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None
    if header.get("checksum") != _checksum(arrays, header.get("model", "")):
        raise InputError(f"{path} is damaged: its checksum is wrong; save the model again.")
    try:
        about = json.loads(header["model"])
    except (ValueError, KeyError, RecursionError):
        raise InputError(f"{path} is damaged: its description cannot be read.") from None
    return arrays, about


def _build(arrays: dict[str, Array], about: dict[str, Any]) -> MatrixCompletion:
    """A fitted model from what a file holds, every part of it checked: a file can be made to do harm."""
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
    ids = {
        side: Identifiers(unpack_ids(about["ids"][side], f"{side}_ids", arrays, size)) if side in about["ids"] else None
        for side, size in (("row", len(W)), ("col", len(H)))
    }
    model = MatrixCompletion(**{str(name): value for name, value in about["params"].items()})
    lines = unpack_observations(arrays, factors.shape, W.dtype) if about["data"] else _no_lines(factors)
    seen = Observations(factors.shape, lines, ids["row"], ids["col"])
    calibration = None
    if about["calibration"] is not None:
        scales = [arrays[f"calibration.{part}"].astype(np.float64) for part in CALIBRATION]
        if [part.shape for part in scales[:2]] != [(len(W) + 1,), (len(H) + 1,)] or scales[2].ndim != 1:
            raise ValueError("its calibration does not go with its factors")
        calibration = Calibration(scales[0], scales[1], scales[2], int(about["calibration"]))
    saved = dict(about["result"])
    shared = {"status": Status[saved.pop("status")], "history": History(**about["history"]), **saved}
    if about.get("posterior") is None:
        result = Result(factors, **shared)
    else:
        result = SampledResult(factors, posterior=unpack_posterior(about["posterior"], arrays, factors), **shared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no data; the saved one takes its place
        model._keep(seen, Setting(**about["setting"]), result, calibration)
    low, high = about["range"]
    model.mean_, model.range_ = float(about["mean"]), (float(low), float(high))
    if about["tuning"]:
        model.tuning_ = Trials([Trial(*row) for row in about["tuning"]])
    if about["columns"] is not None:
        model.columns_ = tuple(str(name) for name in about["columns"])
    return model


def _no_lines(factors: Factors) -> Lines:
    return Lines(np.zeros(factors.shape[0] + 1, np.int64), np.empty(0, np.int32), np.empty(0, factors.dtype))


def _checksum(arrays: dict[str, Array], text: str) -> str:
    parts: list[Any] = [text.encode()]
    for name in sorted(arrays):
        array = arrays[name]
        parts.append(f"{name} {array.dtype} {array.shape}".encode())
        parts.append(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return sha256(*parts)


def _parameters(model: MatrixCompletion) -> dict[str, Any]:
    """The parameters that JSON knows, a loss by its name; objects, such as a solver, come back as the default."""
    params = model.get_params(deep=False)
    names = [name for name, kind in losses.LOSSES.items() if type(params["loss"]) is kind]
    params["loss"] = names[0] if names else params["loss"]
    return {name: _plain(value) for name, value in params.items() if value is None or _plain(value) is not None}


def _plain(value: Any) -> Any:
    """A number, text or None as JSON knows it; of anything else, such as a random generator, nothing is kept."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (bool, int, float, str, type(None))) else None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
