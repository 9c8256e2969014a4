"""A program of its own, which opens a NetCDF file before others do and reads all that fits into memory.

    python -P netcdf_probe.py file seconds bytes

A file that crashes the HDF5 library, that it never comes back from, or for which it takes memory without end, ends
this process and no other. It prints JSON: why the file cannot be opened, and why a variable cannot be read, by name.
"""

import json
import math
import signal
import sys
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Bytes that HDF5 takes for each chunk that it reads: measured with version 2.0, at 100 to 360,000 chunks.
CHUNK = 7000
# Bytes beyond those of a file or of a variable that opening and reading may take: libraries, tables, copies.
MORE = 1 << 30


def bytes_of_chunks(variable: Any) -> int:
    """What HDF5 takes beside the values to read a variable at once; a small file may announce any number of chunks."""
    sizes = variable.encoding.get("chunksizes") or variable.shape
    return CHUNK * math.prod(-(-length // max(1, size)) for length, size in zip(variable.shape, sizes))


def bytes_of(variable: Any) -> int:
    """What it takes to read a variable: as stored and as numbers, and what is kept of its chunks."""
    return int(variable.size * max(16, 2 * variable.dtype.itemsize)) + bytes_of_chunks(variable)


def read(path: Path, seconds: int, free: int) -> dict[str, Any]:
    """Why the file cannot be opened (None if it can), and why variables cannot be read."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)  # should whoever began this be gone
    import xarray

    why: dict[str, str] = {}
    try:
        _allow(10 * path.stat().st_size)
        dataset = xarray.open_dataset(path)
    except Exception as error:
        return {"file": str(error) or type(error).__name__, "variables": why}
    with dataset:
        for name, variable in dataset.variables.items():
            if (needed := bytes_of(variable)) < free:
                _allow(2 * needed)
                try:
                    variable.load()
                except Exception as error:
                    why[str(name)] = str(error) or type(error).__name__
    return {"file": None, "variables": why}


def _allow(size: int) -> None:
    """Bound what this process takes from now on, where the system does."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = pages * resource.getpagesize() + MORE + size
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


if __name__ == "__main__":
    print(json.dumps(read(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
