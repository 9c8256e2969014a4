"""Factors in shards: what the driver knows of a factor whose lines belong to workers, and the file of a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import replacing
from lorank.kernels import aligned_zeros, checksum, unlocked
from lorank.linalg import moved, turned
from lorank.types import Array

# Bytes of the checksum that a shard's file ends with.
CHECKSUM = 8


@dataclass(frozen=True, eq=False)
class FactorShards:
    """A padded factor (lines, q) whose shards, one for each part of its side, belong to the owners of the parts.

    The driver has its name, and not its numbers; arithmetic gives other names. `recipe` says how an owner makes a shard
    from shards of the same lines: see `made_shard`. Without one the shard was
    computed from the other side, and is in a file. So an owner that takes the place of one that died can have any
    shard that is still referred to.
    """

    name: str
    side: str
    lines: int
    k: int
    width: int
    kind: str
    recipe: tuple[Any, ...] | None = None
    engine: Any = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "engine": None}

    def __len__(self) -> int:
        return self.lines

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.kind)

    @property
    def shape(self) -> tuple[int, int]:
        return self.lines, self.width

    def moved(self, old: FactorShards, momentum: float) -> FactorShards:
        """This one + momentum (this one - old)."""
        return self._made("moved", self, old, momentum)

    def turned(self, k: int, A: Array) -> FactorShards:
        """F A in the first k columns, the others as they are."""
        return self._made("turned", self, A.astype(self.dtype))

    def shifted(self, shift: float) -> FactorShards:
        """The biases less a constant."""
        return self._made("shifted", self, shift)

    def weighed(self, weights: FactorShards) -> FactorShards:
        """With the roots of the lines' weights (lines, 1) in column k + 1, so that they travel with the lines."""
        return self._made("weighed", self, weights)

    @property
    def is_quick(self) -> bool:
        """Whether a shard comes of files by arithmetic on single numbers, that costs hardly more than to copy it."""
        if self.recipe is None:
            return True
        operation, *args = self.recipe
        return operation != "turned" and all(arg.is_quick for arg in args if isinstance(arg, FactorShards))

    def is_finite(self) -> bool:
        # A Gram is finite only if every number of the factor is.
        return bool(np.isfinite(self.engine.summary(self)).all())

    @property
    def gram(self) -> Array:
        """F^T F, k x k."""
        gram: Array = self.engine.summary(self)[2:]
        return gram.reshape(self.k, self.k)

    @property
    def bias_sums(self) -> tuple[float, float]:
        """Sum of the biases, and of their squares."""
        total, squares = self.engine.summary(self)[:2].tolist()
        return total, squares

    def save_shards(self, folder: Path) -> dict[str, Any]:
        """Have the owners write their shards there; what `Engine.load_shards` finds them by."""
        folder.mkdir(exist_ok=True)
        self.engine.run(self.side, "save", self, str(folder.absolute()))  # workers have working folders of their own
        return {name: getattr(self, name) for name in ("name", "side", "lines", "k", "width", "kind")}

    def _made(self, operation: str, *args: Any) -> FactorShards:
        made: FactorShards = self.engine.new(self, (operation, *args))
        return made


def made_shard(factor: FactorShards, given: list[Any]) -> Array:
    """A shard by its factor's recipe; shards stand in place of the factors among the recipe's arguments."""
    assert factor.recipe is not None
    if factor.recipe[0] == "moved":
        return moved(*given)
    side, by = given
    if factor.recipe[0] == "turned":
        return turned(side, factor.k, by)
    if factor.recipe[0] == "weighed":
        weighed: Array = side.copy()
        weighed[:, factor.k + 1] = np.sqrt(by[:, 0])
        return weighed
    shifted: Array = side.copy()
    shifted[:, factor.k] -= side.dtype.type(by)
    return shifted


def copy_from_files(
    folder: str | Path, factor: FactorShards, part: int, lines: int, chosen: Array | None, out: Array
) -> None:
    """Put lines of a shard, or all, that another process on this machine owns into an array.

    They come from what that has written, or are made of it: the recipe of a factor that `is_quick` goes line by line.
    """
    path = shard_file(folder, factor.name, part)
    if factor.recipe is not None:
        _, *given = factor.recipe
        for place, arg in enumerate(given):
            if isinstance(arg, FactorShards):
                given[place] = np.empty((len(out), arg.width), arg.dtype)
                copy_from_files(folder, arg, part, lines, chosen, given[place])
        out[:] = made_shard(factor, given)
    elif chosen is None:
        read_lines(path, out)  # quicker than by a mapping
    else:
        try:
            there = np.memmap(path, factor.dtype, "r", shape=(lines, factor.width))
        except OSError:
            raise _lost(path) from None
        except ValueError:
            raise _damaged(path) from None
        _take(there, chosen, out)


def gather(ends: Sequence[int], shard: Callable[[int], Array], positions: Array | None, out: Array) -> None:
    """Put lines at ascending positions, or all, of shards that follow each other into an array.

    The shard at a place has the lines from ends[place] to ends[place + 1]; it is asked for only if some are needed.
    """
    for place, chosen, span in in_shards(ends, positions):
        if chosen is None:
            out[span] = shard(place)
        else:
            _take(shard(place), chosen, out[span])


def in_shards(ends: Sequence[int], positions: Array | None) -> Iterator[tuple[int, Array | None, slice]]:
    """Of each shard that has some of the lines: its place, which of its own lines they are, and where they go."""
    wanted = np.subtract(ends, ends[0]) if positions is None else np.searchsorted(positions, ends)
    for place, (first, last) in enumerate(pairwise(wanted.tolist())):
        if last > first:
            chosen = None if positions is None else positions[first:last] - ends[place]
            yield place, chosen, slice(first, last)


def _take(shard: Array, chosen: Array, out: Array) -> None:
    np.take(shard, chosen, axis=0, out=out, mode="clip")  # they are inside; to say so spares numpy a copy


def shard_file(folder: str | Path, name: str, part: int) -> Path:
    """Where the shard of a part is."""
    return Path(folder) / f"{name}-{part}.shard"


def spare_file(folder: str | Path, side: str, part: int) -> Path:
    """Where the file of a shard of a part that is needed no more waits to be written over."""
    return Path(folder) / f"spare-{side}-{part}.shard"


def set_aside(folder: str | Path, name: str, side: str, part: int) -> None:
    """Let the file of a shard that is needed no more, if there is one, be written over."""
    with suppress(FileNotFoundError):
        shard_file(folder, name, part).replace(spare_file(folder, side, part))


def write_shard(path: Path, shard: Array, *, sync: bool = False, over: Path | None = None) -> None:
    """A shard and its checksum, whole or not at all; with `sync` also if the machine stops; `over` a spare file."""
    content = np.ascontiguousarray(shard)
    found = np.array([checksum(unlocked(content.reshape(-1).view(np.uint8)))], np.uint64)
    with replacing(path, sync=sync, over=over) as beside, open(beside, "rb+") as file:
        file.writelines([content.data, found.data])
        file.truncate()


def read_shard(path: Path, lines: int, width: int, kind: str) -> Array:
    """A shard in memory, if the file is what was written."""
    shard: Array = aligned_zeros((lines, width), np.dtype(kind))
    if read_lines(path, shard) != checksum(shard.reshape(-1).view(np.uint8)):
        raise _damaged(path)
    return shard


def read_lines(path: Path, out: Array) -> int:
    """Put all lines of a shard's file into an array; the checksum that they ought to have.

    It is for files whose writer has died: what a process that is alive has written a moment ago is taken as it is.
    """
    found = np.zeros(1, np.uint64)
    try:
        with open(path, "rb") as file:
            read = file.readinto(out.reshape(-1).view(np.uint8).data), file.readinto(found.view(np.uint8).data)
            more = file.read(1)
    except OSError:
        raise _lost(path) from None
    if read != (out.nbytes, CHECKSUM) or more:
        raise _damaged(path)
    return int(found[0])


def _lost(path: Path) -> InputError:
    return InputError(f"The shard {path} of the factors is gone; fit again.")


def _damaged(path: Path) -> InputError:
    return InputError(f"The shard {path} of the factors is damaged; fit again.")
