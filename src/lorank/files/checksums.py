"""Checksums of buffers."""

from __future__ import annotations

import hashlib
import zlib
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
