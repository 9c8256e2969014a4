"""How much memory is free, and a refusal in place of a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

from lorank.errors import MemoryLimitError

# Where Linux tells in which control groups this process is, and what those may use; psutil does not look there.
OWN_GROUPS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def check_memory(needed: int, what: str, advice: str = "predict the entries that you need instead") -> None:
    """Refuse what would not fit into the memory that is free now."""
    free = free_memory()
    if needed > free:
        raise MemoryLimitError(
            f"{what} would take {needed / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; {advice}."
        )


def free_memory() -> int:
    """Bytes that this process can have without swapping or being killed.

    The least of what the machine has and what is left of the limit of each control group (a container's, a batch
    job's) that the process is in; files that are only cached count as free.
    """
    return min([psutil.virtual_memory().available, *_left_in_groups()])


def _left_in_groups() -> Iterator[int]:
    """What is left in the process's control groups and those around them, of version 1 and of version 2."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            root, names = GROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        elif not controllers:
            root, names = GROUPS, ("memory.max", "memory.current", "inactive_file")
        else:
            continue
        # Within a container the path may be that of the host, and only the root is there.
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            limit, used = (_number(folder / name) for name in names[:2])
            if limit is not None and used is not None:
                yield max(0, limit - used + _numbers(folder / "memory.stat").get(names[2], 0))
            if folder == root:
                break


def _number(path: Path) -> int | None:
    """The number that a file holds; None for "max", and if there is no such file."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _numbers(path: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}
