"""A few damaged files of every format, in a child process: a crash is a failure, and not the end of the tests.

The long run is `make fuzz`; docs/explanation/reliability.md has its figures.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

FUZZ = Path(__file__).with_name("fuzz.py")
QUICK = ["csv", "wide csv", "csv.gz", "csv.zip", "parquet", "npz", "npy", "mtx", "model", "shards", "checkpoint"]


def test_damaged_files_are_read_or_refused():
    command = [sys.executable, FUZZ, "--files", "40", "--seed", "7", "--together", "--formats", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert len(done.stdout.splitlines()) == len(QUICK)


@pytest.mark.slow
def test_damaged_netcdf_files_are_read_or_refused():
    pytest.importorskip("xarray", reason="xarray is not installed")
    command = [sys.executable, FUZZ, "--files", "40", "--formats", "nc"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
