"""Where a fit runs: in this process, on Ray, or from disk."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

BackendOption = Annotated[str, typer.Option(help="local, or ray: in worker processes, here or on a cluster.")]
OutOfCoreOption = Annotated[
    bool, typer.Option("--out-of-core", help="For parquet larger than memory: blocks are kept on disk.")
]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="Worker processes on Ray; 2 if not given.")]
AddressOption = Annotated[str | None, typer.Option(help="Of a Ray cluster; without it one is started here.")]
WorkFolderOption = Annotated[
    Path | None, typer.Option(help="Where blocks go; on a cluster, storage that all nodes share.")
]

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Place:
    """What the options say, checked together."""

    on_ray: bool
    by_parts: bool
    workers: int
    address: str | None
    work_folder: Path | None

    @classmethod
    def of(
        cls,
        table: Path,
        backend: str,
        out_of_core: bool,
        workers: int | None,
        address: str | None,
        work_folder: Path | None,
    ) -> Place:
        if backend not in ("local", "ray"):
            raise typer.BadParameter(f"give local or ray, not {backend!r}.", param_hint="--backend")
        on_ray = backend == "ray"
        by_parts = out_of_core or table.is_dir() or (on_ray and table.suffix.lower() in PARQUET)
        if on_ray and out_of_core:
            raise typer.BadParameter("give either --out-of-core or --backend ray.")
        if not on_ray and (workers is not None or address is not None):
            raise typer.BadParameter("--workers and --address go with --backend ray.")
        if work_folder is not None and not by_parts:
            raise typer.BadParameter("--work-folder is for folders of parquet files.")
        return cls(on_ray, by_parts, workers or 2, address, work_folder)

    def joined(self) -> AbstractContextManager[None]:
        """The cluster for a fit of data in memory; without an address the fit starts its own."""
        if self.address is None:
            return nullcontext()
        from lorank.distributed import open_ray

        return open_ray(self.address)

    def options(self, threads: int | None) -> dict[str, Any]:
        """What `distributed.fit` is told."""
        from lorank.kernels.parallel import available_cores

        return {
            "backend": "ray" if self.on_ray else "out-of-core",
            "address": self.address,
            "work_folder": self.work_folder,
            "workers": self.workers if self.on_ray else 1,
            "threads": threads or (1 if self.on_ray else available_cores()),
        }
