"""Where files are kept, and how large they are."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from lorank.files import remote


def cache_folder() -> Path:
    """The folder in which this user's system keeps files that can be fetched again; it need not exist yet."""
    return platformdirs.user_cache_path("lorank", appauthor=False)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if (url := remote.url_of(path)) is not None:
        return remote.size(url)
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
