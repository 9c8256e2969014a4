"""Checksums of buffers."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any


def crc32(*parts: Any) -> int:
    """CRC-32 of buffers (bytes or contiguous arrays) one after the other: finds damage, not forgery."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


def sha256(*parts: Any) -> str:
    """SHA-256 of buffers (bytes or contiguous arrays) one after the other, in hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def sha256_of_arrays(arrays: Mapping[str, Any], text: str) -> str:
    """SHA-256 of a text and of arrays with their names, types and shapes, in hexadecimal digits."""
    parts: list[Any] = [text.encode()]
    for name in sorted(arrays):
        array = arrays[name]
        parts.append(f"{name} {array.dtype} {array.shape}".encode())
        # Without numpy, which the help of the command line does not load; in order, so that nothing need be copied.
        parts.append(array.ravel(order="C").view("u1").data if array.size else b"")
    return sha256(*parts)
