"""A few damaged files of every format, in a child process: a crash is a failure, and not the end of the tests.

The long run is `make fuzz`; docs/explanation/reliability.md has its figures.
"""

import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import lorank
from lorank import tables

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

FUZZ = Path(__file__).with_name("fuzz.py")


def test_damaged_files_are_read_or_refused():
    for module in ("openpyxl", "xarray", "zarr"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    command = [sys.executable, FUZZ, "--files", "40", "--seed", "7", "--together"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert len(done.stdout.splitlines()) == 28  # formats, a line for each


@pytest.mark.slow
def test_damaged_netcdf_files_are_read_or_refused_with_the_child_that_users_have(tmp_path, monkeypatch):
    """The long run forks; here each file has a process of its own, as outside of the tests."""
    pytest.importorskip("xarray", reason="xarray is not installed")
    monkeypatch.syspath_prepend(FUZZ.parent)
    from good_files import netcdf
    from mutations import mutated

    seeds, path = list(netcdf(tmp_path)), tmp_path / "b.nc"
    for number in range(40):
        path.write_bytes(mutated(seeds, np.random.default_rng([1, number])))
        with warnings.catch_warnings(), suppress(lorank.InputError):
            warnings.simplefilter("ignore")
            tables.read(path)
