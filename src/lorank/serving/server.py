"""Starts the server: one process or several, on one address."""

from __future__ import annotations

import ipaddress
import os
import secrets
import tempfile
from dataclasses import replace
from pathlib import Path

from lorank.errors import InputError
from lorank.files import refuse
from lorank.serving.app import LOOPBACK, Service

try:
    import uvicorn

    from lorank.serving.patience import PatientProtocol
except ImportError:  # said by `serve`
    uvicorn = None  # type: ignore[assignment]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def secured(service: Service, host: str) -> Service:
    """With a token where others can reach the server: the one given, or a new one."""
    if service.token is not None and len(service.token) < 16:
        raise InputError("A token needs at least 16 characters; leave it out to get a new one.")
    names = dict.fromkeys((*LOOPBACK, *service.hosts, *(() if host in ("0.0.0.0", "::") else (host.lower(),))))
    token = service.token if service.token is not None or is_loopback(host) else secrets.token_urlsafe(24)
    return replace(service, token=token, hosts=tuple(names))


def serve(service: Service, host: str = "127.0.0.1", port: int = 8000, workers: int = 1) -> None:
    """Answer until it is interrupted. Workers that die are started again."""
    if uvicorn is None:
        raise ImportError("Serving needs starlette and uvicorn: pip install 'lorank[serve]'.")
    with tempfile.TemporaryDirectory(prefix="lorank-serve-") as folder:
        refuse(service.model, "A model that is served")
        service = replace(service, counts=str(Path(folder) / "counts"), model=str(Path(service.model).resolve()))
        service.to_environment()
        # Kernels compute on one thread in each worker: requests are many and small.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        uvicorn.run(
            "lorank.serving.app:from_environment",
            factory=True,
            http=PatientProtocol,
            host=host,
            port=port,
            workers=workers,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=10,
            limit_concurrency=1000,
            h11_max_incomplete_event_size=1 << 16,
        )
