"""Beyond one machine, and beyond its memory: the same kernels on blocks of lines that other processes or files keep.

    >>> from lorank import distributed
    >>> model = distributed.fit("ratings/", row="user", col="item", value="rating", rank=20, lam=5.0, workers=2)

Lines are independent, so a half-sweep over blocks gives the bits of a half-sweep over everything. Nothing here is a
solver: `BlockProblem` is a `Problem` whose line regressions are done by an engine, either Ray actors or
this process reading memory-mapped blocks one after the other.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "ONE_FILE": "exporting",
    "backend": "ray_backend",
    "files_of": "path",
    "fit": "folder_fit",
    "open_ray": "cluster",
    "over_ray": "problem",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"lorank.distributed.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lorank.distributed' has no attribute {name!r}")
