"""Where a folder is fitted: on Ray or in this process, in which folder its blocks are, and whether there is room."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lorank.distributed.actors import RayEngine
from lorank.distributed.cluster import check_cluster, machine_number, open_ray, remove_stale, temporary_folder
from lorank.distributed.engines import Engine, LocalEngine
from lorank.distributed.nodes import check_nodes
from lorank.distributed.prepare import Prepared
from lorank.errors import InputError
from lorank.files import refuse, url_of
from lorank.linalg.factors import padded_width
from lorank.memory import free_memory

# Pairs of factors that are in files at a time: now, before, next, the best so far, and those on their way.
SHARD_FILES = 5


@dataclass(frozen=True)
class FolderBackend:
    """Ray with some workers of some threads, or else this process; `folder` is for blocks and shards."""

    on_ray: bool
    workers: int
    threads: int
    folder: Path
    dtype: str
    budget: float = np.inf
    address: str | None = None

    def check_disk(self, what: str, needed: int) -> None:
        """Refuse a work folder that what is to be written there does not fit in."""
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise InputError(
                f"{what} need about {needed / 2**30:.1f} GiB and {self.folder.parent} has {free / 2**30:.1f} GiB free; "
                "give a larger work folder."
            )

    def check_blocks(self, entries: int, numbers: int) -> None:
        """Refuse a disk without room for the blocks of so many entries of a value, and a weight if there is one."""
        # Entries by rows and by columns on their way, and one side.
        size = np.dtype(self.dtype).itemsize
        self.check_disk(f"The blocks of {entries} entries", entries * (3 * size * numbers + 20))

    def check_factors(self, shape: tuple[int, int], entries: int, rank: int, drawn: int = 0, kept: int = 0) -> None:
        """Refuse factors that there is no room for on Ray's nodes or on disk, with draws of so many bytes, and so many
        pairs of factors of other fits.
        """
        if self.on_ray:
            about = (self.dtype, self.workers, self.threads, self.budget)
            check_cluster(shape, entries, rank, *about, drawn=drawn, kept=kept)
            pairs = (SHARD_FILES + kept) * sum(shape) * padded_width(rank) * np.dtype(self.dtype).itemsize
            self.check_disk(f"Factors of {shape[0]} x {shape[1]}", pairs + 2 * drawn)

    def largest_rank(self, shape: tuple[int, int], entries: int, rank: int, kept: int) -> int:
        """The largest rank that comes of doubling and that there is room for, with so many pairs of other fits."""
        try:
            while 2 * rank <= min(shape):
                self.check_factors(shape, entries, 2 * rank, kept=kept)
                rank *= 2
        except InputError:
            pass
        return rank

    def started(self, entries: int, rank: int) -> AbstractContextManager[None]:
        """Ray for the time of the block, if it is on Ray."""
        if not self.on_ray:
            return nullcontext()
        # Factors of both sides on their way; ids are not known yet, so every entry's row might be new.
        # The store takes memory as it fills, and a factor that it has no room for goes by way of the disk.
        store = min(max(1 << 30, free_memory() // 4), 16 * entries * padded_width(rank))
        return open_ray(self.address, self.workers * self.threads, store)

    def check_nodes(self, files: Sequence[str], entries: int, rank: int) -> None:
        """Refuse a cluster that is too small, or one of whose nodes does not see the files."""
        if self.on_ray:
            check_cluster((0, 0), entries, rank, self.dtype, self.workers, self.threads)
            check_nodes([path for path in files if url_of(path) is None], str(self.folder))

    def run(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What a function gives for each job."""
        return (_on_ray if self.on_ray else _in_turn)(function, jobs)

    @contextmanager
    def engine(self, prepared: Prepared) -> Iterator[Engine]:
        """The engine of these parts for the time of the block."""
        engine: Engine
        if self.on_ray:
            engine = RayEngine(prepared.sides, self.workers, self.threads, str(self.folder), self.budget)
        else:
            engine = LocalEngine(prepared.sides, self.workers * self.threads, self.budget)
        engine.rebuild = prepared.rebuild
        try:
            yield engine
        finally:
            engine.close()


@contextmanager
def temporary(parent: str | Path | None) -> Iterator[Path]:
    """A folder for blocks, removed at the end; those of processes that were killed are removed first."""
    if parent is not None:
        refuse(parent, "The work folder")
    if parent is not None and not Path(parent).is_dir():
        raise InputError(f"The work folder {parent} does not exist; make it first.")
    kind = f"lorank-blocks-{machine_number()}"
    remove_stale(kind, parent)
    with temporary_folder(kind, parent) as folder:
        yield folder


def _in_turn(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [function(*job) for job in jobs]


def _on_ray(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run each job as a Ray task; one whose process is killed runs again.

    If one fails, those that have begun end before its error is raised, so that none writes into a folder that is being
    removed. They are not cancelled: a task that ends while it is being cancelled aborts the driver's process (Ray 2.60:
    "Tried to complete task that was not pending"). Hence also no more tasks at a time than there are CPUs.
    """
    import ray
    from ray.exceptions import RayTaskError

    task: Any = ray.remote(function).options(max_retries=20, num_cpus=1)
    cpus = max(int(ray.cluster_resources().get("CPU", 1)), 1)  # type: ignore[no-untyped-call]
    answers: list[Any] = [None] * len(jobs)
    running: dict[Any, int] = {}
    try:
        for number, job in enumerate(jobs):
            running[task.remote(*job)] = number
            while len(running) >= (cpus if number + 1 < len(jobs) else 1):
                (ready,), _ = ray.wait(list(running), num_returns=1)
                answers[running.pop(ready)] = ray.get(ready)
        return answers
    except BaseException as error:
        if running:
            ray.wait(list(running), num_returns=len(running), timeout=60)
        cause = error.cause if isinstance(error, RayTaskError) else None
        raise (cause if isinstance(cause, InputError) else error) from None
