"""Where files are kept, and how large they are."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The folder in which this user's system keeps files that can be fetched again; it need not exist yet."""
    return platformdirs.user_cache_path("lorank", appauthor=False)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
