"""Starting Ray on this machine, or joining a cluster, and leaving nothing behind."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from lorank.errors import InputError
from lorank.files import crc32

# Ray asks for at least 75 MB.
LEAST_STORE = 100 << 20
# What Ray's names leave of the length of a socket's path.
LONGEST_PARENT = 16


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
    if "ray" not in sys.modules and address is None:
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
            yield
        finally:
            ray.shutdown()
        return
    from ray._private import ray_constants

    # Sockets go there, whose paths have at most 107 bytes.
    parent = tempfile.gettempdir() if len(tempfile.gettempdir()) <= LONGEST_PARENT else "/tmp"
    remove_stale("lorank-ray", parent)
    folder = temporary_folder("lorank-ray", parent)
    cluster, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=max(store_bytes, LEAST_STORE),
            _temp_dir=str(folder),
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        yield
    finally:
        ray.shutdown()
        ray_constants.ENABLE_RAY_CLUSTER = cluster
        shutil.rmtree(folder, ignore_errors=True)


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
    """What Ray reads when it is imported: to listen on the loopback instead of every address, to report nothing, and to
    ask for a token, ours alone: other users of this machine cannot talk to it, and no token is left in a file."""
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))


def temporary_folder(kind: str, parent: str | Path | None = None) -> Path:
    """A new temporary folder whose name says which process made it."""
    return Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=parent))


def remove_stale(kind: str, parent: str | Path | None = None) -> None:
    """Remove folders of processes that were killed before they could do it themselves."""
    for folder in Path(parent or tempfile.gettempdir()).glob(f"{kind}-*-*"):
        number = folder.name.removeprefix(f"{kind}-").split("-")[0]
        if number.isdigit() and not psutil.pid_exists(int(number)):
            with suppress(OSError):
                shutil.rmtree(folder)


def machine_number() -> str:
    """A number of this machine: storage may be shared by many, each with process numbers of its own."""
    return f"{crc32(platform.node().encode()):08x}"
