"""Three times as much data as the memory that a process is given."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "folder.py"
MEGABYTES = 460
# What keeps libraries from holding on to memory that they have freed: the limit leaves no room for that.
TIGHT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "262144",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA limits what is allocated on Linux only")
def test_a_fit_with_a_third_of_its_blocks_as_memory(tmp_path):
    """RLIMIT_DATA limits what the process allocates, and not the page cache: in memory it could not even begin."""
    size = ["--entries", "62500000", "--users", "80000", "--items", "20000"]
    subprocess.run([sys.executable, BENCHMARK, "make", tmp_path / "data", *size], check=True)
    command = [sys.executable, BENCHMARK, "fit", tmp_path / "data", "--limit-mb", str(MEGABYTES), "--sweeps", "2"]
    env = {**os.environ, **TIGHT, "TMPDIR": str(tmp_path)}
    far = subprocess.run([*command, "--backend", "out-of-core"], env=env, capture_output=True, text=True)
    assert far.returncode == 0, far.stderr
    assert "objective" in far.stdout
    entries = sum(_entries(path) for path in (tmp_path / "data").iterdir())
    assert 2 * entries * 12 > 3 * MEGABYTES * 2**20
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    near = subprocess.run([*command, "--backend", "memory"], env=env, capture_output=True, text=True)
    assert near.returncode != 0


def _entries(path):
    import pyarrow.parquet as pq

    return pq.ParquetFile(path).metadata.num_rows
