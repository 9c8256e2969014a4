"""HTTP connections that do not wait for ever: whoever holds a thousand of them open would keep all others out."""

from __future__ import annotations

import asyncio
from typing import Any

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
except ImportError:  # httptools is not there
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol  # type: ignore[assignment]

# Seconds within which the head of a request must have come, and how many bytes it may have; and how many bytes of an
# answer that waits must have gone within as many seconds.
SECONDS, LARGEST_HEAD, LEAST_TAKEN = 20.0, 1 << 16, 1 << 14


class PatientProtocol(Protocol):
    """Uvicorn's protocol, which has a limit of its own only for the time between two requests.

    The body of a request, and the making of the answer, have their limits in the application.
    """

    _timer: asyncio.TimerHandle | None = None
    _waited_for = 0
    # Whether an answer is being taken, and how much of it was still here when that was looked at last.
    _watch: asyncio.TimerHandle | None = None
    _untaken = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look()
        self._watch = self.loop.call_later(SECONDS, self._look_at_answer)

    def data_received(self, data: bytes) -> None:
        self._waited_for += len(data)
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    @property
    def _under_way(self) -> bool:
        """Whether a request has a head, and no answer yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self) -> None:
        """The clock runs while a head is waited for."""
        if self._under_way:
            self._stop()
        elif self._waited_for > LARGEST_HEAD:
            self._close()
        elif self._timer is None:
            self._timer = self.loop.call_later(SECONDS, self._close)

    def _look_at_answer(self) -> None:
        """Leave a client that does not take its answer, which stays in memory and is not given up by `close` either."""
        left = self.transport.get_write_buffer_size()
        if left and self._untaken and left > self._untaken - LEAST_TAKEN:
            self.transport.abort()
            return
        self._untaken = left
        self._watch = self.loop.call_later(SECONDS, self._look_at_answer)

    def _stop(self) -> None:
        self._waited_for = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if not self._under_way and not self.transport.is_closing():
            self.transport.close()
