"""What a file says of a model beside its factors, ids and entries: plain numbers and text, and a few small arrays.

One file and a folder of shards hold the same description; `current` brings that of an older file up to date.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import lorank
from lorank import losses, registry
from lorank.models.contents import Contents
from lorank.models.intervals import Calibration
from lorank.models.packing import pack_features, pack_side, pack_text, unpack_features, unpack_side, unpack_text
from lorank.models.setting import Setting
from lorank.solvers.result import History, Status
from lorank.types import Array

CALIBRATION = ("row_scale", "col_scale", "ratios")
SIDES = ("row_side", "col_side")
# What parameters were called in files that were written before.
OLDER = {"row_graph": "row_side", "col_graph": "col_side"}
# How and where a fit ran says nothing of the model: whoever loads it may have no such backend.
NOT_OF_THE_MODEL = ("backend", "n_workers")
# Parameters without which the model would be another one.
ESSENTIAL = ("loss", *SIDES)
# Columns of a search's trials in the first format.
TRIAL = ("lam", "rank", "theta", "biases", "error", "sweeps", "seconds", "chosen")


def describe(model: Contents, arrays: dict[str, Array]) -> dict[str, Any]:
    """The description of a model for JSON; arrays that belong to it are put into `arrays`."""
    calibration, result = model.calibration, model.result
    if calibration is not None:
        # Seven digits are plenty for the width of a range.
        arrays |= {f"calibration.{part}": np.asarray(getattr(calibration, part), np.float32) for part in CALIBRATION}
    params, objects, lost = _parameters(model, arrays)
    titles = {}
    for side, own in (("row", model.row_titles), ("col", model.col_titles)):
        titles[side] = list(own)
        for number, texts in enumerate(own.values()):
            pack_text([str(text) for text in texts], f"{side}_titles.{number}", arrays)
    return {
        "written_by": f"lorank {lorank.__version__}",
        "params": params,
        "parameters": _own_parameters(model),
        "objects": objects,
        "lost": {**model.lost, **lost},
        "setting": {name: plain(value) for name, value in vars(model.setting).items()},
        "mean": float(model.mean),
        "range": None if model.range is None else list(map(float, model.range)),
        "entries": int(model.entries),
        "calibration": None if calibration is None else int(calibration.count),
        "trials": [{name: plain(value) for name, value in trial.items()} for trial in model.trials],
        "columns": model.columns,
        "features": {
            side: pack_features(known, f"{side}_features", arrays)
            for side, known in zip(("row", "col"), model.features)
            if known is not None
        },
        "titles": titles,
        "lists": {name: float(value) for name, value in model.lists.items()},
        "result": {
            "objective": float(result.objective),
            "status": result.status.name,
            "message": result.message,
            "n_iter": int(result.n_iter),
            "seconds": float(result.seconds),
        },
        "history": {name: list(map(plain, column)) for name, column in vars(result.history).items()},
    }


def fields_of(about: dict[str, Any], arrays: dict[str, Array], shape: tuple[int, int]) -> dict[str, Any]:
    """The fields of `Contents` that a description holds, every part of it checked: a file can be made to do harm."""
    m, n = shape
    calibration = None
    if about["calibration"] is not None:
        scales = [arrays[f"calibration.{part}"] for part in CALIBRATION]
        if [part.shape for part in scales[:2]] != [(m + 1,), (n + 1,)] or scales[2].ndim != 1:
            raise ValueError("its calibration does not go with its factors")
        calibration = Calibration(scales[0], scales[1], scales[2].astype(np.float64), int(about["calibration"]))
    params = {OLDER.get(name, str(name)): value for name, value in about["params"].items()}
    if not isinstance(params.get("method"), str):
        raise ValueError("it does not name its method")
    method = registry.saved(params["method"], about["parameters"])
    if method.given or not method.registered:
        params["method"] = method
    for name, value in about["objects"].items():
        if name == "loss":
            params[name] = losses.LOSSES[value["name"]](**{part: value[part] for part in value if part != "name"})
        else:
            side = OLDER.get(name, name)
            params[side] = unpack_side(value, name, arrays, shape[SIDES.index(side)])
    losses.find(params.get("loss", "squared"))  # refuses what is none
    if not isinstance(params.get("n_jobs"), (int, type(None))):
        raise ValueError("its number of threads is none")
    columns, extent = about["columns"], about["range"]
    titles: dict[str, dict[str, Array]] = {}
    for side, size in zip(("row", "col"), shape):
        # Files that were written before have none.
        titles[f"{side}_titles"] = {
            str(name): unpack_text(f"{side}_titles.{number}", arrays, size)
            for number, name in enumerate(about.get("titles", {}).get(side, ()))
        }
    return {
        **titles,
        "setting": Setting(**about["setting"]),
        "params": params,
        "entries": int(about["entries"]),
        "mean": float(about["mean"]),
        "range": None if extent is None else (float(extent[0]), float(extent[1])),
        "calibration": calibration,
        "columns": None if columns is None else tuple(str(name) for name in columns),
        "trials": tuple({str(name): value for name, value in trial.items()} for trial in about["trials"]),
        "lists": {str(name): float(value) for name, value in about.get("lists", {}).items()},
        "lost": {OLDER.get(name, str(name)): str(value) for name, value in about["lost"].items()},
    }


def outcome_of(about: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """What the description says of the fit: the fields of a `Result` beside its factors."""
    saved, kept = dict(about["result"]), about.get("features", {})
    status = saved.pop("status")
    features = tuple(
        unpack_features(kept[side], f"{side}_features", arrays) if side in kept else None for side in ("row", "col")
    )
    return {"status": Status[status], "history": History(**about["history"]), "features": features, **saved}


def current(about: dict[str, Any], entries: int) -> dict[str, Any]:
    """The description of a file of format 1 as it would be written now; `entries` are those that the file holds."""
    params = {name: value for name, value in about["params"].items() if name not in ("unseen", "p", "t")}
    own = {name: about["params"][name] for name in ("p", "t") if about["params"].get(name) is not None}
    low, high = about["range"]
    trials = [{**dict(zip(TRIAL, row)), "status": "finished", "reason": ""} for row in about["tuning"]]
    known = {"parameters": own, "objects": {}, "lost": {}, "entries": entries, "trials": trials, "range": [low, high]}
    return {**about, **known, "params": params, **({} if low <= high else {"range": None})}


def _parameters(model: Contents, arrays: dict[str, Array]) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """The parameters that JSON knows, those that are objects and can be put away, and those that are lost.

    Others that are objects, such as a solver with settings of its own, come back as the default.
    """
    params: dict[str, Any] = {}
    objects: dict[str, Any] = {}
    lost: dict[str, str] = {}
    for name, value in model.params.items():
        if name in NOT_OF_THE_MODEL or name == "method":
            continue
        packed = _pack(name, value, arrays)
        if name == "dtype":
            params[name] = np.dtype(value).name
        elif value is None or plain(value) is not None:
            params[name] = plain(value)
        elif packed is not None:
            objects[name] = packed
        elif name in ESSENTIAL:
            lost[name] = str(value)
    return {**params, "method": model.method}, objects, lost


def _own_parameters(model: Contents) -> dict[str, Any]:
    """Values of the method's parameters that are not its defaults.

    What JSON does not know is left open, "auto": whoever fits on with the model has to give it.
    """
    given = registry.find(model.params["method"]).given
    return {name: "auto" if value is not None and plain(value) is None else plain(value) for name, value in given}


def _pack(name: str, value: Any, arrays: dict[str, Array]) -> dict[str, Any] | None:
    if name in SIDES:
        return pack_side(value, name, arrays)
    known = [known for known, kind in losses.LOSSES.items() if type(value) is kind]
    return {"name": known[0], **vars(value)} if known else None


def plain(value: Any) -> Any:
    """A number, text or None as JSON knows it; of anything else, such as a random generator, nothing is kept."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (tuple, list)):
        parts = [plain(part) for part in value]
        return None if any(new is None and old is not None for new, old in zip(parts, value)) else parts
    return value if isinstance(value, (bool, int, float, str, type(None))) else None
