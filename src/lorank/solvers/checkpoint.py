"""Checkpoints: the state of a fit on disk, written whole or not at all."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lorank.errors import InputError

S = TypeVar("S")


@dataclass
class Checkpoint:
    """A file that a fit can go on from; at most one is written every `seconds`.

    The fingerprint names what is being fitted: going on with other data or parameters is refused.
    """

    path: Path
    fingerprint: str = ""
    seconds: float = 30.0
    _last: float = field(default_factory=time.monotonic, repr=False)

    def exists(self) -> bool:
        return Path(self.path).exists()

    def offer(self, state: Any, best: Any, progress: dict[str, Any]) -> None:
        """Save, unless the last time was a moment ago."""
        if time.monotonic() - self._last >= self.seconds:
            self.save(state, best, progress)

    def save(self, state: Any, best: Any, progress: dict[str, Any]) -> None:
        """Write beside the file, then put it in its place: a crash leaves the old one or the new one, never a half."""
        arrays: dict[str, Any] = {}
        meta = {"fingerprint": self.fingerprint, "progress": progress, "same": best is state}
        meta["state"] = _flatten(state, "state", arrays)
        if best is not state:
            meta["best"] = _flatten(best, "best", arrays)
        beside = Path(f"{self.path}.part")
        with open(beside, "wb") as file:
            np.savez(file, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)
        self._last = time.monotonic()

    def load(self, like: S) -> tuple[S, S, dict[str, Any]]:
        """State, best state and progress, as they were; `like` is a state of the same solver and problem."""
        try:
            with np.load(self.path, allow_pickle=False) as file:
                meta = json.loads(file["meta"].tobytes().decode())
                arrays = {name: file[name] for name in file.files if name != "meta"}
        except Exception as error:
            raise InputError(f"The checkpoint {self.path} cannot be read ({error}); remove it to start anew.") from None
        if meta["fingerprint"] != self.fingerprint:
            raise InputError(
                f"The checkpoint {self.path} belongs to another fit (other data or parameters); "
                "remove it to start anew."
            )
        state = _restore(like, meta["state"], "state", arrays)
        best = state if meta["same"] else _restore(like, meta["best"], "best", arrays)
        return state, best, meta["progress"]

    def remove(self) -> None:
        Path(self.path).unlink(missing_ok=True)


def _flatten(state: Any, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Plain numbers of a dataclass as a dict; its arrays go into `arrays` under prefix.field."""
    numbers: dict[str, Any] = {}
    for entry in fields(state):
        value, name = getattr(state, entry.name), f"{prefix}.{entry.name}"
        if is_dataclass(value):
            numbers[entry.name] = _flatten(value, name, arrays)
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            numbers[entry.name] = value
    return numbers


def _restore(like: Any, numbers: dict[str, Any], prefix: str, arrays: dict[str, Any]) -> Any:
    """The dataclass that `_flatten` took apart."""
    values: dict[str, Any] = {}
    for entry in fields(like):
        name = f"{prefix}.{entry.name}"
        if is_dataclass(getattr(like, entry.name)):
            values[entry.name] = _restore(getattr(like, entry.name), numbers[entry.name], name, arrays)
        else:
            values[entry.name] = arrays[name] if name in arrays else numbers[entry.name]
    return replace(like, **values)
