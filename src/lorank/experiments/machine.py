"""What the experiments ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from lorank import __version__
from lorank.kernels.parallel import available_cores


def describe() -> dict[str, str]:
    """Processor, cores, memory, system and versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": str(available_cores()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "lorank": __version__,
        **{name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
