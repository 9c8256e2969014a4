"""Checkpoints: the state of a fit on disk, written whole or not at all."""

from __future__ import annotations

import json
import shutil
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from lorank.errors import InputError, one_line
from lorank.files import claim, refuse, sha256_of_arrays, write_npz

S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])

# Begins the names of the arrays that are carried.
_CARRIED = "carried."
# What is known by a checksum, which would tell a reader nothing.
_CHECKSUMS = {"data": "with other data", "validation": "with another validation set"}


@dataclass
class Checkpoint:
    """A file that a fit can go on from; at most one is written every `seconds`.

    The fingerprint names what is being fitted: going on with other data or parameters is refused. What was chosen
    before the loop began is `carried` (plain numbers and text) and `arrays`; every save takes both along.

    Arrays that others keep in shards have a method `save_shards(folder)`, which has them written beside the file, and
    gives what `load_shards(folder, saved)` finds them by.
    """

    path: Path
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 30.0
    carried: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    load_shards: Callable[[Path, dict[str, Any]], Any] | None = None
    _last: float = field(default_factory=time.monotonic, repr=False)

    def __post_init__(self) -> None:
        self.fingerprint = {name: str(value) for name, value in self.fingerprint.items()}

    def exists(self) -> bool:
        """Whether there is a state to go on from."""
        return "state" in self._read()[0]

    def recall(self) -> bool:
        """Take `carried` and `arrays` from the file; False if there is no file."""
        meta, arrays = self._read()
        self.carried = meta.get("carried", {})
        own = {name: array for name, array in arrays.items() if name.startswith(_CARRIED)}
        self.arrays = {name.removeprefix(_CARRIED): array for name, array in self._loaded(own).items()}
        return bool(meta)

    @property
    def due(self) -> bool:
        """Whether the last save is long enough ago."""
        return time.monotonic() - self._last >= self.seconds

    def offer(self, state: Any, best: Any, progress: dict[str, Any]) -> None:
        """Save, unless the last time was a moment ago."""
        if self.due:
            self.save(state, best, progress)

    def save(self, state: Any, best: Any, progress: dict[str, Any]) -> None:
        """The state of a loop, and what is carried."""
        arrays: dict[str, Any] = {}
        meta = {"progress": progress, "same": best is state, "state": _flatten(state, "state", arrays)}
        if best is not state:
            meta["best"] = _flatten(best, "best", arrays)
        self._write(meta, arrays)

    def save_carried(self) -> None:
        """What is carried, before there is any state."""
        self._write({}, {})

    def load(self, like: S) -> tuple[S, S, dict[str, Any]]:
        """State, best state and progress, as they were; `like` is a state of the same solver and problem."""
        meta, arrays = self._read()
        arrays = self._loaded({name: array for name, array in arrays.items() if not name.startswith(_CARRIED)})
        try:
            state = _restore(like, meta["state"], "state", arrays)
            best = state if meta["same"] else _restore(like, meta["best"], "best", arrays)
        except KeyError as error:
            raise InputError(
                f"The checkpoint {self.path} was written by another version or solver (it has no {error}); "
                "remove it to start anew."
            ) from None
        return state, best, meta["progress"]

    def remove(self) -> None:
        remove_checkpoint(self.path)

    def _loaded(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Arrays as they were, those that others keep among them."""
        load, folder = self.load_shards, shards_folder(self.path)
        if load is None:
            return arrays
        return {name: load(folder, array) if isinstance(array, dict) else array for name, array in arrays.items()}

    def _write(self, meta: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Replace the file whole or not at all.

        Hours of work do not end because a disk is full: that is a warning, and the next save tries again.
        """
        meta = {"fingerprint": self.fingerprint, "carried": self.carried, **meta}
        arrays = {**arrays, **{_CARRIED + name: array for name, array in self.arrays.items()}}
        try:
            shards = {name: arrays.pop(name) for name in list(arrays) if hasattr(arrays[name], "save_shards")}
            meta["shards"] = {name: array.save_shards(shards_folder(self.path)) for name, array in shards.items()}
            text = json.dumps(meta)
            # Compiled code trusts the state: damage must be seen before.
            texts = {"meta": text, "checksum": sha256_of_arrays(arrays, text)}
            arrays |= {name: np.frombuffer(part.encode(), np.uint8) for name, part in texts.items()}
            write_npz(self.path, arrays)
            _remove_shards(shards_folder(self.path), {saved["name"] for saved in meta["shards"].values()})
        except InputError as error:
            reason = getattr(error.__cause__, "strerror", None) or error.__cause__
            warnings.warn(
                f"The checkpoint {self.path} cannot be written ({reason}); the fit goes on without.", stacklevel=2
            )
        self._last = time.monotonic()

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the file holds, if there is one and it is of this fit."""
        if not Path(self.path).exists():
            return {}, {}
        if not zipfile.is_zipfile(self.path):
            raise InputError(f"{self.path} is no checkpoint, or a damaged one; give another name, or remove it.")
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            text, checksum = (arrays.pop(name).tobytes().decode() for name in ("meta", "checksum"))
            if checksum != sha256_of_arrays(arrays, text):
                raise ValueError("its checksum is wrong")
            meta: dict[str, Any] = json.loads(text)
            before: dict[str, str] = meta["fingerprint"]
            arrays |= meta.get("shards", {})
        except Exception as error:
            raise InputError(
                f"The checkpoint {self.path} cannot be read ({one_line(error)}); remove it to start anew."
            ) from None
        if before != self.fingerprint:
            raise InputError(
                f"The checkpoint {self.path} belongs to another fit, {_difference(before, self.fingerprint)}; "
                "go on as you began, or remove it or name another to start anew."
            )
        return meta, arrays


def shards_folder(path: str | Path) -> Path:
    """Where the shards of a checkpoint are: beside its file."""
    return Path(f"{path}.shards")


def remove_checkpoint(path: str | Path) -> None:
    """Remove the file of a checkpoint, and its shards."""
    Path(path).unlink(missing_ok=True)
    shutil.rmtree(shards_folder(path), ignore_errors=True)


def _remove_shards(folder: Path, names: set[str]) -> None:
    """Remove the shards that the file, which is written, refers to no more; their names end in the part's number."""
    for path in folder.glob("*-*.shard"):
        if path.name.rpartition("-")[0] not in names:
            path.unlink(missing_ok=True)


@contextmanager
def claimed(path: str | Path | None) -> Iterator[None]:
    """Hold a checkpoint's path for the time of the block: of two fits that save to one file, the second is refused."""
    if path is None:
        yield
        return
    refuse(path, "A checkpoint")
    path = Path(path)
    with claim(path.with_name(f".{path.name}.lock"), f"The checkpoint {path}"):
        yield


def claiming(fit: F) -> F:
    """A fit that holds the path that it is given as `checkpoint` while it runs."""

    @wraps(fit)
    def run(*args: Any, checkpoint: str | Path | None = None, **more: Any) -> Any:
        with claimed(checkpoint):
            return fit(*args, checkpoint=checkpoint, **more)

    return cast(F, run)


def _difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What is not the same, in words."""
    if before.keys() != now.keys():
        return "of another kind"
    changed = [name for name in before if before[name] != now[name]]
    return " and ".join(
        _CHECKSUMS.get(name) or f"with {name} {_short(before[name])} and not {_short(now[name])}" for name in changed
    )


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _flatten(state: Any, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Plain numbers of a dataclass as a dict; its arrays go into `arrays` under prefix.field."""
    numbers: dict[str, Any] = {}
    for entry in fields(state):
        value, name = getattr(state, entry.name), f"{prefix}.{entry.name}"
        if isinstance(value, np.ndarray) or hasattr(value, "save_shards"):
            arrays[name] = value
        elif isinstance(value, tuple) and all(hasattr(each, "save_shards") for each in value):
            arrays |= {f"{name}.{number}": each for number, each in enumerate(value)}
            numbers[entry.name] = len(value)
        elif is_dataclass(value):
            numbers[entry.name] = _flatten(value, name, arrays)
        else:
            numbers[entry.name] = value
    return numbers


def _restore(like: Any, numbers: dict[str, Any], prefix: str, arrays: dict[str, Any]) -> Any:
    """The dataclass that `_flatten` took apart."""
    values: dict[str, Any] = {}
    for entry in fields(like):
        name = f"{prefix}.{entry.name}"
        if name in arrays:
            values[entry.name] = arrays[name]
        elif isinstance(getattr(like, entry.name), tuple) and isinstance(numbers[entry.name], int):
            values[entry.name] = tuple(arrays[f"{name}.{number}"] for number in range(numbers[entry.name]))
        elif is_dataclass(getattr(like, entry.name)):
            values[entry.name] = _restore(getattr(like, entry.name), numbers[entry.name], name, arrays)
        else:
            values[entry.name] = numbers[entry.name]
    return replace(like, **values)
