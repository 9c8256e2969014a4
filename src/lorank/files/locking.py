"""What one process at a time may use, claimed by a lock of the system: gone with the process, however that ends.

A lock works between containers too, where process numbers say nothing. Where the system has no such locks, or a shared
disk refuses them, everything is granted.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lorank.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Who holds which lock file in this process: the thread, and how often it has claimed it.
_held: dict[Path, tuple[int, int]] = {}
_guard = threading.Lock()


def try_lock(number: int) -> bool:
    """Lock an open file for as long as it stays open; False if another one holds it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


class Claim:
    """A lock file that this process holds."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, self._number = path, number

    def release(self) -> None:
        """Remove the file, then let go of it: whoever waits for it makes a new one."""
        with suppress(OSError):
            os.unlink(self.path)
        os.close(self._number)


def try_claim(path: Path) -> Claim | None:
    """Claim a lock file, which is made if it is not there; None if another process or thread holds it."""
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        if not try_lock(number):
            os.close(number)
            return None
        try:
            # Whoever held it before may have removed the file since it was opened here.
            if os.path.samestat(os.stat(path), os.fstat(number)):
                return Claim(path, number)
        except FileNotFoundError:
            pass
        os.close(number)


@contextmanager
def claim(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file for the time of the block; a thread may claim again what it holds."""
    path, own = Path(os.path.realpath(path)), threading.get_ident()
    with _guard:
        holder, times = _held.get(path, (own, 0))
        try:
            held = None if times else try_claim(path)
        except OSError as error:
            raise InputError(f"{what} cannot be written ({error.strerror or error}); put it elsewhere.") from None
        if holder != own or (held is None and not times):
            raise InputError(f"{what} is in use by another process or thread; wait for it, or name another.")
        _held[path] = (own, times + 1)
    try:
        yield
    finally:
        with _guard:
            if times:
                _held[path] = (own, times)
            else:
                del _held[path]
                assert held is not None
                held.release()
