"""Starting Ray on this machine, or joining a cluster, and leaving nothing behind."""

from __future__ import annotations

import ipaddress
import logging
import math
import os
import platform
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from lorank.distributed.nodes import check_nodes
from lorank.errors import InputError, one_line
from lorank.files import crc32, try_claim
from lorank.kernels.parallel import available_cores
from lorank.linalg import padded_width
from lorank.problems.factored import LARGE_RANK

# Threads of workers that a Ray on this machine may have for each core: more of them only wait, and take memory.
MOST = 4
# Ray asks for at least 75 MB.
LEAST_STORE = 100 << 20
# What Ray's names leave of the length of a socket's path.
LONGEST_PARENT = 14
LOOPBACK = "127.0.0.1"
# The first release of Ray that can ask for a token.
OLDEST = (2, 52)
# What Ray reads when it is imported: whether it listens at all addresses, and whether it asks for a token.
SETTINGS = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_AUTH_MODE"}
# The file by which a process claims a temporary folder, and how long a folder without it is left alone.
LOCK, DAY = ".lock", 86400.0
# Pairs of factors that workers hold at most: now, before, extrapolated and next; from a large rank on, where
# half-steps have a frame of their own, two more.
PAIRS = 4, 6
# Those of other fits that a search on all entries keeps beside them: of the fit with the least error, of the one whose
# lam is moved, of the best that came of that, and of the last.
KEPT = 4
# Bytes of a process with its libraries, and of lists of lines for each entry.
PROCESS, LISTED = 250e6, 8


@contextmanager
def open_ray(address: str | None = None, cpus: int = 2, store_bytes: int = 0) -> Iterator[None]:
    """Ray for the time of the block.

    Parameters
    ----------
    address : str, optional
        Of a cluster to join. Without it a Ray that this process has already joined is used, or else one is started
        here: it listens on the loopback only, and is gone with its folder at the end, whatever the end is.
    cpus : int
        What a Ray that is started here may use.
    store_bytes : int
        Size of its object store.
    """
    late = "ray" in sys.modules and not os.environ.keys() >= SETTINGS
    if address is None and not late:
        _prepare_environment()
    try:
        import ray
    except ImportError:
        raise InputError("The Ray backend needs Ray: pip install 'lorank[ray]'.") from None
    if ray.is_initialized():
        yield
        return
    if address is not None:
        _check_reachable(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"The Ray cluster at {address} cannot be joined ({str(error).splitlines()[0]}).") from None
        try:
            check_nodes()
            yield
        finally:
            ray.shutdown()
        return
    if late:
        raise InputError(
            "Ray was imported before lorank could close it to others, by settings that Ray reads when it is imported; "
            "start it yourself by ray.init(), or fit before you import ray."
        )
    _check_version(ray.__version__)
    if cpus > MOST * available_cores():
        raise InputError(
            f"This machine has {available_cores()} cores, and {cpus} threads of workers were asked for; ask for fewer "
            "workers, or give the address of a cluster."
        )
    # Sockets go there, whose paths have at most 107 bytes.
    parent = tempfile.gettempdir() if len(tempfile.gettempdir()) <= LONGEST_PARENT else "/tmp"
    remove_stale("lorank-ray", parent)
    with temporary_folder("lorank-ray", parent) as folder:
        try:
            try:
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    include_dashboard=False,
                    object_store_memory=max(store_bytes, LEAST_STORE),
                    _temp_dir=str(folder / "r"),  # which Ray opens to everybody; nobody else gets into ours
                    _node_ip_address=LOOPBACK,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except Exception as error:  # Ray raises just that where the machine is too busy
                raise InputError(f"Ray cannot be started ({one_line(error)}); try again, or without it.") from None
            check_listeners()
            yield
        finally:
            ray.shutdown()


def _check_version(version: str) -> None:
    """Refuse a Ray that knows no tokens: anybody on this machine could run code in it."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < OLDEST:
        raise InputError(f"Ray {version} asks nobody for a token; pip install 'ray>={'.'.join(map(str, OLDEST))}'.")


def check_listeners() -> None:
    """Refuse to go on with a Ray that can be reached from elsewhere: all of its sockets must be on the loopback.

    Looked up and not believed, since where Ray listens is decided by settings that change from release to release.
    """
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        try:
            sockets = process.net_connections("inet") if hasattr(process, "net_connections") else process.connections()
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        for one in sockets:
            open_to = one.laddr.ip if one.status == psutil.CONN_LISTEN and process != own else LOOPBACK
            place = ipaddress.ip_address(open_to)
            if not (getattr(place, "ipv4_mapped", None) or place).is_loopback:
                raise InputError(
                    f"Ray's {process.name()} listens at {open_to}:{one.laddr.port}, where other machines reach it; "
                    "start Ray yourself, or give the address of a cluster that you trust."
                )


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody answers; Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto" and the like, which Ray looks up
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise InputError(f"The Ray cluster at {address} cannot be joined ({error.strerror or error}).") from None


def _prepare_environment() -> None:
    """What Ray reads when it is imported: to listen on the loopback instead of every address, to report nothing, to ask
    for a token, ours alone, so that other users of this machine cannot talk to it and no token is left in a file, and
    to start workers as nice as this process: at 15, Ray's default, they hardly get a core beside anything else."""
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))


@contextmanager
def temporary_folder(kind: str, parent: str | Path | None = None) -> Iterator[Path]:
    """A new temporary folder, which nobody else may look into, claimed by a lock for the time of the block."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=parent)).absolute()
    except OSError as error:
        place = parent or "the folder for temporary files"
        raise InputError(f"No folder can be made in {place} ({error.strerror or error}); give another one.") from None
    held = try_claim(folder / LOCK)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            held.release()


def remove_stale(kind: str, parent: str | Path | None = None) -> None:
    """Remove folders of processes that were killed before they could do it themselves: nobody holds their lock.

    A process number would say nothing: another container has numbers of its own. A folder without a lock may be about
    to get one, and is left for a day.
    """
    for folder in Path(parent or tempfile.gettempdir()).glob(f"{kind}-*-*"):
        with suppress(OSError):
            if not (folder / LOCK).exists():
                if time.time() - folder.stat().st_mtime > DAY:
                    shutil.rmtree(folder)
                continue
            held = try_claim(folder / LOCK)
            if held is not None:
                shutil.rmtree(folder, ignore_errors=True)
                held.release()


def machine_number() -> str:
    """A number of this machine: storage may be shared by many, each with process numbers of its own."""
    return f"{crc32(platform.node().encode()):08x}"


def check_cluster(
    shape: tuple[int, int],
    nnz: int,
    rank: int,
    dtype: npt.DTypeLike,
    workers: int,
    threads: int,
    budget: float = np.inf,
    drawn: int = 0,
    kept: int = 0,
) -> None:
    """Refuse a cluster that the fit would not fit in, before anything is started, with the estimate.

    `budget` is what a worker may fetch of the other factor, `drawn` the bytes of a sampler's kept draws, and `kept` how
    many pairs of factors of other fits there are.
    """
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if there.get("CPU", 0) < workers * threads:
        raise InputError(
            f"{workers} workers with {threads} thread{'s' * (threads > 1)} each need {workers * threads} CPUs "
            f"and Ray has {there.get('CPU', 0):g}; give fewer workers or a larger cluster."
        )
    needed = memory_estimate(shape, nnz, rank, dtype, workers, budget, kept) + 2 * drawn
    free = there.get("memory", np.inf)
    if needed > free:
        raise InputError(
            f"This fit needs about {needed / 2**30:.1f} GiB over all workers and Ray has {free / 2**30:.1f} GiB; "
            "give a larger cluster, a smaller rank, a memory_budget, or dtype='float32'."
        )


def memory_estimate(
    shape: tuple[int, int],
    nnz: int,
    rank: int,
    dtype: npt.DTypeLike,
    workers: int,
    budget: float = np.inf,
    kept: int = 0,
) -> float:
    """Bytes that all processes allocate: pairs of factors in shards, at each worker the lines of the other side that
    its entries mention, lists of these, and 250 MB for every process.

    Entries are mapped files or in Ray's object store, as factors on their way are.
    """
    line = np.dtype(dtype).itemsize * padded_width(rank)
    mentioned = max((size * -math.expm1(-nnz / workers / size) for size in shape if size), default=0.0)
    pairs = (PAIRS[rank >= LARGE_RANK] + kept) * line * sum(shape)
    return pairs + workers * min(line * mentioned, budget) + LISTED * nnz + (workers + 1) * PROCESS
