"""The model that is being served, and the next one when its file changes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from pathlib import Path

from lorank.models import Model, load
from lorank.models.shards import MANIFEST, is_shards
from lorank.tables.side_tables import with_titles_of

log = logging.getLogger("lorank.serving")

# Seconds between two looks at the file.
PACE = 0.5


class Served:
    """A model read from a file or a folder of shards; `model` is replaced, whole, when the file was.

    A request takes `model` once and keeps it until it is answered, so that none ever sees two. A file that cannot be
    read leaves the last model in its place. Titles of the columns may come from a table beside it.
    """

    def __init__(self, path: Path, titles: Path | None = None) -> None:
        self.path, self.titles = path, titles
        self._seen = self._taken = self._stamp()
        self.model: Model = self._read()
        self.since, self.number = time.time(), 1

    def _read(self) -> Model:
        model = load(self.path)
        return model if self.titles is None else with_titles_of(model, self.titles)

    def _stamp(self) -> tuple[int, ...] | None:
        """What changes when the file does; None while it is not there, or is a pipe, which might never end."""
        path = self.path / MANIFEST if is_shards(self.path) else self.path
        try:
            stat = path.stat()
        except OSError:
            return None
        if path.is_fifo() or path.is_char_device() or path.is_socket():
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    @property
    def version(self) -> str:
        """A short name of what is served, the same in every worker."""
        return hashlib.sha256(repr(self._taken).encode()).hexdigest()[:12]

    def refresh(self) -> bool | None:
        """Look at the file: True if another model was read, False if that failed, None if nothing changed."""
        stamp = self._stamp()
        if stamp is None or stamp == self._seen:
            return None
        try:
            model = self._read()
        except Exception as error:  # whatever is wrong with the new file, the old model goes on
            log.warning("The new model is not taken: %s", error)
            self._seen = stamp
            return False
        self.model, self._seen, self._taken = model, stamp, stamp
        self.since, self.number = time.time(), self.number + 1
        log.info("Serving the new model of %s.", self.path.name)
        return True

    async def follow(self, report: object) -> None:
        """Refresh from time to time, for as long as the server runs; `report` is called with each outcome."""
        while True:
            await asyncio.sleep(PACE)
            outcome = await asyncio.to_thread(self.refresh)
            if outcome is not None and callable(report):
                report(outcome)
