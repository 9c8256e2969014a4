"""Ray actors that keep blocks of lines, and what happens when one of them dies."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lorank import kernels
from lorank.distributed.parts import Block, Part, PartFile
from lorank.errors import InputError
from lorank.linalg.factors import padded_width
from lorank.types import Array

# One actor may die this often within a half-sweep before the fit is given up: then something kills them by system.
DEATHS = 20


class _Worker:
    """An actor that holds the blocks of one worker.

    Lines in Ray's object store are used where they lie, files are mapped.
    """

    def __init__(self, sides: dict[str, list[Part]], threads: int) -> None:
        workers = kernels.Workers(threads)
        self.blocks = {side: Block([_fetched(part) for part in parts], workers) for side, parts in sides.items()}

    def process(self) -> int:
        """The number of this worker's process."""
        return os.getpid()

    def answer(self, side: str, question: str, *args: Any) -> tuple[float, tuple[Array, ...]]:
        """Seconds of computing, and what `Block` answers."""
        began = time.perf_counter()
        answers = getattr(self.blocks[side], question)(*args)
        return time.perf_counter() - began, answers


class RayEngine:
    """The engine whose lines are held by Ray actors.

    Every question goes to all workers at once: large arrays travel once, through the object store. A worker that dies
    is started again with its parts from where they came from, and asked again: factors are on the driver and in the
    store, so nothing else is lost, and the answer is the same bits.
    """

    def __init__(self, sides: Mapping[str, Sequence[Part]], workers: int, threads: int = 1) -> None:
        self.workers, self.threads = workers, threads
        self.deaths = 0
        # Seconds of the slowest worker, summed over the questions: what remains of the wall time is overhead.
        self.computing = 0.0
        self._runs = {side: _runs(parts, workers) for side, parts in sides.items()}
        self._own = [
            {side: [_stored(part) for part in runs[number]] for side, runs in self._runs.items()}
            for number in range(workers)
        ]
        self._actors = [self._start(number) for number in range(workers)]

    def run(self, side: str, question: str, *shared: Any, sliced: Array | None = None) -> tuple[Array, ...]:
        import ray
        from ray.exceptions import ObjectLostError, OwnerDiedError, RayActorError, RayTaskError

        runs = self._runs[side]
        total = max(run[-1].hi for run in runs if run)
        common = [ray.put(arg) if isinstance(arg, np.ndarray) and arg.nbytes > 1 << 16 else arg for arg in shared]
        asked = {
            number: ([] if sliced is None else [ray.put(sliced[run[0].lo : run[-1].hi])]) + common
            for number, run in enumerate(runs)
            if run
        }
        waiting = {self._ask(number, side, question, args): number for number, args in asked.items()}
        whole: tuple[Array, ...] | None = None
        slowest, deaths = 0.0, 0
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            number = waiting.pop(ready)
            try:
                seconds, answers = ray.get(ready)
            except (RayActorError, ObjectLostError, OwnerDiedError):
                deaths += 1
                if deaths > DEATHS:
                    raise InputError(
                        f"Worker {number} died {DEATHS} times in one step; look for what kills it, such as a lack of "
                        "memory."
                    ) from None
                self._replace(number)
                waiting[self._ask(number, side, question, asked[number])] = number
                continue
            except RayTaskError as error:
                raise (error.cause if isinstance(error.cause, InputError) else error) from None
            slowest = max(slowest, seconds)
            if whole is None:
                whole = tuple(np.empty((total, *part.shape[1:]), part.dtype) for part in answers)
            span = slice(runs[number][0].lo, runs[number][-1].hi)
            for target, part in zip(whole, answers):
                target[span] = part
        self.deaths += deaths
        self.computing += slowest
        assert whole is not None
        return whole

    def _ask(self, number: int, side: str, question: str, args: list[Any]) -> Any:
        from ray.exceptions import RayActorError

        try:
            return self._actors[number].answer.remote(side, question, *args)
        except RayActorError:
            self._replace(number)
            return self._actors[number].answer.remote(side, question, *args)

    def _replace(self, number: int) -> None:
        import ray

        ray.kill(self._actors[number])  # it may be only out of reach, and would keep its CPUs
        self._actors[number] = self._start(number)

    def _start(self, number: int) -> Any:
        import ray

        worker: Any = ray.remote(_Worker)
        # Over the nodes, so that each brings its memory.
        options = {"num_cpus": self.threads, "scheduling_strategy": "SPREAD"}
        return worker.options(**options).remote(self._own[number], self.threads)

    def close(self) -> None:
        """End the actors and let go of their data."""
        import ray

        for actor in self._actors:
            ray.kill(actor)
        self._actors, self._own = [], []


def check_cluster(
    shape: tuple[int, int], nnz: int, rank: int, dtype: npt.DTypeLike, workers: int, threads: int
) -> None:
    """Refuse a cluster that the fit would not fit in, before anything is started, with the estimate."""
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if there.get("CPU", 0) < workers * threads:
        raise InputError(
            f"{workers} workers of {threads} threads need {workers * threads} CPUs and Ray has "
            f"{there.get('CPU', 0):g}; give fewer workers or a larger cluster."
        )
    needed, free = memory_estimate(shape, nnz, rank, dtype, workers), there.get("memory", np.inf)
    if needed > free:
        raise InputError(
            f"This fit needs about {needed / 2**30:.1f} GiB over all workers and Ray has {free / 2**30:.1f} GiB; "
            "give a larger cluster, a smaller rank, or dtype='float32'."
        )


def memory_estimate(shape: tuple[int, int], nnz: int, rank: int, dtype: npt.DTypeLike, workers: int) -> float:
    """Bytes over all processes: the data by rows and by columns, one factor at each worker, five pairs at the driver
    (now, before, extrapolated, next, and one on its way), and 150 MB for every process."""
    item = np.dtype(dtype).itemsize
    data = 2.0 * nnz * (item + (4 if max(shape, default=0) < 2**31 else 8))
    factor = item * padded_width(rank)
    return data + workers * factor * max(shape, default=0) + 5 * factor * sum(shape) + (workers + 1) * 150e6


def _runs(parts: Sequence[Part], workers: int) -> list[list[Part]]:
    """A run of parts for each worker, balanced by entries; some are empty where there are fewer parts than workers."""
    weights = np.array([part.entries + part.hi - part.lo for part in parts], float)
    middle = np.cumsum(weights) - weights / 2
    owner = np.minimum((middle / weights.sum() * workers).astype(int), workers - 1)
    return [[part for part, who in zip(parts, owner) if who == number] for number in range(workers)]


def _stored(part: Part) -> Part:
    import ray

    return part if isinstance(part.source, PartFile) else replace(part, source=ray.put(part.source))


def _fetched(part: Part) -> Part:
    import ray

    return replace(part, source=ray.get(part.source)) if isinstance(part.source, ray.ObjectRef) else part
